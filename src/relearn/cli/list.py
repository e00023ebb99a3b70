"""relearn list: papers, chapters, studies, tables, figures and claims that can be asked for, and what is there of each.

    relearn list                 papers, chapters, studies; how many tables, figures and claims
    relearn list tables          each table: finished runs of those that it is made of, whether it is rendered
    relearn list claims --scale small

Any name goes behind `relearn reproduce` (run what is missing) and `relearn show` (what is there).
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from relearn.cli import targets
from relearn.cli.targets import KINDS, Target

WHOLE = ("papers", "chapters", "studies")
TITLE = 60


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("kind", nargs="*", help=" | ".join(KINDS))
    parser.add_argument("--scale", help="mini | small | medium | paper; default: the scale in params.yaml")


def main(args: argparse.Namespace) -> int:
    """Print a line for each target.

    Raises:
        ValueError: an unknown kind.
    """
    from relearn.forecast import job_seconds
    from relearn.forecast.planned import jobs_of
    from relearn.studies import parameters

    if unknown := [kind for kind in args.kind if kind not in KINDS]:
        raise ValueError(f"found {unknown[0]}, allowed: {', '.join(KINDS)}")

    values = parameters.load("params.yaml", args.scale)
    scale, plans = values["scale"], targets.plans(values)
    known = targets.targets().values()
    root = Path("results") / scale
    verdicts, seconds = _verdicts(root), job_seconds(jobs_of(values).values())
    print(
        f"scale {scale}: finished runs of those that each is made of, CPU time for the rest, and what is rendered"
    )
    for kind in args.kind or WHOLE:
        mine = [target for target in known if target.kind == kind]
        rows = [
            (target.name, *_state(target, plans, root, verdicts, seconds), target.title) for target in mine
        ]
        print(f"\n{kind}")
        widths = [max((len(row[at]) for row in rows), default=0) for at in range(3)]
        for row in rows:
            cells = "  ".join(cell.ljust(width) for cell, width in zip(row, widths))
            print(f"  {cells}  {row[3] if len(row[3]) <= TITLE else row[3][: TITLE - 1] + '…'}")
    if not args.kind:
        counts = {kind: sum(target.kind == kind for target in known) for kind in KINDS if kind not in WHOLE}
        told = ", ".join(f"{count} {kind} (`relearn list {kind}`)" for kind, count in counts.items())
        print(f"\nand {told}\nrun one: `relearn reproduce NAME`")
    return 0


def _state(
    target: Target,
    plans: targets.Plans,
    root: Path,
    verdicts: Mapping[str, str],
    seconds: Mapping[str, float],
) -> tuple[str, str]:
    from snakemake_logger_plugin_relearn.foresight import in_words

    found, _ = targets.records(target, plans)
    if not found:
        return "-", "not planned"
    done = sum(Path(path).is_file() for path in found)
    left = targets.seconds_left(found, plans, seconds)
    share = f"{done}/{len(found)}" + (f", {in_words(left)}" if left else "")
    if target.kind == "claims":
        return share, verdicts.get(f"{target.studies[0]}/{target.id}", "no verdict").replace("_", " ")
    if target.kind in WHOLE:
        return share, "report" if (root / "report.html").is_file() else "no report"
    ending = "md" if target.kind == "tables" else "png"
    there = (root / target.kind / f"{target.id}.{ending}").is_file()
    return share, "rendered" if there else "not rendered"


def _verdicts(root: Path) -> dict[str, str]:
    file = root / "claims.json"
    try:
        claims: list[dict[str, Any]] = json.loads(file.read_text(encoding="utf-8"))["claims"]
    except (OSError, ValueError, KeyError):
        return {}
    return {f"{one['section']}/{one['id']}": one["verdict"] for one in claims}
