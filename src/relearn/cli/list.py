"""relearn list: papers, chapters, studies, tables, figures and claims, and what is there of each.

    relearn list                       papers, chapters and studies at every scale; how many tables, figures and claims
    relearn list tables                each table: how many of its runs are finished, whether it is rendered
    relearn list claims --scale small  at another scale; `--scale all` for every scale (half a minute)

Pass any name to `relearn reproduce` (run what is missing) or `relearn show` (print what is there). A time is the forecast CPU
time of all missing runs, including those whose outputs they read; it is shown only if runs of that scale were measured. `relearn
plan` shows more.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

from relearn.cli import targets
from relearn.cli.targets import KINDS, Target
from relearn.report import claims_file
from relearn.report.claims_formats import CHECKED
from relearn.report.verdict_words import label
from relearn.report.views.names import plural
from relearn.runs.record_file import RecordError

WHOLE = ("papers", "chapters", "studies")
TITLE = 60
ALL = "all"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("kind", nargs="*", help=" | ".join(KINDS))
    parser.add_argument(
        "--scale", help="mini | small | medium | paper | all; default: the scale in params.yaml"
    )


def main(args: argparse.Namespace) -> int:
    """Print a line for each target.

    Raises:
        ValueError: an unknown kind or scale.
    """
    from relearn.params.reading import SCALES

    if unknown := [kind for kind in args.kind if kind not in KINDS]:
        raise ValueError(f"found {unknown[0]}, allowed: {', '.join(KINDS)}")
    everywhere = args.scale == ALL or not (args.kind or args.scale)
    scales = [Scale(name) for name in SCALES] if everywhere else [Scale(args.scale)]
    known = targets.targets().values()
    print(
        "per target: finished runs of those that it is made of, CPU time for the rest and their inputs, and what is rendered"
    )
    for kind in args.kind or WHOLE:
        mine = [target for target in known if target.kind == kind]
        rows = [(target.name, *(scale.state(target) for scale in scales), _title(target)) for target in mine]
        _print([(kind, *(scale.name for scale in scales), ""), *rows])
    if not args.kind:
        summary = ", ".join(f"{_count(kind)} (`relearn list {kind}`)" for kind in KINDS if kind not in WHOLE)
        print(f"\nand {summary}\nrun one: `relearn reproduce NAME`")
    return 0


class Scale:
    """The plan and the state of results at one scale.

    Args:
        name: None for the one in params.yaml.
    """

    def __init__(self, name: str | None) -> None:
        from relearn.studies import parameters

        self.values = parameters.load("params.yaml", name)
        self.name: str = self.values["scale"]
        self.root = Path("results") / self.name
        self.plans = targets.plans(self.values)

    @cached_property
    def seconds(self) -> Mapping[str, float]:
        """The forecast of each run, by folder; empty if no run of this scale was ever measured (`relearn plan` shows more)."""
        from relearn.forecast.planned import jobs_of
        from relearn.forecast.single import job_seconds
        from relearn.runs.run_store import is_store

        measured = is_store(Path("results/published") / self.name)
        return job_seconds(jobs_of(self.values).values()) if measured else {}

    @cached_property
    def verdicts(self) -> dict[str, str]:
        """Maps ``<study>/<claim>`` to its last verdict."""
        try:
            claims = claims_file.read(self.root / "claims.json")["claims"]
        except FileNotFoundError:
            return {}
        except (OSError, RecordError) as error:
            print(f"left out: {error}", file=sys.stderr)
            return {}
        return {f"{one['section']}/{one['id']}": one["verdict"] for one in claims}

    def state(self, target: Target) -> str:
        """The state of a target in a few words: ``12/40, 3 min, not rendered``."""
        from snakemake_logger_plugin_relearn.foresight import in_words

        found, _ = targets.records(target, self.plans)
        if not found:
            return "not planned"
        done = sum(Path(path).is_file() for path in found)
        left = targets.seconds_left(found, self.plans, self.seconds) if self.seconds else 0.0
        words = [f"{done}/{len(found)}", in_words(left) if left else "", self._rendered(target)]
        return ", ".join(word for word in words if word)

    def _rendered(self, target: Target) -> str:
        if target.kind == "claims":
            verdict = self.verdicts.get(f"{target.studies[0]}/{target.id}", "no verdict")
            return f"check: {CHECKED[verdict]}" if target.check and verdict in CHECKED else label(verdict)
        if target.kind in WHOLE:
            return "report" if (self.root / "report.html").is_file() else ""
        ending = "md" if target.kind == "tables" else "png"
        there = (self.root / target.kind / f"{target.id}.{ending}").is_file()
        return "rendered" if there else "not rendered"


def _count(kind: str) -> str:
    """How many targets of a kind there are: ``61 claims and 1 check``."""
    mine = [target for target in targets.targets().values() if target.kind == kind]
    checks = sum(target.check for target in mine)
    counted = f"{len(mine) - checks} {kind}"
    return f"{counted} and {plural(checks, 'check')}" if checks else counted


def _title(target: Target) -> str:
    return target.title if len(target.title) <= TITLE else target.title[: TITLE - 1] + "…"


def _print(rows: list[tuple[str, ...]]) -> None:
    """Print a table; all rows but the first are indented."""
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]) - 1)]
    print()
    for number, row in enumerate(rows):
        indent = "  " if number else ""
        cells = "  ".join(
            cell.ljust(width + 2 - len(indent) * (at == 0))
            for at, (cell, width) in enumerate(zip(row, widths))
        )
        print(f"{indent}{cells}  {row[-1]}".rstrip())
