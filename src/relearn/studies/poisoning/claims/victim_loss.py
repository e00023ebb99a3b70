"""The attack's objective on victims unknown to the attacker, as recorded by ``craft`` for the watched networks."""

from __future__ import annotations

import math

from relearn.report.quantities import Evidence, Trial
from relearn.report.runs import select

PREFIX = "victim_loss_"  # prefix of column names in craft's trials.csv, followed by the architecture


def victim_losses(evidence: Evidence, attack: str) -> list[Trial]:
    """The objective at the final poisons: one trial per target and watched victim.

    Rejected poisons, non-finite losses and diverged runs are left out.

    Raises:
        ValueError: a loss is not a number; the message names the run.
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
