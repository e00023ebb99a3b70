"""The attack's objective in victims that it does not know: what craft wrote of the networks it watched."""

from __future__ import annotations

import math

from relearn.report.quantities import Evidence, Trial
from relearn.report.runs import select

PREFIX = "victim_loss_"  # of a column of craft's trials.csv; the architecture follows


def victim_losses(evidence: Evidence, attack: str) -> list[Trial]:
    """The objective at the final poisons, a trial a target and watched victim.

    A rejected poison has no loss worth comparing and is left out, as are a loss that is not finite and a run
    that diverged.

    Raises:
        ValueError: naming the run, where a loss is no number.
    """
    found = []
    for run in select(evidence.runs, {"step": "craft", "attack": attack}):
        for row in [] if run.diverged else run.trials:
            if row.get("rejected"):
                continue
            for name, value in row.items():
                if not name.startswith(PREFIX) or value is None:
                    continue
                try:
                    loss = float(value)
                except ValueError:
                    raise ValueError(f"{run.folder}/trials.csv: {name}: found {value}") from None
                if not math.isfinite(loss):
                    continue
                victim = name.removeprefix(PREFIX)
                found.append(Trial(victim, run.seed, int(row["target"]), None, loss, run.folder))
    return found
