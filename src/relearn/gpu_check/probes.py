"""Probes for what no single run shows: memory over iterations, compiled networks, data-parallel training in two processes.

Each probe runs in its own process:

    python -m relearn.gpu_check.probes memory --device cuda:0

The last line of its output is a JSON object with ``ok`` and the measured numbers.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from typing import Any

STEPS = 60
GROWTH_MIB = {"cuda": 1.0, "cpu": 48.0}
"""Allowed growth: a device's allocator counts exactly; resident memory of a process moves by caches and arenas."""
COMPILE_LIMIT = 1e-3  # relative difference of the weights after equal numbers of steps
PARALLEL_LIMIT = 1e-4


def network(norm: bool = True) -> Any:
    """A small convolutional network with a method ``features``, as the attacks require."""
    import torch
    from torch import nn

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            body = [nn.Conv2d(3, 16, 3, 2), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 32, 3, 2), nn.ReLU()]
            self.body = nn.Sequential(
                *(layer for layer in body if norm or not isinstance(layer, nn.BatchNorm2d))
            )
            self.head = nn.Linear(32, 10)

        def features(self, x: torch.Tensor) -> torch.Tensor:
            return self.body(x).mean((2, 3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(self.features(x))

    torch.manual_seed(0)
    return Net()


def training(device: str, steps: int, norm: bool = True, **more: Any) -> Any:
    """Train the network on noise for the given number of steps, and return it."""
    import torch

    from relearn.methods.fit import fit

    net = network(norm).to(device)
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (256, 3, 32, 32), dtype=torch.uint8, generator=generator).to(device)
    labels = torch.randint(0, 10, (256,), generator=generator).to(device)
    loss = torch.nn.functional.cross_entropy
    fit(net, (images, labels), loss=loss, steps=steps, batch_size=64, lr=0.01, seed=0, **more)
    return net


def memory(device: str) -> dict[str, Any]:
    """Memory in use after a sixth of the steps and after all steps, of a training run and of an attack."""
    import torch

    from relearn.methods import convex_polytope

    found: dict[str, Any] = {}

    def watched(name: str) -> Callable[[int, int], None]:
        def progress(done: int, total: int) -> None:
            if done in (total // 6, total):
                found.setdefault(name, []).append(_in_use(device) / 2**20)

        return progress

    training(device, STEPS, progress=watched("training_mib"))
    net = network().to(device)
    bases, targets = torch.rand(5, 3, 32, 32, device=device), torch.rand(8, 3, 32, 32, device=device)
    convex_polytope.craft([net], bases, targets, iterations=STEPS, progress=watched("attack_mib"))
    growth = max(last - first for first, last in found.values())
    return {"ok": growth <= GROWTH_MIB[device.split(":")[0]], "growth_mib": growth, **found}


def compiled(device: str) -> dict[str, Any]:
    """Relative difference of the weights between training with each available mode of torch.compile and plain training."""
    from relearn.methods import acceleration

    modes = ("default", "reduce-overhead") if device.startswith("cuda") else ("aot_eager",)
    plain, ok = _weights(training(device, 20)), True
    found: dict[str, float | str] = {}
    for mode in modes:
        acceleration.use(mode)
        try:
            apart = _apart(plain, _weights(training(device, 20)))
            found[mode], ok = apart, ok and apart <= COMPILE_LIMIT
        except Exception as error:  # mode not available here: no compiler or no Triton
            found[mode] = f"not offered: {type(error).__name__}: {str(error).splitlines()[0][:120]}"
        acceleration.use(acceleration.OFF)
    return {"ok": ok, "apart": found, "limit": COMPILE_LIMIT}


def parallel(device: str) -> dict[str, Any]:
    """Compares training in two processes with one: by NCCL if there are two devices, otherwise both on one device, by gloo."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    given = {**os.environ, "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    words = [sys.executable, "-m", __spec__.name, "rank", "--device", device]
    ranks = [
        subprocess.Popen(words, env={**given, "RANK": str(rank)}, stdout=subprocess.PIPE, text=True)
        for rank in (0, 1)
    ]
    told = [process.communicate()[0] for process in ranks]
    if any(process.returncode for process in ranks):
        return {"ok": False, "why": "a process failed; see standard error"}
    there = json.loads(told[0].splitlines()[-1])
    apart = _apart(_weights(training(device, 12, norm=False)), there["weights"])
    return {"ok": apart <= PARALLEL_LIMIT, "apart": apart, "limit": PARALLEL_LIMIT, "by": there["by"]}


def rank(device: str) -> dict[str, Any]:
    """One process of :func:`parallel`."""
    import torch
    import torch.distributed as dist

    from relearn.methods import parallel as processes

    several = device.startswith("cuda") and torch.cuda.device_count() > 1
    if several:
        device = f"cuda:{os.environ['RANK']}"
        torch.cuda.set_device(torch.device(device))
    by = "nccl" if several else "gloo"
    dist.init_process_group(by)
    net = training(device, 12, norm=False, processes=processes)
    dist.destroy_process_group()
    return {"ok": True, "weights": _weights(net), "by": by}


def _weights(net: Any) -> list[float]:
    import torch

    return torch.cat([one.detach().float().flatten() for one in net.parameters()]).cpu().tolist()


def _apart(a: list[float], b: list[float]) -> float:
    """Relative L2 distance of two lists of weights, with respect to the first."""
    gap = sum((x - y) ** 2 for x, y in zip(a, b, strict=True))
    return (gap / sum(x * x for x in a)) ** 0.5


def _in_use(device: str) -> float:
    import torch

    if device.startswith("cuda"):
        torch.cuda.synchronize(device)
        return float(torch.cuda.memory_allocated(device))
    with open("/proc/self/statm") as file:
        return float(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


PROBES = {"memory": memory, "compiled": compiled, "parallel": parallel}


def main() -> None:
    """Run the named probe and print its result."""
    parser = argparse.ArgumentParser()
    parser.add_argument("probe", choices=(*PROBES, "rank"))
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args()
    print(json.dumps((PROBES | {"rank": rank})[args.probe](args.device)))


if __name__ == "__main__":
    main()
