"""What a comparison needs of its GradInit starts: a bound that most iterations met, and the rate of the training.

The method minimises the loss after a step *subject to* a bound on the gradient's norm. A search whose iterations nearly all descend the
norm has hardly seen its objective, so that trainings from it say nothing about the method. The text reports that the bound is met in the
majority of iterations; a start is asked for the same. The step looked ahead is one of the training (equation 4.1), so its rate must be
the training's. Figure 4.3 itself trains at 2e-4 to 5e-4 from starts that look ahead at 5e-4, so a factor of 2.5 between them is allowed.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable

from relearn.report.quantities import Evidence
from relearn.report.runs import Run

MOST = 0.5  # of the iterations may descend the norm
RATIO = 2.5  # between the rates of figure 4.3
LABELS = ("task", "suite", "network", "initialisation")


def lacking(evidence: Evidence, folders: Iterable[str]) -> list[str]:
    """Why GradInit was not at work in the runs of these folders, a line for each network and initialisation."""
    starts = {_key(run): run for run in evidence.runs if run.step == "initialise"}
    wanted = set(folders)
    unmet: dict[str, list[str]] = defaultdict(list)
    rates: dict[str, set[str]] = defaultdict(set)
    for run in evidence.runs:
        name = run.labels.get("initialisation", "")
        start = starts.get(_key(run))
        if run.folder not in wanted or not name.startswith("gradinit") or start is None:
            continue
        which = f"{name} of {run.labels['network']}"
        if bound := _unmet(start):
            unmet[which].append(bound)
        if other := _other_rate(start, run):
            rates[which].add(other)
    return [
        *(f"{which}: {'; '.join(dict.fromkeys(said))}" for which, said in unmet.items()),
        *(f"{which}: {', '.join(sorted(said))}" for which, said in rates.items()),
    ]


def _key(run: Run) -> tuple[object, ...]:
    return (*(run.labels.get(label) for label in LABELS), run.seed)


def _unmet(start: Run) -> str | None:
    """``60 of 60 iterations above the bound``, where they are more than half; without a bound nothing."""
    above, whole = start.metrics.get("constraint_count"), start.metrics.get("iterations_count")
    if not start.settings.get("arguments", {}).get("gamma") or above is None or not whole:
        return None
    return (
        f"{above:.0f} of {whole:.0f} iterations above the bound on the norm" if above > MOST * whole else None
    )


def _other_rate(start: Run, training: Run) -> str | None:
    """``looks ahead at 0.0005, trained at 0.002``, where the rates differ more than in the paper."""
    eta, rate = start.settings.get("arguments", {}).get("eta"), training.settings.get("lr")
    if not eta or not rate or abs(math.log(eta / rate)) <= math.log(RATIO) + 1e-9:
        return None
    return f"looks ahead at {eta:g}, trained at {rate:g}"
