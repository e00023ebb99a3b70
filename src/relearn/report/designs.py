"""The design of each trained claim: what is compared, with which settings and sample sizes, fixed before the runs.

The designs are in ``designs.yaml`` of each study's ``reported`` folder, by claim, for one scale (``scale:`` at the top).
A measure is one number that decides the claim. Its ``claimed`` value is the effect that the source states, or the smallest
that would matter. Its ``sd`` is the standard deviation of one unit's effect in a pilot, from which follows the half-width
for n units. For a ratio, ``claimed`` is the ratio itself and ``sd`` the standard deviation of its logarithm.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from relearn.report import yaml_file

FILE = "designs.yaml"
UNITS = ("seeds", "targets", "samples", "checkpoints")
"""What n counts: trainings from different seeds, attacked images, test samples, or released networks."""
REQUIRED = ("compares", "chosen", "unit", "n", "vary", "measures", "settings", "cost")
OPTIONAL = ("needs", "undecidable", "changed", "looks")


@dataclass(frozen=True)
class Measure:
    """One deciding number of a claim.

    Args:
        claimed: value that the source states, or the smallest of interest; None: the middle of a claimed range.
        source: where that value is from.
        part: pattern for the names of the comparisons it applies to.
        unit: unit of the comparisons it applies to; "" for any.
        sd: standard deviation of one unit's value in the pilot; None if no pilot has measured it.
        pilot: the records that show it.
        trials: for a share, how many yes-or-no outcomes one unit holds; None for a mean.
        n: number of units of these comparisons; None: that of the design.
        median: whether the effect is a median over units, which varies more than a mean.
    """

    source: str
    claimed: float | None = None
    part: str = "*"
    unit: str = ""
    sd: float | None = None
    pilot: str = ""
    trials: float | None = None
    n: int | None = None
    median: bool = False

    def about(self, name: str, unit: str) -> bool:
        """Whether this measure applies to a comparison of this name and unit."""
        return fnmatchcase(name, self.part) and self.unit in ("", unit)


@dataclass(frozen=True)
class Design:
    """The design that decides one claim at one scale.

    Args:
        compares: the two sides and how they are paired.
        chosen: how rates, radii and other free settings of each side are chosen.
        unit: one of UNITS; ``n`` counts these.
        vary: key path of params.yaml that sets n.
        settings: key paths of params.yaml with the values that the design needs.
        cost: CPU hours, and the source of that number.
        needs: settings or steps that do not exist yet.
        undecidable: why no affordable n decides the claim; "" if one does.
        changed: changes of the rule after runs had been seen, each with its date and what was before.
        looks: how often the claim was judged while units were added because the earlier ones had not decided; the intervals that decide
            are corrected for them (:meth:`relearn.report.comparisons.Comparison.looked_at`).
    """

    claim: str
    scale: str
    compares: str
    chosen: str
    unit: str
    n: int
    vary: str
    measures: tuple[Measure, ...]
    settings: Mapping[str, Any]
    cost_cpu_h: float
    cost_from: str
    needs: tuple[str, ...] = ()
    undecidable: str = ""
    changed: tuple[str, ...] = ()
    looks: int = 1

    def measure(self, name: str, unit: str) -> Measure | None:
        """The first measure that applies to a comparison of this name and unit."""
        return next((one for one in self.measures if one.about(name, unit)), None)


def planned_half_width(measure: Measure, n: int, own: int = 1) -> float | None:
    r"""Half-width of the interval for n units: :math:`t_{0.975,n-1}\, s/\sqrt n`; for shares, that of the exact interval.

    The interval of a share is at least as wide as the verdict makes it (:func:`relearn.report.statistics.clustered_share`): its lower end
    is at most that of n successes in n trials, and likewise above. For a ratio the half-width is on the log scale. A measure's own n
    replaces ``n``. That of a median is :math:`\sqrt{\pi/2}` times as wide, as for many units with normal values. If the claim's own side is
    the best of ``own`` candidates, one end of the interval of a mean is corrected for them, with :math:`t_{1-0.025/own,n-1}`.
    """
    from scipy import stats

    from relearn.report.statistics import clopper_pearson

    n = measure.n or n
    if measure.trials is not None and measure.claimed is not None:
        # as in the verdict, units whose outcomes all agree count once each
        trials = n if measure.claimed in (0, 1) else n * measure.trials
        ends, agree = clopper_pearson(measure.claimed * trials, trials), clopper_pearson(n, n).low
        return (max(ends.high, 1 - agree) - min(ends.low, agree)) / 2
    if measure.sd is None or n < 2:
        return None
    inflation = math.pi / 2 if measure.median else 1.0
    ends = stats.t.isf([0.025, 0.025 / own], n - 1)
    return float(ends.mean()) * measure.sd * math.sqrt(inflation / n)


def load(folders: Mapping[str, Path]) -> dict[str, dict[str, Design]]:
    """Every study's designs by claim; a study without the file has none.

    Raises:
        ValueError: naming file, claim and key, with what was found and what is allowed.
    """
    found: dict[str, dict[str, Design]] = {}
    for study, folder in folders.items():
        path = folder / FILE
        raw = dict(yaml_file.read(path) or {}) if path.is_file() else {}
        scale = raw.pop("scale", None)
        if raw and not isinstance(scale, str):
            raise ValueError(f"{path}: scale: found {scale}, allowed: the scale that the designs are for")
        found[study] = {claim: _design(f"{path}: {claim}", claim, str(scale), raw[claim]) for claim in raw}
    return found


def looks(designs: Mapping[str, Design], scale: str) -> dict[str, int]:
    """By claim, how often it was looked at, for the designs of this scale."""
    return {claim: design.looks for claim, design in designs.items() if design.scale == scale}


def _design(at: str, claim: str, scale: str, raw: Any) -> Design:
    _keys(at, raw, REQUIRED, OPTIONAL)
    if raw["unit"] not in UNITS:
        raise ValueError(f"{at}.unit: found {raw['unit']}, allowed: {', '.join(UNITS)}")
    if not isinstance(raw["n"], int) or raw["n"] < 1:
        raise ValueError(f"{at}.n: found {raw['n']}, allowed: a whole number above 0")
    if not isinstance(raw.get("looks", 1), int) or raw.get("looks", 1) < 1:
        raise ValueError(f"{at}.looks: found {raw['looks']}, allowed: a whole number above 0")
    if not raw["measures"]:
        raise ValueError(f"{at}.measures: found none, allowed: at least one")
    if not isinstance(raw["settings"], dict):
        raise ValueError(
            f"{at}.settings: found {raw['settings']}, allowed: key paths of params.yaml with values"
        )
    _keys(f"{at}.cost", raw["cost"], ("cpu_h", "from"), ())
    measures = tuple(_measure(f"{at}.measures[{k}]", one) for k, one in enumerate(raw["measures"]))
    prose = {key: " ".join(str(raw[key]).split()) for key in ("compares", "chosen")}
    return Design(
        claim=claim,
        scale=scale,
        unit=raw["unit"],
        n=raw["n"],
        vary=str(raw["vary"]),
        measures=measures,
        settings=raw["settings"],
        cost_cpu_h=float(raw["cost"]["cpu_h"]),
        cost_from=str(raw["cost"]["from"]),
        needs=tuple(map(str, raw.get("needs", ()))),
        undecidable=" ".join(str(raw.get("undecidable", "")).split()),
        changed=tuple(" ".join(str(one).split()) for one in raw.get("changed", ())),
        looks=raw.get("looks", 1),
        **prose,
    )


def _measure(at: str, raw: Any) -> Measure:
    known = [field.name for field in fields(Measure)]
    _keys(at, raw, ("source",), [name for name in known if name != "source"])
    for name in ("sd", "trials", "n"):
        if raw.get(name) is not None and not raw[name] > 0:
            raise ValueError(f"{at}.{name}: found {raw[name]}, allowed: a number above 0")
    if not isinstance(raw.get("median", False), bool):
        raise ValueError(f"{at}.median: found {raw['median']}, allowed: true, false")
    if raw.get("sd") is not None and not raw.get("pilot"):
        raise ValueError(f"{at}.pilot: missing, allowed: the records that show this spread")
    return Measure(**raw)


def _keys(at: str, raw: Any, required: Any, optional: Any) -> None:
    if not isinstance(raw, dict):
        raise ValueError(f"{at}: found {raw}, allowed: {', '.join(required)}")
    for name in required:
        if name not in raw:
            raise ValueError(f"{at}.{name}: missing, allowed: {', '.join([*required, *optional])}")
    for name in raw:
        if name not in (*required, *optional):
            raise ValueError(f"{at}.{name}: unknown, allowed: {', '.join([*required, *optional])}")
