"""What would decide an undecided claim: how many seeds, targets or samples, their cost, and the line to change.

The number of units is computed for the claimed effect, or for the smallest effect of interest in the claim's design: if that
is the true effect, this many units give the verdict "reproduced" with a power of 80%, all comparisons together if the claim requires
several. The power, and the cost, are those of a new sample: units that are added to recorded ones, which have their own outcome, have
another. The spread of one unit is taken from the records if they have at least three units, otherwise from the pilot cited in the design.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from relearn.report import claim_cost, distance, power
from relearn.report.claims import LOCAL, Claim
from relearn.report.claims_formats import shown_in, three
from relearn.report.comparisons import Comparison, Units
from relearn.report.designs import Design, Measure
from relearn.report.statistics import mean_spread
from relearn.report.verdict_words import DECIDED
from relearn.report.verdicts import Below, Within

AFFORDABLE_CPU_H = 10.0
"""CPU hours that the runs of one study may cost; beyond them a claim counts as not decidable here."""
GPU_RATIO = 50.0
"""CPU seconds that one second of a GPU replaces: an assumption, not checked against the one study that ran on a GPU."""
ENOUGH = 3
"""Units whose spread is taken from the records."""
COUNTS = re.compile(r"(\d+) (seeds?|targets?|victims?|pairs of target and victim), needs (\d+)")
"""A reason of ``underpowered`` that more units mend; the others are about the models."""
Power = Callable[[int], float]
"""The chance that a comparison is decided, by its number of units."""


@dataclass(frozen=True)
class Need:
    """One deciding comparison: how many units it has and needs.

    Args:
        need: None if no number can be given; ``why`` has the reason.
        sd: standard deviation of one unit's value (for a ratio: of its logarithm).
        sd_from: ``these records``, or the pilot.
        claimed: the value for which ``need`` holds; ``source`` says where it is from.
        outside: whether ``claimed`` lies outside the 95% interval of the records; False for a claimed range.
        shown_in: the unit in which both are shown: ``points`` and ``%`` are hundredths.
    """

    comparison: str
    unit: str
    have: int
    need: int | None
    sd: float | None
    sd_from: str
    claimed: float | None
    source: str
    why: str = ""
    shown_in: str = ""
    outside: bool = False


@dataclass(frozen=True)
class Undecided:
    """What would decide one claim.

    Args:
        needs: one for each comparison that does not hold yet.
        least: number of units that the rule for ``underpowered`` requires.
        required: number of comparisons that must hold and whose power is known; those that hold already count, too, unless their interval
            excludes the claimed effect because theirs is larger.
        larger: number of comparisons that hold and whose interval excludes the claimed effect because theirs is larger.
        together: number of units that decide all of these with the stated power; None if a comparison in ``needs`` has no number.
        cpu_s: CPU seconds here: of as many new units as needed, or of those that the rule still requires if every comparison holds; None
            without runs or without a number of units.
        cost_of: the unit that this cost is computed from.
        blocked: reasons of ``underpowered`` that more units do not remove.
        place: file and line that set the number of units.
        hopeless: why no affordable number decides the claim; "" if one does.
        planned: for a claim that was not run, n and cost by the design; "" without a design.
    """

    study: str
    claim: str
    verdict: str
    unit: str
    needs: tuple[Need, ...] = ()
    least: int = 1
    required: int = 1
    larger: int = 0
    together: int | None = None
    cpu_s: float | None = None
    cost_of: str = ""
    blocked: tuple[str, ...] = ()
    place: str = ""
    hopeless: str = ""
    planned: str = ""

    @property
    def need(self) -> int | None:
        """Number of units that the rule requires and that decide all comparisons together; None if there is no such number."""
        return None if self.together is None else max(self.least, self.together)

    @property
    def comparisons(self) -> str:
        """``both comparisons together (1 holds already)``; "" if only one counts, or if none is open."""
        if self.required < 2 or not self.needs:
            return ""
        held = self.required - len(self.needs)
        notes = [f"{held} {'holds' if held == 1 else 'hold'} already"] if held > 0 else []
        if self.larger:
            notes.append(f"the other{' exceeds' if self.larger == 1 else 's exceed'} the claimed effect")
        return f"{self.count_of(self.required)} comparisons together" + f" ({'; '.join(notes)})" * bool(notes)

    def count_of(self, number: int) -> str:
        """So many of the deciding comparisons: ``both``, ``all 3`` or ``2 of the 3``."""
        total = self.required + self.larger
        every = "both" if total == 2 else f"all {total}"
        return every if number == total else f"{number} of the {total}"

    @property
    def have(self) -> int:
        return min((one.have for one in self.needs), default=0)

    @property
    def gpu_s(self) -> float | None:
        """Seconds on one GPU, estimated with GPU_RATIO."""
        return None if self.cpu_s is None else self.cpu_s / GPU_RATIO


def assess(
    claim: Claim, design: Design | None, ancestry: claim_cost.Ancestry, place: Callable[[str], str]
) -> Undecided | None:
    """What would decide a trained claim; None for other kinds, and if it is decided and not provisional.

    Args:
        claim: as judged.
        design: its design, with the claimed effects and the pilots' spreads.
        ancestry: the runs of the scale.
        place: maps a key path to the file and line that set it.
    """
    if claim.kind != "trained" or (claim.verdict in DECIDED and not claim.provisional):
        return None
    if claim.verdict in DECIDED or not claim.parts:
        return _missing(claim, design, place)
    # a comparison that lacks power is named among what is missing, unless no other decides
    set_aside = [bool(lacks) and claim.verdict != "underpowered" for lacks in claim.lacking]
    parts = [
        part
        for part, aside in zip(claim.parts, set_aside or [False] * len(claim.parts))
        if isinstance(part, Comparison) and part.decides and not aside and _by_chance(part)
    ]
    found = [_need(part, design) for part in parts]
    needs = tuple(need for part, (need, _) in zip(parts, found) if part.verdict != "reproduced")
    unit = needs[0].unit if needs else _unit(claim)
    # a comparison that holds with an effect clearly beyond the claimed one would not be the one to fail
    settled = [part.verdict == "reproduced" and _beyond(part, need) for part, (need, _) in zip(parts, found)]
    powers = [at for (need, at), done in zip(found, settled) if need.need and need.unit == unit and not done]
    least = max((_least(reason, unit, claim) for reason in claim.reasons), default=1)
    blocked = tuple(reason for reason in claim.reasons if not _least(reason, unit, claim))
    at = place(design.vary) if design else ""
    one = Undecided(claim.section, claim.id, claim.verdict, unit, needs, least, blocked=blocked, place=at)
    one = replace(one, required=len(powers), larger=sum(settled), together=_together(needs, powers))
    have = one.have if needs else claim.count().get(unit, 0)
    runs = ancestry.with_ancestors(claim.runs)
    each, cost_of = claim_cost.per_unit(unit, have, runs)
    need = one.need if needs else least
    cost = None if need is None or not runs else _cost(unit, 0 if needs else have, need, each)
    return replace(one, cpu_s=cost, cost_of=cost_of, hopeless=_hopeless(design, need, one, cost))


def _beyond(part: Comparison, need: Need) -> bool:
    """Whether the interval lies wholly beyond the claimed effect, seen from the bound."""
    if not need.outside or need.claimed is None:
        return False
    return (
        need.claimed > part.interval.high
        if isinstance(part.claimed, Below)
        else need.claimed < part.interval.low
    )


def _least(reason: str, unit: str, claim: Claim) -> int:
    """Number of units that a reason of ``underpowered`` requires; 0 if more units do not remove it."""
    found = COUNTS.fullmatch(reason)
    if found is None:
        return 0
    if found[2].startswith("pairs") and unit == "targets":
        return math.ceil(int(found[3]) / max(1, claim.count().get("victims", 1)))
    return int(found[3]) if found[2].rstrip("s") == unit.rstrip("s") else 0


def _unit(claim: Claim) -> str:
    """The unit of the claim's deciding comparison."""
    main = claim.main
    return main.over if isinstance(main, Comparison) else "seeds"


def _by_chance(part: Comparison) -> bool:
    """Whether the comparison has a spread; a counted number has none."""
    return part.units is not None or part.method.startswith("argmax")


def _cost(unit: str, have: int, need: int, each: float) -> float:
    if unit == "samples":
        return each
    # all targets of an attack are crafted in one run, so a larger number means repeating that run
    return each * (need if unit == "targets" else max(0, need - have))


def _missing(claim: Claim, design: Design | None, place: Callable[[str], str]) -> Undecided:
    unit = design.unit if design else "seeds"
    one = Undecided(claim.section, claim.id, claim.verdict, unit, blocked=tuple(claim.missing))
    # more units of the design's kind do not show what other victims would do
    if design is None or (claim.missing and all(line.endswith(LOCAL) for line in claim.missing)):
        return one
    planned = (
        f"the design has {design.n} {design.unit} at scale {design.scale}, {design.cost_cpu_h:g} CPU hours"
    )
    return replace(one, place=place(design.vary), hopeless=design.undecidable, planned=planned)


def _hopeless(design: Design | None, need: int | None, one: Undecided, cost: float | None) -> str:
    if design and design.undecidable:
        return design.undecidable
    if cost is not None and cost > AFFORDABLE_CPU_H * 3600:
        what = f"{need:,} {one.unit}" + f" for {one.comparisons}" * bool(one.comparisons)
        return (
            f"not decidable below {AFFORDABLE_CPU_H:g} CPU hours: {what} cost {three(cost / 3600)} CPU hours"
        )
    return ""


def _together(needs: Sequence[Need], powers: Sequence[Power]) -> int | None:
    """Number of units that decide all comparisons together; None if one in ``needs`` has no number."""
    numbers = [need.need for need in needs if need.need]
    if not needs or len(numbers) < len(needs):
        return None
    return power.together(powers, max(numbers)) if len(powers) > 1 else max(numbers)


def _need(part: Comparison, design: Design | None) -> tuple[Need, Power]:
    """What one comparison needs, and its power for the claimed effect by the number of its units (0 if it has no number)."""
    measure = design.measure(part.name, part.unit) if design else None
    if part.units is None:
        reason = "no power is computed for the position of a maximum"
        have = len({target for _, _, target in part.keys} if part.over == "targets" else part.seeds)
        return Need(part.name, part.over, have, None, None, "", None, "", reason), _never
    sd, sd_from = _spread(part.units, measure)
    claimed = measure.claimed if measure else None
    source = measure.source if measure else ""
    if claimed is None and isinstance(part.claimed, Within):
        source = source or f"truth in the middle of the claimed range {part.claimed}"
    need, why, power_at = _number(part, part.units, measure, sd)
    ends, per, have = part.interval, part.units.per, len(part.units.values)
    one_sided = not isinstance(part.claimed, Within)
    outside = one_sided and claimed is not None and not ends.low <= claimed <= ends.high
    outside = outside and part.verdict != "identical"  # of equal numbers nothing follows, in either direction
    one = Need(part.name, per, have, need, sd, sd_from, claimed, source, why, shown_in(part), outside)
    return one, power_at


def _never(_: int) -> float:
    return 0.0


def _spread(units: Units, measure: Measure | None) -> tuple[float | None, str]:
    sd = mean_spread(units.values)[1]
    if sd is not None and sd > 1e-12 and len(units.values) >= ENOUGH:
        return sd, f"these records, {len(units.values)} {units.per}"
    if measure and measure.sd is not None:
        return measure.sd, measure.pilot
    if sd is not None and sd > 1e-12:
        return sd, f"these records, {len(units.values)} {units.per} only"
    return None, ""


def _number(
    part: Comparison, units: Units, measure: Measure | None, sd: float | None
) -> tuple[int | None, str, Power]:
    """Number of units that the comparison needs, or why none can be given; and its power by the number of units."""
    axis = distance.scale(part, measure)
    if axis is None:
        return None, "neither the claim nor its design states an effect to look for", _never
    if part.room is not None and measure and measure.claimed is not None and measure.claimed > part.room:
        return (
            None,
            f"none can decide: the other side leaves {100 * part.room:.3g} points to 100%, fewer than the effect to look for",
            _never,
        )
    side = part.claimed
    if units.statistic == "share" and not isinstance(side, Within):
        return _share(side.threshold, units, measure)
    if sd is None:
        few = f"{len(units.values)} {units.per}" if len(units.values) > 1 else f"a single {units.per[:-1]}"
        return None, f"no spread is known: {few}, and no pilot", _never
    fixed, freedom = (units.fixed, units.freedom) if isinstance(units, power.Crossed) else (0.0, math.inf)
    of: Callable[[float], float]
    if isinstance(side, Within):
        need = power.units_for_equivalence(axis.unit, sd)
        of = partial(power.of_equivalence, margin=axis.unit, sd=sd)
    else:
        need = power.units_for_mean(axis.unit, sd, fixed, freedom, part.own)
        of = partial(power.of_mean, distance=axis.unit, sd=sd, fixed=fixed, freedom=freedom, own=part.own)
    if need is None and fixed and power.units_for_mean(axis.unit, sd):
        spread = f"the spread between {freedom + 1:g} seeds alone is too large for the claimed effect"
        return None, f"{spread}, so no number of {units.per} decides", _never
    if need is None:
        return None, f"more than {power.MOST:,} {units.per}", _never
    factor = units.inflation
    return math.ceil(need * factor), "", lambda n: of(n / factor) if n >= 2 * factor else 0.0


def _share(bound: float, units: Units, measure: Measure | None) -> tuple[int | None, str, Power]:
    """Number of units whose outcomes, with the records' design effect, show that a share is beyond its bound.

    At least as many as would show it without an exception: a failure never narrows the interval.
    """
    assert measure is not None and measure.claimed is not None
    share = measure.claimed
    trials = power.trials_for_share(share, bound)
    if trials is None:
        return None, f"a share of {share:g} is too near its bound {bound:g}", _never
    effect = units.trials / units.effective if units.effective > 0 else 1.0
    each = units.trials / len(units.values) / max(1.0, effect)  # independent outcomes of one unit
    least = power.units_without_exception(share, bound)

    def power_at(n: int) -> float:
        count = math.floor(n * each + 1e-6)  # 1e-6: a product that rounding leaves just below a whole number
        return float(power.of_shares(np.array([count]), share, bound)[0]) if n >= least else 0.0

    return max(least, math.ceil(trials / each - 1e-9)), "", power_at


def all_of(
    claims: Sequence[Claim],
    designs: Mapping[str, Mapping[str, Design]],
    ancestry: claim_cost.Ancestry,
    place: Callable[[str], str],
) -> dict[tuple[str, str], Undecided]:
    """What would decide each undecided claim, by study and claim."""
    found = {}
    for claim in claims:
        one = assess(claim, designs.get(claim.section, {}).get(claim.id), ancestry, place)
        if one:
            found[claim.section, claim.id] = one
    return found
