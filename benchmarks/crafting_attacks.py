"""Cost of the other attacks in the crafting loop: an iteration compared with its forward and backward passes, and memory over time.

One full-width ResNet18, 5 poisons, 32 × 32, one target, dropout off. Baseline as in `crafting.py`: only forward pass and
input gradient of the images in the same network. Gradient matching of all
parameters needs second derivatives, which the baseline does not compute; its ratio shows their cost.

Memory: resident memory of the process after a tenth, half and all iterations (quarter-width ResNet18,
16 × 16, two targets, dropout on).
"""

from __future__ import annotations

import argparse
import functools
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from crafting import POISONS, SIZE, Stopwatch, bare
from timing import compare, report
from torch import nn

from relearn.methods import ATTACKS, load
from relearn.models import create

STATM = Path("/proc/self/statm")
LINES: dict[str, tuple[str, dict[str, Any]]] = {
    "multi-layer": ("multi_layer", {}),
    "multi-layer as released": ("multi_layer", {"form": "as_released"}),
    "bullseye polytope": ("bullseye_polytope", {}),
    "gradient matching, head": ("gradient_matching", {"poison_class": 1, "parameters": "head"}),
    "white-box collision": ("white_box_collision", {}),
    "gradient matching, all parameters": ("gradient_matching", {"poison_class": 1}),
}


def memory(craft: Callable[..., Any], iterations: int) -> dict[str, float | None]:
    """Return resident MiB after a tenth, half and all of the iterations; None if the system does not provide it."""
    looks = {iterations // 10: "early_mib", iterations // 2: "half_mib", iterations: "late_mib"}
    seen: dict[str, float | None] = dict.fromkeys(looks.values())

    def look(done: int, count: int) -> None:
        if done in looks and STATM.exists():
            seen[looks[done]] = int(STATM.read_text().split()[1]) * resource.getpagesize() / 2**20

    craft(iterations=iterations, progress=look)
    return seen


def main() -> None:
    parser = argparse.ArgumentParser(description="crafting iterations of the other attacks: CPU time, memory")
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--laps", type=int, default=3, help="iterations a call; all but the first are timed")
    parser.add_argument("--iterations", type=int, default=100, help="of the runs whose memory is watched")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    laps, watch = arguments.laps, Stopwatch()
    nets: list[nn.Module] = [create("ResNet18", dropout=0.25)]
    narrow: list[nn.Module] = [create("ResNet18", dropout=0.25, width=0.25)]
    bases, targets = torch.rand(POISONS, 3, SIZE, SIZE), torch.rand(2, 3, SIZE, SIZE)
    reference = bare(watch, nets, bases, None, False, laps)
    rows: list[dict[str, Any]] = []
    for name, (method, own) in LINES.items():
        attack = functools.partial(load(ATTACKS, method), eps=0.1, lr=0.04, seed=0, **own)
        options = {"dropout": False, "iterations": laps, "progress": watch.lap}
        ours = functools.partial(attack, nets, bases, targets[:1], **options)
        row = compare(ours, reference, arguments.pairs, clock=watch.now)
        many = functools.partial(attack, narrow, bases[..., ::2, ::2], targets[..., ::2, ::2], dropout=True)
        rows.append({"iteration": f"{name} / bare", **row, **memory(many, arguments.iterations)})
        print(rows[-1], flush=True)
    report(
        "crafting_attacks",
        rows,
        substitutes="ResNet18",
        poisons=POISONS,
        size=SIZE,
        wanted_ratio_multi_layer=1.25,
        memory_iterations=arguments.iterations,
    )


if __name__ == "__main__":
    main()
