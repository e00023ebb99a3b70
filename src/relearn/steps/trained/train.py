"""One training of a step: `fit` with evaluations off the clock, a checkpoint, a history and an outcome in the words of a record."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from relearn.steps.trained.clock import Clock
from relearn.steps.trained.spacing import spacing

if TYPE_CHECKING:
    from relearn.methods.fit import Fitted

FEWEST_STEPS = 50  # between two checkpoints
RECIPE = ("steps", "lr", "weight_decay", "betas", "schedule", "warmup_steps", "clip_norm")


@dataclass
class Ended:
    """How a training ended.

    Args:
        fitted: what `fit` returned.
        clock: time of the training without its evaluations.
        outcome: ``ok``, ``diverged`` or ``not_converged``.
        at: the step of a divergence.
        reason: why the outcome is not ``ok``.
    """

    fitted: Fitted
    clock: Clock
    outcome: str
    at: int | None
    reason: str | None

    def not_converged(self, reason: str) -> None:
        self.outcome, self.reason = "not_converged", reason

    def finish(self) -> dict[str, Any]:
        """The arguments of ``run.finish`` that state the outcome."""
        return {"outcome": self.outcome, "outcome_step": self.at, "outcome_reason": self.reason}


def train(
    run: Any,
    title: str,
    net: Any,
    source: Any,
    *,
    recipe: Mapping[str, Any],
    evaluate: Callable[[Any], Mapping[str, float]],
    judged_by: str,
    device: str,
    diverged: str = "loss not finite",
    **more: Any,
) -> Ended:
    """Train ``net`` with AdamW by ``recipe``.

    Args:
        run: the run; its log gets the history, its work folder the checkpoint.
        title: of the progress bar.
        net, source: model and data, as `fit` takes them.
        recipe: steps, evaluations, lr, weight_decay, betas, adam_eps, schedule, warmup_steps, clip_norm.
        evaluate: ``evaluate(net)`` → metrics of a row of the history; its time is not counted.
        judged_by: a metric that every evaluation of a finite network returns. A training whose last evaluation lacks
            it has diverged.
        device: device string.
        diverged: reason stated for a divergence that `fit` finds.
        more: further arguments of `fit`, over those of the recipe.
    """
    from relearn.methods.fit import fit
    from relearn.runs.checkpoint import Checkpoint
    from relearn.runs.console import Progress

    clock, steps = Clock(device), recipe["steps"]
    row, every = spacing(steps, recipe["evaluations"])

    given = {key: recipe[key] for key in RECIPE} | {"eps": recipe["adam_eps"], "optimizer": "adamw"} | more
    with Progress(title) as progress:
        clock.start()
        fitted = fit(
            net,
            source,
            **given,
            evaluate=clock.excluding(evaluate),
            evaluate_every=every,
            history_steps=row,
            log=run.log,
            progress=clock.counting(progress),
            checkpoint=Checkpoint(run.work / "fit"),
            checkpoint_steps=max(FEWEST_STEPS, steps // 10),
        )
        clock.stop()
    net.eval()
    return judged(fitted, clock, judged_by, diverged)


def judged(fitted: Fitted, clock: Clock, by: str, diverged: str) -> Ended:
    """How a training ended, by what `fit` returned and whether the last row of its history has the metric ``by``."""
    if fitted.outcome == "diverged":
        return Ended(fitted, clock, "diverged", fitted.outcome_step, diverged)
    if by not in fitted.history[-1]:
        return Ended(fitted, clock, "diverged", fitted.steps, "outputs not finite")
    return Ended(fitted, clock, fitted.outcome, fitted.outcome_step, None)
