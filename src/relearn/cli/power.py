"""relearn power: how many seeds, targets or samples would decide each undecided claim, and at what cost.

It reads the records of a scale from results/<scale>, or the published ones if there are none (of a claim's study).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from relearn.report.claims import Claim
    from relearn.report.runs import Run


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "claim", nargs="?", help="one claim; default: every claim that is not decided, or only provisionally"
    )
    parser.add_argument("--scale", help="default: that of a set, or the scale in params.yaml")
    parser.add_argument("--root", type=Path, help="folder whose runs/ is read")
    parser.add_argument("--params", type=Path, default=Path("params.yaml"), help="the parameters in force")


def main(args: argparse.Namespace) -> int:
    """Print the designs.

    Raises:
        ValueError: an unknown claim or scale, or no records.
    """
    from relearn.cli import show, targets
    from relearn.params.places import place
    from relearn.report import claim_cost, claims, claims_formats, designs, runs, undecided, undecided_formats
    from relearn.studies import parameters
    from relearn.studies.study import all_studies

    values = parameters.load(args.params, args.scale or runs.scale_of(args.root))
    scale = values["scale"]
    asked = args.claim and args.claim.removeprefix(targets.CLAIM)
    folders = {study.name: study.reported for study in all_studies()}
    ids = [(study, name) for study, entries in claims.load(folders).items() for name in entries]
    studies = {study for study, name in ids if asked in (None, name, f"{study}.{name}")}
    if not studies:  # said at once, because judging takes a while
        from relearn.params.messages import guess

        meant = guess(asked, [name for _, name in ids])
        hint = f", nearest: {meant}" if meant else ""
        raise ValueError(f"claim: found {args.claim!r}{hint}; allowed: a name of `relearn list claims`")
    judged, used = judge(values, args.root or show.runs_of(studies, scale))
    wanted = [claim for claim in judged if asked in (None, claim.id, f"{claim.section}.{claim.id}")]
    found = undecided.all_of(
        wanted,
        designs.load(folders),
        claim_cost.Ancestry(used),
        partial(place, path=args.params, scale=scale),
    )
    for claim in wanted:
        one = found.get((claim.section, claim.id))
        text = (
            undecided_formats.lines(one) if one else ["decided, or not subject to chance"] * bool(args.claim)
        )
        if text:
            print(f"{claim.section} {claim.id}: {claims_formats.word(claim)}", *text, sep="\n  ")
    if not args.claim:
        counted = sum(claim.kind != "check" for claim in judged)
        print(f"{len(found)} of {counted} claims are not decided at scale {scale}")
    return 0


def judge(values: Mapping[str, Any], root: Path) -> tuple[list[Claim], list[Run]]:
    """The claims at the scale of the parameters, judged from its planned runs below ``root``; and these runs.

    Raises:
        ValueError: no valid record.
    """
    from relearn.cli.planned_runs import section_of, still_planned
    from relearn.report import claims, designs, runs
    from relearn.report.quantities import Evidence
    from relearn.studies.study import all_studies

    scale = values["scale"]
    found, problems = runs.load(root, scale)
    found, unplanned = still_planned(found, values, root)
    if not found:
        first = f"; the first of {len(problems)}: {problems[0]}" if problems else ""
        raise ValueError(f"--root {root}: no sound record of scale {scale}{first}")
    for problem in [*problems, *[unplanned] * bool(unplanned)]:
        if not problem.endswith(f", allowed: {scale}"):  # a record of another scale is in order
            print(f"left out: {problem}", file=sys.stderr)
    studies = all_studies()
    folders = {study.name: study.reported for study in studies}
    planned = designs.load(folders)
    sections = {study.name: section_of(study, scale, planned[study.name]) for study in studies}
    evidence = {study.name: Evidence(run for run in found if run.study == study.name) for study in studies}
    return claims.judge_all(claims.load(folders), evidence, sections), found
