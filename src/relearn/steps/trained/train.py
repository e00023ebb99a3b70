"""One training of a step: `fit` with untimed evaluations, a checkpoint, a history and an outcome as stored in a record."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from relearn.steps.trained.clock import Clock

if TYPE_CHECKING:
    from relearn.methods.fit import Fitted
    from relearn.steps.trained.recipe import Recipe, SgdEpochs


@dataclass
class Ended:
    """The end of a training.

    Args:
        fitted: the result of `fit`.
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
    recipe: Recipe | SgdEpochs,
    evaluate: Callable[[Any], Mapping[str, float]],
    judged_by: str,
    device: str,
    diverged: str = "loss not finite",
    **more: Any,
) -> Ended:
    """Train ``net`` by ``recipe``.

    Args:
        run: the run; its log gets the history, its work folder the checkpoint.
        title: of the progress bar.
        net, source: model and data, as for `fit`.
        recipe: how long, at which rate, and how often it is evaluated.
        evaluate: ``evaluate(net)`` → metrics of a row of the history; its time is not counted.
        judged_by: a metric that every evaluation of a finite network returns. A training whose last evaluation lacks
            it has diverged.
        device: device string.
        diverged: reason to report for a divergence detected by `fit`.
        more: further arguments of `fit`; they override those of the recipe.
    """
    from relearn.methods.fit import fit
    from relearn.runs.checkpoint import Checkpoint
    from relearn.runs.console import Progress

    clock = Clock(device)
    with Progress(title) as progress:
        clock.start()
        fitted = fit(
            net,
            source,
            evaluate=clock.excluding(evaluate),
            log=run.log,
            progress=clock.counting(progress),
            checkpoint=Checkpoint(run.work / "fit"),
            **{**recipe.fit_arguments(), **more},
        )
        clock.stop()
    net.eval()
    return judged(fitted, clock, judged_by, diverged)


def judged(fitted: Fitted, clock: Clock, by: str, diverged: str) -> Ended:
    """The end of a training, judged by the result of `fit` and by whether the last row of its history has the metric ``by``."""
    if fitted.outcome == "diverged":
        return Ended(fitted, clock, "diverged", fitted.outcome_step, diverged)
    if by not in fitted.history[-1]:
        return Ended(fitted, clock, "diverged", fitted.steps, "outputs not finite")
    return Ended(fitted, clock, fitted.outcome, fitted.outcome_step, None)
