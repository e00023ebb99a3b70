"""Overhead of crafting: one iteration compared with the forward and backward passes it needs.

Two full-width ResNet18 substitutes, 5 poisons, 32 × 32. Baseline: only forward pass and input gradient of the images in the
same substitutes (evaluation mode, no weight gradients). With dropout, which in the baseline is torch's, the target's
features are recomputed in each iteration, so the target is one of the images; two other lines, for one target and for
ten, count its forward pass as overhead. The last line compares ten targets in one call with a single one, per target.

Only iterations are timed, from the end of the first to the end of the last, without set-up and
evaluation of the result.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import torch
from timing import compare, report
from torch import Tensor, nn

from relearn.maths.eval_mode import frozen
from relearn.methods import convex_polytope, crafting, feature_collision
from relearn.models import create

POISONS, SIZE, TARGETS = 5, 32, 10


class Stopwatch:
    """CPU seconds between the first and the last of `count` laps; the clock does not advance otherwise."""

    def __init__(self) -> None:
        self.total = self.begun = 0.0

    def now(self) -> float:
        return self.total

    def lap(self, done: int, count: int) -> None:
        if done == 1:
            self.begun = time.process_time()
        if done == count:
            self.total += time.process_time() - self.begun


def bare(
    watch: Stopwatch, nets: list[nn.Module], images: Tensor, target: Tensor | None, dropout: bool, laps: int
) -> Callable[[], None]:
    """Forward pass and input gradient in every network, and the target's forward pass if there is a target."""

    def run() -> None:
        with frozen(*nets), ExitStack() as stack:
            for net in nets:
                stack.enter_context(crafting.dropout_active(net, dropout))
            for done in range(1, laps + 1):
                for net in nets:
                    if target is not None:
                        with torch.no_grad():
                            net.features(target)
                    x = images.clone().requires_grad_()
                    torch.autograd.grad(net.features(x).sum(), x)
                watch.lap(done, laps)

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description="crafting iterations against bare passes: CPU time")
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--laps", type=int, default=3, help="iterations a call; all but the first are timed")
    parser.add_argument("--only", help="a part of a row's name: only such rows are measured and replaced")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    laps, watch = arguments.laps, Stopwatch()
    nets: list[nn.Module] = [create("ResNet18", dropout=0.25) for _ in range(2)]
    bases, targets = torch.rand(POISONS, 3, SIZE, SIZE), torch.rand(TARGETS, 3, SIZE, SIZE)

    def craft(attack: Any, targets: Tensor, dropout: bool, laps: int = laps) -> Callable[[], None]:
        options = {"eps": 0.1, "lr": 0.04, "seed": 0, "iterations": laps, "dropout": dropout}
        return lambda: attack.craft(nets, bases, targets, **options, progress=watch.lap)

    def line(what: str, ours: Callable[[], None], reference: Callable[[], None], targets: int = 1) -> None:
        if arguments.only and arguments.only not in what:
            return
        timed = compare(ours, reference, arguments.pairs, clock=watch.now)
        ratios = {name: timed.pop(name) / targets for name in ("ratio", "ratio_low", "ratio_high")}
        rows.append({"iteration": what, **ratios, **timed})
        print(rows[-1], flush=True)

    rows: list[dict[str, Any]] = []
    one = targets[:1]
    for name, attack in (("convex polytope", convex_polytope), ("feature collision", feature_collision)):
        reference = bare(watch, nets, bases, None, False, laps)
        line(f"{name}, Dropout off / bare", craft(attack, one, False), reference)
    line(
        "convex polytope, Dropout on / bare with the target",
        craft(convex_polytope, one, True),
        bare(watch, nets, bases, one, True, laps),
    )
    line(
        "convex polytope, Dropout on / bare without the target",
        craft(convex_polytope, one, True),
        bare(watch, nets, bases, None, True, laps),
    )
    many = bases.repeat(TARGETS, 1, 1, 1)
    line(
        f"convex polytope, Dropout on, {TARGETS} targets / bare without the targets",
        craft(convex_polytope, targets, True, 2),
        bare(watch, nets, many, None, True, 2),
    )
    line(
        f"convex polytope, {TARGETS} targets in one call, each / one alone",
        craft(convex_polytope, targets, False, 2),
        craft(convex_polytope, one, False, 2),
        TARGETS,
    )
    by = ["iteration"] if arguments.only else []
    report(
        "crafting",
        rows,
        part_by=by,
        substitutes="2 x ResNet18",
        poisons=POISONS,
        size=SIZE,
        wanted_ratio=1.10,
    )


if __name__ == "__main__":
    main()
