"""What would decide a claim, as text lines and as plain data for claims.json."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from relearn.report.claims import LOCAL
from relearn.report.claims_formats import three
from relearn.report.classified import CHANCE
from relearn.report.power import MOST, POWER
from relearn.report.undecided import GPU_RATIO, Need, Undecided
from relearn.report.verdicts import alike


def duration(seconds: float) -> str:
    """``42 s``, ``3.5 min`` or ``12 h``."""
    for size, name in ((3600.0, "h"), (60.0, "min")):
        if seconds >= size:
            return f"{three(seconds / size)} {name}"
    return f"{seconds:.3g} s"


def headline(one: Undecided) -> str:
    """One line: how many units are needed, at what cost, and where to set them."""
    if one.hopeless:
        return one.hopeless
    if not one.needs:
        if one.cpu_s is None:
            # the page lists what is missing above
            if one.blocked and all(line.endswith(LOCAL) for line in one.blocked):
                return "more victims, that is, networks trained anew"
            count = len(one.blocked)
            gone = f"{count} parts of the claim are missing" if count > 1 else "".join(one.blocked)
            return "; ".join(part for part in (gone, one.planned) if part) + _place_note(one)
        if one.least < 1:
            return f"there are enough {one.unit}; what is missing: {'; '.join(one.blocked) or 'nothing'}"
        more = (
            "" if one.least == 1 else f"; the rule requires {_units(one.least, one.unit)}{_cost(one, '; ')}"
        )
        return f"every comparison holds{more}{_place_note(one)}"
    if one.need is None:
        why = next((need.why for need in one.needs if need.why), f"more than {MOST:,} for all together")
        return f"no number of {one.unit} can be given: {why}"
    several, least = one.required > 1, "at least " if one.required > 1 else ""  # a bound: power.together
    decide = f"would decide {one.comparisons or 'it'} with {least}{100 * POWER:.0f}% power"
    claimed = "true effects were the claimed ones" if several else "true effect were the claimed one"
    new = f"{one.need:,} new {one.unit}"
    if one.unit == "samples" and any(CHANCE in line for line in one.blocked):
        return f"no number of samples can be given while a network is {CHANCE}"
    if outside := sum(need.outside for need in one.needs):
        where = f" in {one.count_of(outside)} comparisons" if several else ""
        return (
            f"the claimed effect lies outside the present interval{where}, so more {one.unit} are not expected to show it; "
            f"if the {claimed} after all, {new} {decide}{_cost(one, ' and cost ')}{_place_note(one)}"
        )
    if one.need <= one.have:
        return f"{_units(one.have, one.unit)}, as there are, {decide} if the {claimed}; here they did not"
    have = "1 is" if one.have == 1 else f"{one.have} are"
    cost = _cost(one, f"; {new}, for which this power holds, cost ")
    return f"{_units(one.need, one.unit)} {decide} if the {claimed}, {have} available{cost}{_place_note(one)}"


def lines(one: Undecided) -> list[str]:
    """The headline, then each comparison, then the problems that more units do not solve."""
    found = [f"to decide it: {headline(one)}"]
    found += [f"needed for {need.comparison}: {_needed(need)}" for need in one.needs]
    if one.needs or (one.cpu_s is not None and one.least > 0):  # else the headline names them
        solve = "; ".join(alike(one.blocked))
        found += [f"to be solved first, as more {one.unit} do not help: {solve}"] * bool(solve)
    return found


def _units(number: int, unit: str) -> str:
    return f"{number:,} {unit.removesuffix('s') if number == 1 else unit}"


def _cost(one: Undecided, lead: str) -> str:
    if one.cpu_s is None or one.gpu_s is None:
        return ""
    return (
        f"{lead}{duration(one.cpu_s)} of CPU time here (records; {one.cost_of}), "
        f"{duration(one.gpu_s)} of one GPU (forecast: {GPU_RATIO:g} times as fast as a CPU thread)"
    )


def _place_note(one: Undecided) -> str:
    return f"; set in {one.place}" if one.place else ""


def _needed(need: Need) -> str:
    if need.need is None:
        return need.why
    effect = f"a claimed {_shown(need.claimed, need)}" if need.claimed is not None else "the claim"
    spread = f", spread {_shown(need.sd, need)} ({need.sd_from})" if need.sd is not None else ""
    outside = "; the claimed effect lies outside the present interval" if need.outside else ""
    return f"{_units(need.need, need.unit)} for {effect} ({need.source}){spread}; has {need.have}{outside}"


def _shown(value: float, need: Need) -> str:
    """A value in the unit in which the effect is shown."""
    factor = 100 if need.shown_in in ("points", "%") else 1
    return f"{three(factor * value)} {need.shown_in}".rstrip()


def to_dict(one: Undecided) -> dict[str, Any]:
    """Plain values for claims.json."""
    return {**asdict(one), "need": one.need, "have": one.have, "gpu_s": one.gpu_s, "said": headline(one)}
