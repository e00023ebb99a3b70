"""Comparisons in which each trial is a whole training run: paired by seed, with Student's interval over seeds.

Runs with the same seed share their data order and initial weights, so differences are taken seed by seed. A diverged
run counts with the number it has; the caller says what a diverged run without any number counts as.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from relearn.report.artefacts import Where
from relearn.report.comparisons import Comparison, Units
from relearn.report.quantities import Evidence, quantity
from relearn.report.statistics import Interval, clustered_share, effective_trials, student_mean
from relearn.report.verdicts import Below, Side, widened

EQUAL = "so the interval has no width; a spread finer than the measurement resolves would not show"


@dataclass(frozen=True)
class Sample:
    """One number per seed: the mean over the runs of that seed, with their folders."""

    network: str
    values: Mapping[int, float]
    runs: tuple[str, ...]


def sample(
    evidence: Evidence, name: str, *filters: Where, network: str, lost: str | float | None = None
) -> Sample:
    """The metric ``<step>.<metric>`` of all runs that match the filters, by seed.

    Args:
        evidence: the study's runs.
        name: the quantity.
        filters: filters that the runs must match.
        network: name of the sample in a comparison's keys.
        lost: value of a diverged run without a number: a number, or another metric of the same record.
    """
    kind = quantity(name)
    assert kind.metric is not None, name
    found: dict[int, list[float]] = defaultdict(list)
    runs = []
    for run in evidence.of(name, *filters):
        value = kind.number(run)
        if value is None and run.diverged and lost is not None:
            value = run.metrics.get(lost) if isinstance(lost, str) else lost
        if value is not None:
            found[run.seed].append(float(value))
            runs.append(run.folder)
    means = {seed: sum(values) / len(values) for seed, values in sorted(found.items())}
    return Sample(network, means, tuple(runs))


def mean(one: Sample) -> float:
    """Mean over seeds.

    Raises:
        ZeroDivisionError: no seed.
    """
    return sum(one.values.values()) / len(one.values)


def difference(
    name: str,
    left: Sample,
    right: Sample,
    claimed: Side,
    *,
    unit: str = "fraction",
    role: str = "images",
    decides: bool = True,
    notes: Sequence[str] = (),
    among: int = 1,
    own: int = 1,
) -> Comparison | None:
    """Mean of left minus right over the seeds that both have; None if they share none. ``among`` and ``own``: as in :func:`comparison`."""
    seeds = sorted(left.values.keys() & right.values.keys())
    if not seeds:
        return None
    values = [left.values[seed] - right.values[seed] for seed in seeds]
    method = "difference paired by seed; Student's t over seeds"
    units = Units("seeds", tuple(values))
    both = (left, right)
    ends = student_mean(values)
    return comparison(name, ends, claimed, unit, method, both, seeds, role, decides, notes, units, among, own)


def ratio(
    name: str, left: Sample, right: Sample, claimed: Side, *, decides: bool = True, notes: Sequence[str] = ()
) -> Comparison | None:
    """Geometric mean of left / right over the seeds that both have; a pair with a value that is not above 0 is left out."""
    seeds = sorted(
        seed
        for seed in left.values.keys() & right.values.keys()
        if left.values[seed] > 0 and right.values[seed] > 0
    )
    if not seeds:
        return None
    values = [math.log(left.values[seed] / right.values[seed]) for seed in seeds]
    logs = student_mean(values)
    interval = Interval(math.exp(logs.estimate), _exp(logs.low), _exp(logs.high), logs.freedom)
    method = "ratio paired by seed; Student's t over seeds, of its logarithm"
    units = Units("seeds", tuple(values))
    both = (left, right)
    return comparison(name, interval, claimed, "ratio", method, both, seeds, "", decides, notes, units)


def average(
    name: str, one: Sample, claimed: Side, *, unit: str, role: str = "", notes: Sequence[str] = ()
) -> Comparison | None:
    """Mean over seeds of a quantity that is not a share; None without a seed."""
    if not one.values:
        return None
    values = tuple(one.values.values())
    method = "mean over seeds; Student's t"
    seeds, units = list(one.values), Units("seeds", values)
    return comparison(
        name, student_mean(values), claimed, unit, method, (one,), seeds, role, True, notes, units
    )


def level(
    name: str,
    one: Sample,
    claimed: Side,
    *,
    role: str = "",
    notes: Sequence[str] = (),
    units: float | None = None,
) -> Comparison | None:
    """Mean of shares over seeds, with an interval inside [0, 1]; None without a seed.

    Counted outcomes get the exact Clopper-Pearson interval (:func:`clustered_share`), because equal outcomes at a few
    seeds are no certainty: the interval of 3 out of 3 starts at 29%. Other shares get Student's t, from their spread over seeds.

    Args:
        name, one, claimed, role, notes: as elsewhere in this module.
        units: the number of outcomes, such as layers, behind one seed's share. None: 1 if every share is 0 or 1, otherwise
            the shares are not counts (an accuracy, for example).
    """
    if not one.values:
        return None
    shares = list(one.values.values())
    if units is not None or set(shares) <= {0.0, 1.0}:
        interval = clustered_share(shares, list(one.values), units or 1.0)
        method = "share over seeds; Clopper-Pearson"
        effective = effective_trials(shares, list(one.values), units or 1.0)[1]
        behind = Units("seeds", tuple(shares), "share", len(shares) * (units or 1.0), effective)
    else:
        ends = student_mean(shares)
        interval = replace(ends, low=max(0.0, ends.low), high=min(1.0, ends.high))
        method = "mean over seeds; Student's t"
        behind = Units("seeds", tuple(shares))
    return comparison(
        name, interval, claimed, "fraction", method, (one,), list(one.values), role, True, notes, behind
    )


def comparison(
    name: str,
    interval: Interval,
    claimed: Side,
    unit: str,
    method: str,
    samples: Sequence[Sample],
    seeds: Sequence[int],
    role: str,
    decides: bool,
    notes: Sequence[str],
    units: Units | None = None,
    among: int = 1,
    own: int = 1,
) -> Comparison:
    """A comparison with an interval over seeds; its runs are those of the samples at these seeds.

    Values that are equal at several seeds give an interval without width; unless they say that the two sides are equal, a note says so.
    Another note names the seeds that only one of the sides has.

    Args:
        among: the number of candidates of which the claim's rival is the best, by these runs; corrects ``contradicted``.
        own: the number of candidates of which the side that the claim favours is the best, by these runs. The best of several is ahead
            of an equal rival by the choice alone, so the end of the interval that decides ``reproduced`` is :func:`widened` for them.
    """
    if lone := sorted({seed for one in samples for seed in one.values} - {*seeds}):
        notes = [
            *notes,
            f"without seed{'s' * (len(lone) > 1)} {listed(lone)}: not on both sides",
        ]
    apart = abs(interval.estimate - (1.0 if unit == "ratio" else 0.0)) > 1e-12
    equal = units is not None and max(units.values) - min(units.values) <= 1e-12
    if apart and equal and interval.high - interval.low <= 1e-12 and math.isfinite(interval.freedom):
        notes = [*notes, f"the value is the same at all {len(seeds)} seeds, {EQUAL}"]
    if own > 1:
        end = "high" if isinstance(claimed, Below) else "low"
        wide = getattr(widened(interval, own, ratio=unit == "ratio"), end)
        interval = replace(interval, **{end: wide})
        side = {"low": "lower", "high": "upper"}[end]
        notes = [*notes, f"{side} end corrected: the claim's own side is the best of {own} by these runs"]
    keys = dict.fromkeys((one.network, seed, 0) for one in samples for seed in seeds)
    runs = sorted({run for one in samples for run in one.runs if int(run.rpartition("seed")[2]) in seeds})
    return Comparison(
        name,
        interval,
        claimed,
        unit,
        method,
        tuple(keys),
        tuple(runs),
        tuple(notes),
        difference=len(samples) > 1,
        decides=decides,
        role=role,
        over="seeds",
        units=units,
        among=among,
        own=own,
    )


def _exp(value: float) -> float:
    return math.exp(value) if math.isfinite(value) else (0.0 if value < 0 else math.inf)


def listed(numbers: Sequence[int]) -> str:
    """``3, 5 to 9`` for 3, 5, 6, 7, 8, 9: rising numbers, of which three or more in a row are a range."""
    parts: list[str] = []
    for _, row in itertools.groupby(enumerate(numbers), lambda pair: pair[1] - pair[0]):
        run = [number for _, number in row]
        parts += [f"{run[0]} to {run[-1]}"] if len(run) > 2 else map(str, run)
    return ", ".join(parts)
