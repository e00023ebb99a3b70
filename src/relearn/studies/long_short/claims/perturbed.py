"""Drop in accuracy on perturbed test texts, sample by sample, from predictions.csv of `train_lra`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from relearn.report import classified
from relearn.report.artefacts import Where
from relearn.report.comparisons import Comparison, Units
from relearn.report.power import Crossed
from relearn.report.quantities import Evidence
from relearn.report.statistics import student_mean_of_table
from relearn.report.verdicts import Above, Below, Side

PAIRED = "difference paired by test sample"
OVER_SAMPLES = f"{PAIRED}, mean over shared seeds; Student's t over samples"
OVER_BOTH = f"{PAIRED} and seed; Student's t over seeds and samples"
CLEAN = "none"


@dataclass(frozen=True)
class Falls:
    """Correct on the clean text minus correct on the perturbed text (-1, 0 or 1), by seed and sample.

    ``after``: correct on the perturbed text (0 or 1). ``idle``: the seeds at chance.
    """

    network: str
    values: Mapping[int, Mapping[int, float]]
    runs: Mapping[int, str]
    notes: tuple[str, ...]
    after: Mapping[int, Mapping[int, float]] = field(default_factory=dict)
    idle: frozenset[int] = frozenset()


def falls(evidence: Evidence, network: str, where: Where, change: str) -> Falls:
    """Drops for the runs that have predictions on the perturbed texts; of several runs with the same seed the last one counts."""
    values: dict[int, dict[int, float]] = {}
    then: dict[int, dict[int, float]] = {}
    runs: dict[int, str] = {}
    notes: list[str] = []
    idle: set[int] = set()
    for run in classified.trainings(evidence, where):
        rows = run.rows("predictions.csv") if run.has("predictions.csv") else []
        rows = [row for row in rows if row.get(CLEAN) is not None and row.get(change) is not None]
        if rows:
            right = {name: [row[name] == row["label"] for row in rows] for name in (CLEAN, change)}
            values[run.seed] = {
                int(row["sample"]): float(before) - float(after)
                for row, before, after in zip(rows, right[CLEAN], right[change])
            }
            then[run.seed] = {int(row["sample"]): float(hit) for row, hit in zip(rows, right[change])}
            runs[run.seed] = run.folder
            idle = idle | {run.seed} if run.outcome != "ok" else idle - {run.seed}
            before, after = (100 * sum(hits) / len(rows) for hits in right.values())
            notes.append(f"{network.split('/')[1]}, seed {run.seed}: {before:.1f}% to {after:.1f}%")
    return Falls(network, values, runs, tuple(notes), then, frozenset(idle))


def fall_less(name: str, ours: Falls, theirs: Falls) -> Comparison | None:
    """Mean of ours minus theirs over the samples that both have at every shared seed; None if there are none.

    A seed at which one of the two networks ended at chance is left out, because an accuracy at chance cannot fall; if there is
    no other seed, all count, and the comparison is underpowered.
    """
    return _apart(name, ours, theirs, Below(0.0), ours.values, theirs.values)


def right_after(name: str, ours: Falls, theirs: Falls) -> Comparison | None:
    """Accuracy on the perturbed texts, ours minus theirs, for the same runs and samples; it does not decide."""
    found = _apart(name, ours, theirs, Above(0.0), ours.after, theirs.after)
    return found and replace(found, decides=False, notes=found.notes[:1])


def _apart(
    name: str,
    ours: Falls,
    theirs: Falls,
    claimed: Side,
    left: Mapping[int, Mapping[int, float]],
    right: Mapping[int, Mapping[int, float]],
) -> Comparison | None:
    both = (ours, theirs)
    shared = ours.values.keys() & theirs.values.keys()
    seeds = sorted(shared - ours.idle - theirs.idle or shared)
    apart = [f"seed {seed} left out: a network at chance" for seed in sorted(shared - {*seeds})]
    samples = sorted(
        set.intersection(*(set(one.values[seed]) for one in both for seed in seeds)) if seeds else ()
    )
    if not samples:
        return None
    table = [[left[seed][one] - right[seed][one] for one in samples] for seed in seeds]
    return Comparison(
        name,
        student_mean_of_table(table),
        claimed,
        "fraction",
        OVER_SAMPLES if len(seeds) == 1 else OVER_BOTH,
        tuple((one.network, seed, 0) for one in both for seed in seeds),
        tuple(sorted(one.runs[seed] for one in both for seed in seeds)),
        (f"{len(samples)} test samples", *apart, *ours.notes, *theirs.notes),
        difference=True,
        role=classified.STEP,
        over="seeds",
        units=_units(np.asarray(table)),
    )


def _units(table: np.ndarray) -> Units:
    r"""The samples behind a table of n seeds (rows) by m samples, with the part of the variance that more samples leave.

    The interval's variance A + B (:func:`relearn.report.statistics.student_mean_of_table`) has the expected value

    .. math:: \frac{\sigma_s^2}{n} + \frac{1}{m}\Big(\sigma_c^2 + \frac{\sigma_e^2}{n}\Big)

    Only the second term falls with m. :math:`\sigma_e^2`, the noise of single values, is the residual mean square, and
    :math:`\sigma_s^2`, between seeds, is the variance of the row means less :math:`\sigma_e^2/m`, at least 0. :math:`\sigma_c^2` is
    the variance of the column means (two-way analysis of variance: Searle, Casella and McCulloch 1992, Variance Components, chapter 4).
    """
    rows, columns = table.mean(axis=1), table.mean(axis=0)
    values, (n, m) = tuple(columns.tolist()), table.shape
    spread = columns.var(ddof=1) if m > 1 else 0.0
    if n == 1 or not spread:
        return Units("samples", values)
    noise = ((table - rows[:, None] - columns + table.mean()) ** 2).sum() / ((n - 1) * (m - 1))
    fixed = max(0.0, float(rows.var(ddof=1) - noise / m)) / n
    inflation = 1 + float(noise / (n * spread))
    return Crossed("samples", values, inflation=inflation, fixed=fixed, freedom=n - 1)
