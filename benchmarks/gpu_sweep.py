"""Figure 2.5's crafting on one card: a forecast from operations and bytes, and with ``--measure`` the measurement beside it.

zhu2022, section 2.2.8: convex polytope, 50 targets with 5 poisons each, 18 substitutes (six networks, three dropout rates), 4,000
iterations. All targets are one batch; the substitutes follow each other. Per iteration and substitute: a forward pass of 250
poisons with the gradient of their pixels, a forward pass of 50 targets (dropout resamples their features), the coefficients.

An operation takes

    max(FLOP / (share of peak x lanes), bytes / share of bandwidth)

seconds on the device, where ``lanes`` is min(1, channels of a group / 32) for a convolution: narrow groups leave the matrix units
idle. The host starts one operation after the other, so a network takes max(sum of these, operations x launch), and the coefficients,
whose certificate the host reads, take their launches on top. ``compiled``: everything between two convolutions or products is one
pass over the output of the first, and the network's launches are replayed as one CUDA graph. Operations and bytes are counted on
torch's meta device (bf16), those of the coefficients and of Adam on the CPU; batch normalisation is folded into the convolutions, as
in the attack. What is ASSUMED: the shares of the published peak (CARDS) and the time of a launch, each as a range.

``--measure`` times some iterations of the whole sweep (18 substitutes; also with cuDNN's choice by trial), of each network alone, and
of the networks of ``--compiled`` by torch.compile; all on random weights and images.

    python benchmarks/gpu_sweep.py                  # the forecast for an H200; seconds on a CPU
    python benchmarks/gpu_sweep.py --measure --card h100
    python benchmarks/gpu_sweep.py --measure --device cpu --width 0.1 --targets 2 --iterations 2   # a rehearsal
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from timing import keep
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from relearn.methods import acceleration, convex_polytope
from relearn.methods.crafting.folding import folded
from relearn.models import create

NETWORKS = ("SENet18", "ResNet50", "ResNeXt29-2x64d", "DPN92", "MobileNetV2", "GoogLeNet")
DROPOUT = (0.2, 0.25, 0.3)
TARGETS, POISONS, ITERATIONS, SIZE = 50, 5, 4000, 32
CARDS = {"h100": (989e12, 3.35e12), "h200": (989e12, 4.8e12)}  # as published: dense bf16 FLOP/s, bytes/s
LIMIT_MINUTES = 15.0


class Assumed(NamedTuple):
    """Shares of the published rates, seconds to start an operation, and the rates."""

    flop: float
    bandwidth: float
    launch_s: float
    peak: float = 0.0
    bytes_per_s: float = 0.0


ASSUMED = {
    "optimistic": Assumed(0.6, 0.9, 4e-6),
    "central": Assumed(0.35, 0.7, 7e-6),
    "pessimistic": Assumed(0.2, 0.5, 12e-6),
}


class Operation(NamedTuple):
    """FLOP, share of the lanes that they can use, bytes in and out, bytes out."""

    flop: float = 0.0
    lanes: float = 1.0
    moved: float = 0.0
    written: float = 0.0

    def seconds(self, by: Assumed) -> float:
        return max(self.flop / (by.peak * by.flop * self.lanes), self.moved / (by.bytes_per_s * by.bandwidth))


class Operations(TorchDispatchMode):
    """FLOP and bytes of every operation below it."""

    def __init__(self) -> None:
        super().__init__()
        self.listed: list[Operation] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if func.is_view or func.namespace == "prim":
            return out
        known = flop_registry.get(func._overloadpacket)
        flop = float(known(*args, **(kwargs or {}), out_val=out)) if known else 0.0
        lanes = 1.0
        if "convolution" in func.name():
            weight = args[2] if "backward" in func.name() else args[1]
            lanes = min(1.0, weight.shape[1] / 32)
        self.listed.append(Operation(flop, lanes, _bytes((args, kwargs, out)), _bytes(out)))
        return out

    def device_s(self, by: Assumed) -> float:
        """Seconds on the device."""
        return sum(one.seconds(by) for one in self.listed)

    def fused_s(self, by: Assumed) -> float:
        """The same with one pass over the output of every convolution or product in place of all between them."""
        kept = [one for one in self.listed if one.flop]
        return sum(one.seconds(by) + Operation(moved=2 * one.written).seconds(by) for one in kept)

    def launch_s(self, by: Assumed) -> float:
        """Seconds of the host to start them."""
        return len(self.listed) * by.launch_s


def _bytes(values: Any) -> float:
    return float(
        sum(one.numel() * one.element_size() for one in tree_leaves(values) if isinstance(one, Tensor))
    )


def network_pass(name: str, targets: int) -> Operations:
    """One iteration's passes through one substitute."""
    with torch.device("meta"):
        net = create(name, dropout=DROPOUT[0]).eval().requires_grad_(False).to(torch.bfloat16)
        poisons = torch.empty(targets * POISONS, 3, SIZE, SIZE, dtype=torch.bfloat16, requires_grad=True)
        reference = torch.empty(targets, 3, SIZE, SIZE, dtype=torch.bfloat16)
    with folded([net], "bf16"), Operations() as counted:
        torch.autograd.grad(net.features(poisons).sum(), poisons)
        with torch.no_grad():
            net.features(reference)
    return counted


class Flat(nn.Module):
    """Features without a network: what is left of an iteration is the attack's own."""

    def features(self, x: Tensor) -> Tensor:
        return x.flatten(1)


def own_operations(targets: int) -> tuple[Operations, Operations]:
    """What an iteration adds for each substitute (coefficients, loss), and once (Adam, projection)."""

    def counted(substitutes: int, iterations: int) -> int:
        bases, images = torch.rand(POISONS, 3, 8, 8), torch.rand(targets, 3, 8, 8)
        with Operations() as found:
            convex_polytope.craft([Flat()] * substitutes, bases, images, iterations=iterations, dropout=True)
        return len(found.listed)

    one, two = (counted(n, 2) - counted(n, 1) for n in (1, 2))
    each, once = Operations(), Operations()
    each.listed, once.listed = [Operation()] * (two - one), [Operation()] * (2 * one - two)
    return each, once


def forecast(card: str, targets: int = TARGETS, iterations: int = ITERATIONS) -> dict[str, Any]:
    """Minutes of the sweep by each set of assumptions, and FLOP, bytes and operations of an iteration."""
    peak, bytes_per_s = CARDS[card]
    assumed = {label: by._replace(peak=peak, bytes_per_s=bytes_per_s) for label, by in ASSUMED.items()}
    passes = {name: network_pass(name, targets) for name in NETWORKS}
    each, once = own_operations(targets)
    rows: dict[str, dict[str, float]] = {}
    whole: dict[str, float] = {}
    for name, counted in passes.items():
        row: dict[str, float] = {
            "gflop": sum(one.flop for one in counted.listed) / 1e9,
            "gbyte": sum(one.moved for one in counted.listed) / 1e9,
            "operations": float(len(counted.listed) + len(each.listed)),
        }
        for label, by in assumed.items():
            own = each.launch_s(by)
            row[f"{label}_ms"] = 1e3 * (max(counted.device_s(by), counted.launch_s(by)) + own)
            row[f"{label}_compiled_ms"] = 1e3 * (counted.fused_s(by) + own)
        rows[name] = row
    for label, by in assumed.items():
        for kind in ("", "_compiled"):
            a_network = sum(row[f"{label}{kind}_ms"] for row in rows.values()) / 1e3
            seconds = (len(DROPOUT) * a_network + once.launch_s(by)) * iterations
            whole[f"{label}{kind}_minutes"] = seconds / 60
    flop = len(DROPOUT) * iterations * sum(row["gflop"] for row in rows.values()) * 1e9
    return {
        "card": card,
        "networks": rows,
        "whole": whole,
        "flop": flop,
        "assumed": {k: v._asdict() for k, v in assumed.items()},
    }


def measure(
    device: str, targets: int, iterations: int, width: float, to_compile: Sequence[str]
) -> dict[str, Any]:
    """Milliseconds of an iteration, of the whole sweep and by network, and the minutes of 4,000 iterations; all in bf16."""
    generator = torch.Generator().manual_seed(0)
    bases = torch.rand(POISONS, 3, SIZE, SIZE, generator=generator).to(device)
    images = torch.rand(targets, 3, SIZE, SIZE, generator=generator).to(device)

    def timed(nets: list[nn.Module], mode: str = "off") -> float | str:
        acceleration.use(mode)
        clock = Clock(device, warm_up=max(1, iterations // 4))
        options: dict[str, Any] = {"iterations": iterations, "precision": "bf16", "progress": clock.lap}
        try:
            convex_polytope.craft(nets, bases, images, **options)
        except Exception as error:  # a mode that is not offered must not cost the others
            return f"{type(error).__name__}: {str(error).splitlines()[0][:120]}"
        finally:
            acceleration.use("off")
        return 1e3 * clock.an_iteration()

    def network(name: str, rate: float) -> nn.Module:
        return create(name, dropout=rate, width=width).to(device)

    every = [network(name, rate) for name in NETWORKS for rate in DROPOUT]
    whole = timed(every)
    found: dict[str, Any] = {"whole_ms": whole}
    with torch.backends.cudnn.flags(enabled=True, benchmark=True):
        found["whole_autotuned_ms"] = timed(every)
    del every
    if not isinstance(whole, str):
        found["minutes"] = whole * ITERATIONS / 60e3
    if device.startswith("cuda"):
        found["peak_gib"] = torch.cuda.max_memory_allocated() / 2**30
    print("MEASURED", json.dumps(found), flush=True)
    for name in NETWORKS:
        row = {"off_ms": timed([network(name, DROPOUT[0])])}
        for mode in ("default", "reduce-overhead") if name in to_compile else ():
            began = time.perf_counter()
            row[f"{mode}_ms"] = timed([network(name, DROPOUT[0])], mode)
            row[f"{mode}_first_s"] = time.perf_counter() - began
        found.setdefault("networks", {})[name] = row
        print(f"  {name:16}", json.dumps(row), flush=True)
    return found


class Clock:
    """Seconds of an iteration, from the end of the last warm-up iteration to the end of the last one."""

    def __init__(self, device: str, warm_up: int) -> None:
        self.wait: Callable[[], object] = (
            torch.cuda.synchronize if device.startswith("cuda") else lambda: None
        )
        self.warm_up, self.began, self.ended, self.count = warm_up, 0.0, 0.0, 0

    def lap(self, done: int, total: int) -> None:
        if done not in (self.warm_up, total):
            return
        self.wait()
        if done == self.warm_up:
            self.began = time.perf_counter()
        if done == total:
            self.ended, self.count = time.perf_counter(), total - self.warm_up

    def an_iteration(self) -> float:
        return (self.ended - self.began) / max(self.count, 1)


def main() -> None:
    parser = argparse.ArgumentParser(
        description="figure 2.5's crafting on one GPU: forecast, and measurement"
    )
    parser.add_argument("--measure", action="store_true")
    parser.add_argument(
        "--card", choices=CARDS, default="h200", help="whose published rates the forecast uses"
    )
    parser.add_argument("--device", default="cuda")
    parser.add_argument(
        "--compiled", nargs="*", choices=NETWORKS, default=[], help="also compile these networks"
    )
    parser.add_argument("--targets", type=int, default=TARGETS)
    parser.add_argument("--iterations", type=int, default=20, help="that are timed")
    parser.add_argument("--width", type=float, default=1.0)
    parser.add_argument("--out", type=Path, help="default: results.json beside this script")
    arguments = parser.parse_args()
    found = forecast(arguments.card)
    result: dict[str, Any] = {"forecast": found, "limit_minutes": LIMIT_MINUTES}
    print(
        f"FORECAST, no measurement: 50 targets x 18 substitutes x 4,000 iterations, {found['flop']:.3g} FLOP"
    )
    for name, row in found["networks"].items():
        print(f"  {name:16} " + "  ".join(f"{key} {value:.4g}" for key, value in row.items()))
    for key, minutes in found["whole"].items():
        print(f"  {key:30} {minutes:6.1f}")
    if arguments.measure:
        wanted = arguments.targets, arguments.iterations, arguments.width
        where = torch.cuda.get_device_name() if arguments.device.startswith("cuda") else "CPU: a rehearsal"
        result["measured"] = {
            "on": where,
            "targets": arguments.targets,
            "width": arguments.width,
            **measure(arguments.device, *wanted, arguments.compiled),
        }
    if not arguments.measure or arguments.device.startswith("cuda"):
        if arguments.out:
            arguments.out.write_text(json.dumps(result, indent=1) + "\n")
        else:
            keep("gpu_sweep", result)


if __name__ == "__main__":
    main()
