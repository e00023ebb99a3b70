"""Points of zhu2022's figure 2.11: Deep k-NN against k, and against class balance with and without replication."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Any

from relearn.report import published
from relearn.report.artefacts import Artefact, Column, Row
from relearn.report.classified import guess
from relearn.report.quantities import Evidence, Trial, quantity
from relearn.report.statistics import clustered_mean, clustered_share
from relearn.studies.poisoning.evidence import normalised_k

FIELDS = (
    *(
        "source",
        "series",
        "victim",
        "panel",
        "population",
        "along",
        "k",
        "x",
        "replicated",
        "value",
        "low",
        "high",
    ),
    *("trials", "chance", "runs"),
)
POOLED = "all"
IMBALANCE = "_imbalance"  # suffix of the id of a row plotted against class balance
IMAGES = 50  # per class in the public repository's runs
PANELS = {"attack_success_rate": "defence_success", "mcc": "mcc", "test_accuracy": "test_accuracy"}

Place = tuple[str, float, bool, int | None]  # victim, x, replicated, k


def points(artefact: Artefact, evidence: Evidence) -> list[dict[str, Any]]:
    """One row per series, panel, x value and victim (``all`` pools the attacks on all victims), and the published points."""
    normalised = normalised_k(evidence)
    found = []
    for row in artefact.rows:
        for column in artefact.columns:
            found += _swept(artefact, row, column, column.quantity, "all", evidence, normalised)
            if column.id == "defence_success":
                name = "defence_success_effective"
                found += _swept(artefact, row, column, name, "effective", evidence, normalised)
    source = artefact.published["published code"]
    values = source.values()
    return found + _published(values)


def _swept(
    artefact: Artefact,
    row: Row,
    column: Column,
    name: str,
    population: str,
    evidence: Evidence,
    normalised: dict[int, float],
) -> list[dict[str, Any]]:
    groups: dict[Place, list[Trial]] = defaultdict(list)
    filters = ({"study": artefact.study}, artefact.common, row.where)
    for trial in evidence.trials(name, *filters, sweep=True):
        if row.along == "balance":
            x = trial.balance
        else:
            x = normalised.get(trial.k or 0)
        if x is not None:
            for victim in (POOLED, trial.victim):
                groups[victim, x, trial.replicated, trial.k].append(trial)
    order = [POOLED, *artefact.members]
    shares = quantity(name).binary
    level = guess(evidence) if column.id == "test_accuracy" else None
    series = row.id.removesuffix(IMBALANCE)
    lines = []
    for place, trials in sorted(groups.items(), key=lambda item: (order.index(item[0][0]), item[0][1:3])):
        victim, x, replicated, k = place
        values, targets = [trial.value for trial in trials], [trial.target for trial in trials]
        ends = clustered_share(values, targets) if shares else clustered_mean(values, targets)
        low, high = (ends.low, ends.high) if victim == POOLED else (None, None)
        named = ("measured", series, victim, column.id, population, row.along, k, x, int(replicated))
        runs = " ".join(sorted({trial.folder for trial in trials}))
        lines.append(dict(zip(FIELDS, (*named, ends.estimate, low, high, len(trials), level, runs))))
    return lines


def _published(values: list[published.Value]) -> list[dict[str, Any]]:
    """The public repository's sweep over k and its imbalance study; both use convex polytope only."""
    lines = []
    for value in values:
        swept = re.search(r", k = (\d+)$|, target class of (\d+), (no )?replication$", value.column)
        if not swept or value.metric not in PANELS or value.value is None:
            continue
        k, images, plain = swept.groups()
        number = value.in_unit("fraction" if value.unit == "percent" else value.unit) or 0.0
        if value.metric == "attack_success_rate":
            number = 1.0 - number
        panel = PANELS[value.metric]
        population = "effective" if panel == "defence_success" else "all"
        named = ("published code", "convex_polytope", POOLED, panel, population)
        place = (
            ("k", int(k), int(k) / IMAGES, 0)
            if k
            else ("balance", None, int(images) / IMAGES, int(not plain))
        )
        lines.append(dict(zip(FIELDS, (*named, *place, number, None, None, value.n_runs, None, None))))
    return lines
