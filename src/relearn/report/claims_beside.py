"""Additions to a claim's verdict: its cost, its design, settings of its runs that have changed since, and what would decide it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from relearn.report import claim_cost, design_formats, outdated, undecided, undecided_formats
from relearn.report.claims import Claim
from relearn.report.designs import Design
from relearn.report.runs import Run


def with_evidence(
    claims: Sequence[Claim],
    runs: Sequence[Run],
    designs: Mapping[str, Mapping[str, Design]],
    values: Mapping[str, Any],
    place: Callable[[str], str],
    settings: outdated.Planned,
) -> list[Claim]:
    """The claims with their ``beside`` and ``data``.

    Args:
        claims: as judged.
        runs: all runs of the scale, of every study.
        designs: by study and claim.
        values: the parameters in force, with their scale.
        place: maps a key path to the file and line that set it.
        settings: maps the folder of a run to the settings that are planned for it now.
    """
    ancestry = claim_cost.Ancestry(runs)
    wanted = undecided.all_of(claims, designs, ancestry, place)
    found = []
    for claim in claims:
        lines: list[str] = []
        data: dict[str, Any] = {"cost": claim_cost.cost_of_claim(claim, ancestry)} if claim.runs else {}
        if one := wanted.get((claim.section, claim.id)):
            lines += undecided_formats.lines(one)
            data["undecided"] = undecided_formats.to_dict(one)
        design = designs.get(claim.section, {}).get(claim.id)
        if design and design.scale == values["scale"]:
            lines += design_formats.lines(design, claim, values)
            data["design"] = design_formats.to_dict(design, claim, values)
        if changed := outdated.lines(ancestry.with_ancestors(claim.runs), settings):
            data["outdated"] = changed
        found.append(replace(claim, beside=tuple(lines), data=data))
    return found
