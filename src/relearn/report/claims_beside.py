"""What stands beside a claim's verdict: its cost, its design, and what would decide it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from relearn.report import claim_cost, design_formats, undecided, undecided_formats
from relearn.report.claims import Claim
from relearn.report.designs import Design
from relearn.report.runs import Run


@dataclass(frozen=True)
class Beside:
    """Lines for claims.md and the same as data for claims.json."""

    lines: tuple[str, ...] = ()
    data: Mapping[str, Any] = field(default_factory=dict)


Key = tuple[str, str]  # study, claim


def build(
    claims: Sequence[Claim],
    runs: Sequence[Run],
    designs: Mapping[str, Mapping[str, Design]],
    values: Mapping[str, Any],
    place: Callable[[str], str],
) -> dict[Key, Beside]:
    """For every claim.

    Args:
        runs: all runs of the scale, of every study.
        designs: by study and claim.
        values: the parameters in force, with their scale.
        place: from a key path to the file and line that set it.
    """
    ancestry = claim_cost.Ancestry(runs)
    wanted = undecided.all_of(claims, designs, ancestry, place)
    found = {}
    for claim in claims:
        key = claim.section, claim.id
        said: list[str] = []
        data: dict[str, Any] = {"cost": claim_cost.of(claim, ancestry)} if claim.runs else {}
        if one := wanted.get(key):
            said += undecided_formats.lines(one)
            data["undecided"] = undecided_formats.plain(one)
        if design := designs.get(claim.section, {}).get(claim.id):
            said += design_formats.lines(design, claim, values, str(values["scale"]))
            data["design"] = design_formats.plain(design, claim, values)
        found[key] = Beside(tuple(said), data)
    return found
