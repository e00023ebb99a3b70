"""Selects the recipe of a language model that counts if several were run: the one with the lowest validation NLL.

The paper tunes on the validation set and reports test results. Selecting by the test result would favour models
that were run with more recipes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from relearn.report.runs import Run

CHOSEN_BY = "valid_nll_best_nats"


def validation(runs: Iterable[Run]) -> dict[str, float]:
    """The mean over seeds of the best validation NLL, by recipe; runs without this metric are ignored."""
    found: dict[str, list[float]] = defaultdict(list)
    for run in runs:
        value = run.metrics.get(CHOSEN_BY)
        if value is not None:
            found[run.labels["recipe"]].append(float(value))
    return {name: sum(values) / len(values) for name, values in sorted(found.items())}


def best(runs: Iterable[Run]) -> tuple[str, list[Run]]:
    """The recipe with the lowest mean and its runs; if no run has the metric, an empty name and all runs."""
    runs = list(runs)
    means = validation(runs)
    if not means:
        return "", runs
    name = min(means, key=lambda recipe: means[recipe])
    return name, [run for run in runs if run.labels["recipe"] == name]
