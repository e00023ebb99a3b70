"""Findings of predicates: comparisons with intervals, the trials behind them, and what is missing.

Trials are paired by victim, seed and target. Intervals come from a bootstrap that resamples targets, each with
all its victims and seeds, because the trials of one target share its images and poisons. They hold for the given victims. A
second interval, for which victims are drawn as well, says whether a verdict would hold for other victims.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from relearn.report.quantities import Key, Trial
from relearn.report.statistics import (
    Interval,
    clustered_mean,
    clustered_share,
    crossed_mean,
    effective_trials,
    student_mean,
    student_mean_of_table,
)
from relearn.report.verdicts import MIN_VICTIMS, Side, verdict, widened
from relearn.report.views.names import plural

DIFFERENCE = (-1.0, 1.0)  # of two yes-or-no outcomes


@dataclass(frozen=True)
class Units:
    """The independent numbers behind an interval, used to compute how many of them would decide.

    Args:
        per: the unit: ``seeds``, ``targets`` or ``samples``.
        values: one number per unit; for a ratio its logarithm; for shares the unit's share.
        statistic: of the values: ``mean`` or ``share``.
        trials: for shares, the number of outcomes behind all values.
        effective: for shares, the effective number of independent outcomes; 0: not known.
        inflation: variance of the estimate relative to that of the mean of ``values``, e.g. pi/2 for a median.
    """

    per: str
    values: tuple[float, ...]
    statistic: str = "mean"
    trials: float = 0.0
    effective: float = 0.0
    inflation: float = 1.0


@dataclass(frozen=True)
class Comparison:
    """One effect and the range claimed for it. ``keys`` are the trials (victim, seed, target) behind it.

    ``decides`` is False for a comparison that is only shown with the claim; ``role`` is the role of the networks
    whose accuracy must suffice. ``over`` is the unit that the interval resamples: targets, or seeds, for which a
    trial is a whole run and the keys are (network, seed, 0). ``units`` are the independent numbers behind it.
    ``chosen_from`` has the keys of all trials that were made, if ``keys`` are those of them with a certain outcome. ``among`` is the number
    of comparisons of which this one was chosen by its result (the better of two rivals: 2); in a claim's parts, the sum of these numbers
    over all comparisons that the claim requires. ``own`` is the number of candidates of which the claim's own side was chosen by its
    result; the interval is corrected for them already. ``room`` is the greatest difference that the right side's mean leaves. ``drawn``
    is the interval for which the victims are drawn as well as the targets.
    """

    name: str
    interval: Interval
    claimed: Side
    unit: str
    method: str
    keys: tuple[Key, ...]
    runs: tuple[str, ...]
    notes: tuple[str, ...] = ()
    victims_needed: int = MIN_VICTIMS
    difference: bool = False
    decides: bool = True
    role: str = "victim"
    over: str = "targets"
    units: Units | None = None
    chosen_from: tuple[Key, ...] = ()
    among: int = 1
    own: int = 1
    room: float | None = None
    drawn: Interval | None = None

    @property
    def verdict(self) -> str:
        return self._verdict(self.interval)

    def _verdict(self, interval: Interval) -> str:
        same = (1.0 if self.unit == "ratio" else 0.0) if self.difference else None
        return verdict(self.claimed, interval, same, self.among)

    @property
    def of_these_victims(self) -> bool:
        """Whether the verdict decides for these victims, but not if victims are drawn, too."""
        decided = self.verdict in ("reproduced", "contradicted")
        return decided and self.drawn is not None and self._verdict(self.drawn) != self.verdict

    @property
    def spared(self) -> bool:
        """Whether the interval lies on the other side, and only the correction for several comparisons keeps it from contradicting."""
        return self.claimed.misses(self.interval) and self.verdict not in ("contradicted", "identical")

    @property
    def pairs(self) -> set[tuple[str, int]]:
        return {(victim, target) for victim, _, target in self.keys}

    @property
    def pairs_made(self) -> set[tuple[str, int]]:
        """The pairs of victim and target that were attacked, whatever came of it."""
        return {(victim, target) for victim, _, target in self.chosen_from or self.keys}

    @property
    def seeds(self) -> set[int]:
        return {seed for _, seed, _ in self.keys}

    def looked_at(self, looks: int) -> Comparison:
        """With the interval of 95% for so many looks together: units were added because the earlier ones had not decided."""
        if looks == 1:
            return self
        ratio = self.unit == "ratio" and self.difference
        note = f"interval corrected for {looks} looks: {self.over} were added to undecided ones"
        drawn = self.drawn and widened(self.drawn, looks, ratio)
        wide = widened(self.interval, looks, ratio)
        return replace(self, interval=wide, drawn=drawn, notes=(*self.notes, note))


@dataclass(frozen=True)
class Exact:
    """A deterministic statement: how many cases, how many of them fail, and whether a case has the full size."""

    name: str
    cases: int
    failures: int
    full_size: bool
    runs: tuple[str, ...]
    notes: tuple[str, ...] = ()

    @property
    def verdict(self) -> str:
        if self.failures:
            return "contradicted"
        return "reproduced" if self.full_size else "partial"


@dataclass(frozen=True)
class Finding:
    """The result of a predicate; ``missing`` names the parts of the claim that no run covers."""

    parts: Sequence[Comparison | Exact] = ()
    missing: Sequence[str] = ()


def finding(
    parts: Mapping[str, Comparison | None],
    beside: Iterable[Comparison | None] = (),
    missing: Sequence[str] = (),
) -> Finding:
    """The comparisons that could be made, and the names of those that could not.

    Args:
        parts: by name.
        beside: shown after them; nothing is missing where one could not be made.
        missing: further parts of the claim that no run covers.
    """
    return Finding(
        [part for part in (*parts.values(), *beside) if part],
        [*(f"no runs for {name}" for name, part in parts.items() if part is None), *missing],
    )


def paired_difference(
    name: str,
    left: Iterable[Trial],
    right: Iterable[Trial],
    claimed: Side,
    *,
    bounds: tuple[float, float] | None = None,
    notes: Sequence[str] = (),
    victims_needed: int = MIN_VICTIMS,
    unit: str = "fraction",
    decides: bool = True,
    role: str = "victim",
) -> Comparison | None:
    """Mean of left minus right over the trials that both have; None if they share none.

    Several class sizes of one (victim, seed, target) are paired size by size and then averaged, so that an
    attack counts once. With ``bounds`` the values are shares of yes-or-no outcomes, so that the right side's mean limits the difference.
    """
    first = {(trial.key, trial.balance): trial for trial in left}
    second = {(trial.key, trial.balance): trial for trial in right}
    both = sorted(first.keys() & second.keys())
    if not both:
        return None
    if lone := len(first.keys() ^ second.keys()):
        notes = [*notes, f"without {plural(lone, 'trial')}: not on both sides"]
    found: dict[Key, list[float]] = {}
    for pair in both:
        found.setdefault(pair[0], []).append(first[pair].value - second[pair].value)
    keys = tuple(found)
    differences = [sum(values) / len(values) for values in found.values()]
    targets, networks = [target for _, _, target in keys], [(victim, seed) for victim, seed, _ in keys]
    interval = clustered_mean(differences, targets, bounds)
    drawn = _with_victims_drawn(interval, differences, targets, networks)
    points = (100.0, " points") if unit == "fraction" else (1.0, "")
    return Comparison(
        name,
        interval,
        claimed,
        unit,
        "difference paired by victim, seed and target; bootstrap over targets, for these victims",
        keys,
        _runs([first[pair] for pair in both] + [second[pair] for pair in both]),
        (*notes, *_drawn_note(drawn, *points)),
        victims_needed,
        difference=True,
        decides=decides,
        role=role,
        units=Units("targets", _means(differences, targets)),
        room=max(0.0, 1 - fmean(second[pair].value for pair in both)) if bounds else None,
        drawn=drawn,
    )


def _with_victims_drawn(
    fixed: Interval, values: Sequence[float], targets: Sequence[int], networks: Sequence[tuple[str, int]]
) -> Interval | None:
    """The interval for which networks (victim, seed) and targets are both drawn; None for a single network.

    A table without gaps has Student's interval of both variances (:func:`~relearn.report.statistics.student_mean_of_table`); one with gaps
    the bootstrap of both factors and Student's of the networks' means, whichever reaches further at each end. It contains ``fixed``, the
    interval for these victims, whose outcomes may hardly differ.
    """
    rows, columns = sorted(set(networks)), sorted(set(targets))
    if len(rows) < 2:
        return None
    found = dict(zip(zip(networks, targets), values))
    if len(found) < len(rows) * len(columns):
        both = crossed_mean(values, targets, networks)
        means = [fmean(one for name, one in zip(networks, values) if name == row) for row in rows]
        few = student_mean(means)
        shift = both.estimate - few.estimate  # the networks differ in their number of trials
        both = replace(both, low=min(both.low, few.low + shift), high=max(both.high, few.high + shift))
    else:
        both = student_mean_of_table([[found[row, column] for column in columns] for row in rows])
    return replace(both, low=min(both.low, fixed.low), high=max(both.high, fixed.high))


def rate(name: str, trials: Iterable[Trial], claimed: Side, notes: Sequence[str] = ()) -> Comparison | None:
    """A share over attacks; several trials of one attack (values of k) are averaged first.

    Clopper-Pearson interval with attacks as units and targets as clusters: the victims of one target do not count as
    independent, not even if all attacks end alike.
    """
    attacks: dict[Key, list[Trial]] = {}
    for trial in trials:
        attacks.setdefault(trial.key, []).append(trial)
    if not attacks:
        return None
    keys = tuple(sorted(attacks))
    values = [sum(trial.value for trial in attacks[key]) / len(attacks[key]) for key in keys]
    targets = [target for _, _, target in keys]
    interval = clustered_share(values, targets)
    method = "Clopper-Pearson over attacks, targets as clusters"
    runs = _runs(trial for key in keys for trial in attacks[key])
    # outcomes that are all alike do not show how far those of a target go together
    effective = effective_trials(values, targets)[1] if len(set(values)) > 1 else 0.0
    units = Units("targets", _means(values, targets), "share", len(values), effective)
    drawn = _with_victims_drawn(interval, values, targets, [(victim, seed) for victim, seed, _ in keys])
    drawn = drawn and replace(drawn, low=max(drawn.low, 0.0), high=min(drawn.high, 1.0))
    notes = (*notes, *_drawn_note(drawn, 100.0, " %"))
    return Comparison(
        name, interval, claimed, "fraction", method, keys, runs, notes, units=units, drawn=drawn
    )


def _drawn_note(drawn: Interval | None, factor: float, unit: str) -> list[str]:
    """A note with the interval for which victims are drawn as well, its ends times ``factor``; none without such an interval."""
    if drawn is None:
        return []
    return [f"if victims are drawn, too: [{factor * drawn.low:.3g}, {factor * drawn.high:.3g}]{unit}"]


def _means(values: Sequence[float], targets: Sequence[int]) -> tuple[float, ...]:
    """The mean of each target, in the order of the targets."""
    found: dict[int, list[float]] = {}
    for value, target in zip(values, targets):
        found.setdefault(target, []).append(value)
    return tuple(sum(found[target]) / len(found[target]) for target in sorted(found))


def _runs(trials: Iterable[Trial]) -> tuple[str, ...]:
    return tuple(sorted({trial.folder for trial in trials}))
