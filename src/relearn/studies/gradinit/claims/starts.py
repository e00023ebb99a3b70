"""Conditions on GradInit initialisations in a comparison: most iterations meet the bound, and eta matches the training's learning rate.

The method minimises the loss after one step *subject to* a bound on the norm of the gradient. If nearly all iterations descend the
norm, the objective has hardly been optimised, so training from the result says nothing about the method. The paper reports that the
bound is met in the majority of iterations; we require the same. The look-ahead step is a step of the training (equation 4.1), so it must
use the training's learning rate. Figure 4.3 of the paper trains at rates from 2e-4 to 5e-4 after initialisation with a look-ahead rate of
5e-4, so a factor of 2.5 between the two rates is allowed.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from itertools import starmap

from relearn.report.quantities import Evidence
from relearn.report.runs import Run

MOST = 0.5  # largest share of iterations that may descend the norm
RATIO = 2.5  # largest ratio between the rates of figure 4.3
LABELS = ("task", "suite", "network", "initialisation")


def lacking(evidence: Evidence, folders: Iterable[str]) -> list[str]:
    """The violated conditions for the runs in these folders, one line per network and initialisation."""
    starts = {_key(run): run for run in evidence.runs if run.step == "initialise"}
    wanted = set(folders)
    unmet: dict[str, dict[int, set[int]]] = defaultdict(lambda: defaultdict(set))
    rates: dict[str, set[str]] = defaultdict(set)
    for run in evidence.runs:
        name = run.labels.get("initialisation", "")
        start = starts.get(_key(run))
        if run.folder not in wanted or not name.startswith("gradinit") or start is None:
            continue
        which = f"{name} of {run.labels['network']}"
        if counted := _above(start):
            above, whole = counted
            unmet[which][whole].add(above)
        if other := _other_rate(start, run):
            rates[which].add(other)
    return [
        *(f"{which}: {'; '.join(starmap(_unmet, counts.items()))}" for which, counts in unmet.items()),
        *(f"{which}: {', '.join(sorted(texts))}" for which, texts in rates.items()),
    ]


def _key(run: Run) -> tuple[object, ...]:
    return (*(run.labels.get(label) for label in LABELS), run.seed)


def _above(start: Run) -> tuple[int, int] | None:
    """The iterations above the bound on the norm, and all, if these are more than half; None otherwise or without a bound."""
    above, whole = start.metrics.get("constraint_count"), start.metrics.get("iterations_count")
    if not start.settings.get("arguments", {}).get("gamma") or above is None or not whole:
        return None
    return (round(above), round(whole)) if above > MOST * whole else None


def _unmet(whole: int, above: set[int]) -> str:
    """``60 of 60 iterations above the bound on the norm``, or ``200 to 224 of 390``, of several initialisations."""
    least, most = min(above), max(above)
    found = f"{least}" if least == most else f"{least} to {most}"
    return f"{found} of {whole} iterations above the bound on the norm"


def _other_rate(start: Run, training: Run) -> str | None:
    """E.g. ``looks ahead at 0.0005, trained at 0.002``, if the rates differ by more than in the paper; otherwise None."""
    eta, rate = start.settings.get("arguments", {}).get("eta"), training.settings.get("lr")
    if not eta or not rate or abs(math.log(eta / rate)) <= math.log(RATIO) + 1e-9:
        return None
    return f"looks ahead at {eta:g}, trained at {rate:g}"
