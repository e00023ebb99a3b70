"""Several starts of one crafting, of which each target keeps the best."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from relearn.methods.crafting.evaluation import evaluate
from relearn.methods.crafting.loop import Checkpoint, Crafted, craft
from relearn.methods.crafting.objective import Objective
from relearn.methods.crafting.state import State


def craft_restarted(
    objective: Objective,
    substitutes: Sequence[nn.Module],
    bases: Tensor,
    targets: Tensor,
    *,
    restarts: int,
    eps: float = 0.1,
    iterations: int = 4000,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
    log: Callable[..., None] | None = None,
    checkpoint: Checkpoint | None = None,
    **options: Any,
) -> Crafted:
    """Craft from ``restarts`` starts and keep, for each target, the poisons of the smallest final loss.

    The first start is the bases, so with one start this is :func:`relearn.methods.crafting.craft`. The others are uniform in the
    ball, with the same offset for all targets and random numbers of their own; the jump there is their first iteration.

    Arguments and errors as in ``craft``. The history has the iterations of all starts, one after the other. The outcome is
    ``diverged`` if no start ends well; a loss that is not finite is never the smallest.

    Raises:
        ValueError: ``restarts`` below 1.
    """
    if isinstance(restarts, bool) or not isinstance(restarts, int) or restarts < 1:
        raise ValueError(f"restarts is {restarts!r}; allowed: an integer >= 1")
    given: dict[str, Any] = {"eps": eps, "iterations": iterations, **options}
    if restarts == 1:
        given |= {"progress": progress, "log": log, "checkpoint": checkpoint, "seed": seed}
        return craft(objective, substitutes, bases, targets, **given)

    saved = (checkpoint.load() if checkpoint else None) or {"restart": 0, "best": None}
    best: Crafted | None = None
    if saved["best"]:
        kept: dict[str, Any] = {
            key: value.to(bases) if isinstance(value, Tensor) else value
            for key, value in saved["best"].items()
        }
        best = Crafted(bases=bases, coefficients=[], **kept)
    for number in range(saved["restart"], restarts):
        done = number * iterations

        def note(step: int, done: int = done, **values: float) -> None:
            if log is not None:
                log(done + step, **values)

        def advance(step: int, _: int, done: int = done) -> None:
            if progress is not None:
                progress(done + step, restarts * iterations)

        own = zlib.crc32(f"{seed}/{number}".encode()) if number else seed
        first = _start(objective, substitutes, bases, targets, eps, own, options) if number else None
        given |= {"seed": own, "log": note, "progress": advance}
        place = _Place(checkpoint, number, best, first)
        found = craft(objective, substitutes, bases, targets, **given, checkpoint=place)
        for row in found.history:
            row["iteration"] += done
        best = found if best is None else _better(best, found)
    assert best is not None
    best.bases, best.coefficients = found.bases, found.coefficients
    return best


def _start(
    objective: Objective,
    substitutes: Sequence[nn.Module],
    bases: Tensor,
    targets: Tensor,
    eps: float,
    seed: int,
    options: dict[str, Any],
) -> dict[str, Any]:
    """The state of a crafting whose first iteration was a jump to a uniform point of the ball."""
    draw = torch.Generator().manual_seed(seed)
    state = State(bases.expand(len(targets), *bases.shape[-4:]).clone(), eps)
    offset = torch.rand(bases.shape[-4:], generator=draw, dtype=torch.float64).to(bases)
    state.poisons = torch.lerp(state.lower, state.upper, offset)
    state.iteration = state.jumps = 1
    how = {key: options[key] for key in ("precision", "target_batch") if key in options}
    losses = evaluate(objective, substitutes, state.poisons, targets, **how)[0]
    loss = float(losses.sum(0).mean().nan_to_num(torch.finfo(torch.float32).max))  # a checkpoint has no NaN
    state.history = [{"iteration": 1, "loss_sum": loss, "loss_mean": loss / len(substitutes)}]
    return {**state.dump(), "rng": draw.get_state()}


def _better(best: Crafted, found: Crafted) -> Crafted:
    """Of each target the poisons of the smaller loss; the histories one after the other."""
    losses = (one.final_loss.nan_to_num(torch.inf) for one in (found, best))
    better = torch.lt(*losses)
    best.poisons = torch.where(better[:, None, None, None, None], found.poisons, best.poisons)
    best.final_loss = torch.where(better, found.final_loss, best.final_loss)
    if best.watched is not None and found.watched is not None:
        best.watched = torch.where(better, found.watched, best.watched)
    best.history += found.history
    if found.outcome == "ok":
        best.outcome, best.outcome_step, best.outcome_reason = "ok", None, None
    return best


class _Place:
    """The checkpoint of one start, which also holds the best of the starts before it."""

    def __init__(
        self, checkpoint: Checkpoint | None, number: int, best: Crafted | None, first: dict[str, Any] | None
    ) -> None:
        self.checkpoint, self.number, self.first = checkpoint, number, first
        kept = ("poisons", "final_loss", "watched", "history", "outcome", "outcome_step", "outcome_reason")
        self.best = best and {name: getattr(best, name) for name in kept}

    def load(self) -> dict[str, Any] | None:
        saved = self.checkpoint.load() if self.checkpoint else None
        return saved if saved and saved["restart"] == self.number else self.first

    def save(self, state: dict[str, Any]) -> None:
        if self.checkpoint:
            self.checkpoint.save({**state, "restart": self.number, "best": self.best})
