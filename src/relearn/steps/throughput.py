"""throughput: images per second and peak memory of a vision network compared with another one in the same run.

Settings: network (a printed name, see :data:`NETWORKS`; or, as in `train_vision`, a table of a timm name and arguments),
batch_size, size (side of the images), pairs. Optional: as_released (default false; for a printed name), classes (1000), modes (both),
memory (true: measured in one process per network and mode), and against (a timm name or such a table; required if network is a table,
otherwise the Swin of the same size). No input: images are random.
Output: throughput.csv (mode, pair, own_s, reference_s).

``inference`` is a forward pass in evaluation mode; ``training`` is forward pass, loss, backward pass and AdamW step. Steps of the two
networks alternate, and every second pair runs in the opposite order; the first pair is a warm-up that is not counted. Times are CPU
time of this process on a CPU (a shared machine distorts wall time), and wall time with synchronisation on a GPU. Peak memory on a GPU
is that of the allocator. On a CPU it is the peak of resident bytes during a step, in a separate process, minus the resident bytes
before the network was created; it includes weights, gradients, moments and activations.

Metrics: images_per_s, train_images_per_s (batch size over the median time), peak_memory_mb, train_peak_memory_mb (10^6 bytes), and for
each *_ratio, ours over the reference's (speeds: the median over the pairs). The train_* metrics exist only if modes include training,
the *memory* metrics only with memory.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

from relearn.runs.settings import rest
from relearn.steps.trained.step_time import clock_of, in_turns

NEEDS_TORCH = True
COLUMNS = ("mode", "pair", "own_s", "reference_s")
NETWORKS = {
    f"LipsFormer-Swin-{letter}": (f"lipsformer_swin_{size}", f"swin_{size}_patch4_window7_224")
    for letter, size in {"T": "tiny", "S": "small", "B": "base", "L": "large"}.items()
}
"""Network as printed → its name in timm, and the network beside it."""
MODES = {"inference": "", "training": "train_"}
SMALL = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "0", "MALLOC_ARENA_MAX": "1"}
"""A freed block goes back to the system at once, or the allocator's habits would be measured."""


@dataclass(frozen=True, kw_only=True)
class Network:
    name: str
    arguments: Mapping[str, Any] = rest()


@dataclass(frozen=True, kw_only=True)
class Settings:
    network: str | Network
    against: str | Network | None = None
    as_released: bool = False
    batch_size: int
    size: int
    classes: int = 1000
    pairs: int
    modes: Sequence[Literal["inference", "training"]] | None = None
    memory: bool = True


def run(run, settings: Settings, inputs: dict[str, list[Path]], device: str, precision: str) -> None:
    from relearn.runs.console import Progress
    from relearn.steps.csv_rows import write_rows

    batch, size, pairs = settings.batch_size, settings.size, settings.pairs
    for key, value in (("batch_size", batch), ("size", size), ("pairs", pairs)):
        if value < 1:
            raise ValueError(f"{key}: {value} (allowed: at least 1)")
    own, beside = sides_of(settings)
    common: dict[str, Any] = {"batch_size": batch, "size": size, "classes": settings.classes}
    common |= {"device": device, "precision": precision}
    sides = [{**common, "name": side.name, "arguments": side.arguments} for side in (own, beside)]
    modes = [mode for mode in MODES if not settings.modes or mode in settings.modes]
    peaks = (
        peak_bytes([{**side, "mode": mode} for mode in modes for side in sides]) if settings.memory else []
    )
    rows: list[dict[str, Any]] = []
    metrics: dict[str, float] = {}
    with Progress(f"throughput {own.name}") as progress:
        for mode in modes:
            prefix = MODES[mode]
            if settings.memory:
                ours, theirs, *peaks = peaks
                metrics[f"{prefix}peak_memory_mb"] = ours / 1e6
                metrics[f"{prefix}peak_memory_mb_ratio"] = ours / theirs
            times = in_turns([make_step(**side, mode=mode) for side in sides], pairs, device)
            rows += [
                {"mode": mode, "pair": pair, "own_s": a, "reference_s": b}
                for pair, (a, b) in enumerate(times)
            ]
            speed = batch / statistics.median(a for a, _ in times)
            metrics |= {
                f"{prefix}images_per_s": speed,
                f"{prefix}images_per_s_ratio": statistics.median(b / a for a, b in times),
            }
            progress(len(rows), len(modes) * pairs)
    write_rows(run.output("throughput.csv"), COLUMNS, rows)
    run.finish(metrics, notes=[f"{clock_of(device)}; beside {beside.name}, batches of {batch}, {precision}"])


def sides_of(settings: Settings) -> tuple[Network, Network]:
    """The network and its reference.

    Raises:
        ValueError: an unknown printed name; a table without a reference.
    """
    network, against = settings.network, settings.against
    if isinstance(against, str):
        against = Network(name=against)
    if isinstance(network, str):
        if network not in NETWORKS:
            raise ValueError(f"network: {network!r} (allowed: {', '.join(NETWORKS)}, or a table with a name)")
        own, swin = NETWORKS[network]
        more = {"as_released": True} if settings.as_released else {}
        return Network(name=own, arguments=more), against or Network(name=swin)
    if against is None:
        raise ValueError("against: nothing (allowed beside a table: a name of timm's, or a table with one)")
    return network, against


def make_step(
    *,
    name: str,
    arguments: Mapping[str, Any],
    mode: str,
    batch_size: int,
    size: int,
    classes: int,
    device: str,
    precision: str,
) -> Callable[[], None]:
    """Return a function that passes one batch through the network; training uses a tiny learning rate, so that steps do not change."""
    import torch

    from relearn.models.vision import create

    torch.manual_seed(0)
    net = create(name, classes=classes, size=size, **arguments).to(device).train(mode == "training")
    images = torch.rand(batch_size, 3, size, size, device=device)
    labels = torch.randint(classes, (batch_size,), device=device)
    kind, mixed = torch.device(device).type, precision == "bf16"
    if mode == "inference":

        def infer() -> None:
            with torch.inference_mode(), torch.autocast(kind, torch.bfloat16, enabled=mixed):
                net(images)

        return infer
    optimiser = torch.optim.AdamW(net.parameters(), lr=1e-6)

    def train() -> None:
        optimiser.zero_grad(set_to_none=True)
        with torch.autocast(kind, torch.bfloat16, enabled=mixed):
            loss = torch.nn.functional.cross_entropy(net(images), labels)
        loss.backward()
        optimiser.step()

    return train


def peak_bytes(sides: list[dict[str, Any]]) -> list[int]:
    """Peak memory of the second step of each network, on the device or in a process of its own."""
    if sides[0]["device"].startswith("cuda"):
        return [allocated_bytes(side) for side in sides]
    import torch

    words = [sys.executable, "-m", __name__, str(torch.get_num_threads()), json.dumps(sides)]
    done = subprocess.run(words, env={**os.environ, **SMALL}, stdout=subprocess.PIPE, text=True, check=True)
    return [int(line) for line in done.stdout.split()]


def allocated_bytes(side: dict[str, Any]) -> int:
    """Growth of the allocator's peak on a GPU by a network and its second step."""
    torch = import_module("torch")
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated(side["device"])
    step = make_step(**side)
    step()
    torch.cuda.reset_peak_memory_stats(side["device"])
    step()
    return torch.cuda.max_memory_allocated(side["device"]) - before


def resident_bytes(side: dict[str, Any]) -> int:
    """Growth of this process's peak memory by a network and its step; a batch of one is run first, which loads the libraries."""
    from relearn.runs.provenance import resident_peak

    make_step(**{**side, "batch_size": 1})()
    gc.collect()
    with contextlib.suppress(OSError):  # without this file, the peak includes everything before
        Path("/proc/self/clear_refs").write_text("5")
    before = resident_peak()
    step = make_step(**side)
    step()
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    step()
    return resident_peak() - before


def _in_a_fork(side: dict[str, Any], threads: int) -> None:
    """Print the `resident_bytes` of a copy of this process, which has imported everything but computed nothing.

    Raises:
        SystemExit: the copy failed; it has said why.
    """
    import torch

    from relearn.runs import orphan_guard

    if (pid := os.fork()) == 0:
        status = 1
        try:
            orphan_guard.watch()  # ends with the engine, like the job that waits for it
            torch.set_num_threads(threads)
            print(resident_bytes(side), flush=True)
            status = 0
        except Exception as error:
            print(f"{side['name']}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
        os._exit(status)
    if os.waitpid(pid, 0)[1]:
        raise SystemExit(1)


if __name__ == "__main__":
    for module in ("relearn.models.timm_names", "relearn.models.vision_classifier", "timm"):
        import_module(module)  # once for all networks
    for one in json.loads(sys.argv[2]):
        _in_a_fork(one, int(sys.argv[1]))
