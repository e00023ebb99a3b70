"""How many small trainings share one card: steps a second of all processes together, without and with NVIDIA's MPS.

Each process trains a ResNet18 of a quarter of the width (scale small) on 128 CIFAR-sized images in single precision, with forward
pass, backward pass and SGD. All processes begin together after a warm-up, and count their steps for some seconds. The reference is
one process in the same call.

Without MPS the card serves one process at a time, in slices of time. MPS is a server that starts the kernels of several processes
side by side; ``nvidia-cuda-mps-control`` comes with the driver.

    python benchmarks/gpu_sharing.py --processes 1 4 8 16 --mps
    python benchmarks/gpu_sharing.py --processes 1 2 --device cpu --seconds 2      # a rehearsal
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import subprocess
import time
from pathlib import Path
from typing import Any

from timing import report

from relearn.runs.node.mps import served

WARM_UP, BATCH = 10, 128
WORK = "ResNet18, a quarter of the width, 128 images, fp32"
PATIENCE_S = 90.0


def train(device: str, seconds: float, start: Any, steps: Any) -> None:
    """Count training steps during ``seconds`` after the others are ready, too."""
    import torch
    from torch.nn.functional import cross_entropy

    from relearn.models import create

    torch.set_num_threads(1)
    torch.backends.cudnn.allow_tf32 = False
    net = create("ResNet18", width=0.25).to(device)
    optimiser = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    images, labels = (
        torch.rand(BATCH, 3, 32, 32, device=device),
        torch.zeros(BATCH, dtype=torch.long, device=device),
    )

    def step() -> None:
        optimiser.zero_grad()
        loss = cross_entropy(net(images), labels)
        loss.backward()
        optimiser.step()
        loss.item()  # waits for the device

    for _ in range(WARM_UP if device != "cpu" else 1):
        step()
    start.wait(PATIENCE_S)
    until, count = time.perf_counter() + seconds, 0
    while time.perf_counter() < until:
        step()
        count += 1
    steps.put(count)


def together(processes: int, device: str, seconds: float) -> float | str:
    """Steps a second of all processes."""
    context = multiprocessing.get_context("spawn")
    start, steps = context.Barrier(processes), context.Queue()
    started = [context.Process(target=train, args=(device, seconds, start, steps)) for _ in range(processes)]
    for one in started:
        one.start()
    try:
        return sum(steps.get(timeout=PATIENCE_S + seconds) for _ in started) / seconds
    except Exception as error:
        return f"{type(error).__name__} with {processes} processes"
    finally:
        for one in started:
            one.join(5)
            one.kill()


def main() -> None:
    parser = argparse.ArgumentParser(description="how many small trainings share one card")
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 4, 8, 16])
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--mps", action="store_true")
    parser.add_argument("--out", type=Path, help="default: results.json beside this script")
    arguments = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for kind in ("plain", *(("mps",) if arguments.mps else ())):
        try:
            with served() if kind == "mps" else contextlib.nullcontext():
                for count in arguments.processes:
                    rate = together(count, arguments.device, arguments.seconds)
                    rows.append({"kind": kind, "processes": count, "steps_per_s": rate})
                    print(f"{kind:6} {count:3} processes: {rate} steps/s", flush=True)
        except (OSError, subprocess.SubprocessError) as error:
            rows.append({"kind": kind, "steps_per_s": str(error)})
            print(f"{kind}: {error}", flush=True)
    if arguments.out:
        arguments.out.write_text(json.dumps(rows, indent=1) + "\n")
    elif arguments.device != "cpu":
        report("gpu_sharing", rows, work=WORK, seconds=arguments.seconds)


if __name__ == "__main__":
    main()
