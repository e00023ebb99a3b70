"""relearn show: render and print a table, figure, claim or whole paper from the runs that are there.

Nothing is run. Without a run of the study in results/<scale>, the published runs are shown. `relearn reproduce` runs what is missing
and ends with the same output.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from relearn.cli import targets
from relearn.cli.targets import Target

RESULTS = Path("results")
PUBLISHED = "published"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("target", nargs="+", help="as `relearn list` names them: kim2020, table2.2, claim:NAME, …")
    add("--scale", help="mini | small | medium | paper; default: that of a set, or the scale in params.yaml")
    add("--params", type=Path, default=Path("params.yaml"), help="the parameters in force")
    add(
        "--from",
        dest="source",
        type=Path,
        metavar="FOLDER",
        help="use the runs of this folder; default: results/<scale>, or results/published/<scale> if that has no run of the study",
    )


def main(args: argparse.Namespace) -> int:
    """Print each target.

    Raises:
        ValueError: no such target, no run of the scale, or for a claim none of its study.
        FileNotFoundError: ``--from`` names a folder without runs.
    """
    from relearn.report import runs
    from relearn.runs.run_store import is_store
    from relearn.studies import parameters

    wanted = [targets.find(name) for name in args.target]
    scale = parameters.load(args.params, args.scale or runs.scale_of(args.source))["scale"]
    if args.source and not is_store(args.source) and not (args.source / "runs").is_dir():
        raise FileNotFoundError(
            f"--from {args.source}: no runs in it; allowed: a folder with runs/ or runs.parquet{runs.sets_below(args.source)}"
        )
    for target in wanted:
        source = args.source or runs_of(target.studies, scale)
        if source != RESULTS / scale and not args.source:
            print(
                f"no run of {' or '.join(target.studies)} in {RESULTS / scale}: shown from {source}",
                file=sys.stderr,
            )
        print(text(target, scale, args.params, source), end="")
    return 0


def runs_of(studies: Iterable[str], scale: str) -> Path:
    """The folder of results, or the published set if only that has runs of the studies."""
    from relearn.runs import record_file
    from relearn.runs.run_store import is_store

    own, published = RESULTS / scale, RESULTS / PUBLISHED / scale
    here = any(record_file.files(own / "runs" / study) for study in studies)
    return own if here or not is_store(published) else published


def text(target: Target, scale: str, params: Path, source: Path | None = None) -> str:
    """The result of a target in Markdown; tables, figures and the report are rendered on the way.

    What is rendered from another folder than results/<scale> lies in its subfolder ``shown``.
    """
    own = RESULTS / scale
    source = source or own
    root = own if source == own else own / "shown"
    if target.kind == "claims":
        return _claim(target, source, scale, params)
    where = ["--root", str(root), "--from", str(source), "--scale", scale, "--params", str(params)]
    _render([*where, *_only(target)])
    if target.kind == "tables":
        file = root / "tables" / f"{target.id}.md"
        return f"{file.read_text(encoding='utf-8').rstrip()}\n\ntable: {file} (also .csv, .tex)\n"
    if target.kind == "figures":
        return f"figure: {root / 'figures' / target.id}.png (also .pdf, .csv)\n"
    from relearn.report.closing import closing_words

    return "\n".join(closing_words(root)) + "\n"


def _only(target: Target) -> list[str]:
    return ["--artefact", target.id] if target.id else []


def _render(words: list[str]) -> None:
    from relearn.cli import render
    from relearn.cli.planned_runs import UNPLANNED

    parser = argparse.ArgumentParser()
    render.add_arguments(parser)
    with contextlib.redirect_stdout(
        io.StringIO()
    ) as output:  # one line per artefact, and one per run left out
        render.main(parser.parse_args(words))
    left_out = [line for line in output.getvalue().splitlines() if line.startswith("render: left out")]
    for line in left_out:
        print(line, file=sys.stderr)
    if [line for line in left_out if UNPLANNED not in line]:
        print("`relearn recover` puts such runs aside; `relearn reproduce` makes them again", file=sys.stderr)


def _claim(target: Target, root: Path, scale: str, params: Path) -> str:
    """The verdict on one claim and its evidence; for one that is not judged, how to get there.

    Raises:
        ValueError: no sound record of the claim's study.
    """
    from relearn.cli.planned_runs import section_of, still_planned
    from relearn.report import analysis, claims, claims_formats, designs, runs
    from relearn.report.quantities import Evidence
    from relearn.studies import parameters
    from relearn.studies.study import load

    (study,) = (load(name) for name in target.studies)
    found, problems = runs.load(root, scale)
    found, unplanned = still_planned(found, parameters.load(params, scale), root)
    if unplanned:
        print(f"left out: {unplanned}", file=sys.stderr)
    mine = [run for run in found if run.study == study.name]
    if not mine:
        said = f"{target.name}: {root}: no sound record of {study.name} at scale {scale}"
        if problems:
            said += f"; the first of {len(problems)}: {problems[0]}; `relearn recover` puts them aside"
        raise ValueError(f"{said}; {_to_judge(target, scale, params)}")
    evidence: Mapping[str, Evidence] = {study.name: Evidence(mine)}
    folder = {study.name: study.reported}
    entry: dict[str, Any] = claims.load(folder)[study.name][target.id]
    section = section_of(study, scale, designs.load(folder)[study.name])
    judged = claims.judge_all({study.name: {target.id: entry}}, evidence, {study.name: section})
    details = claims_formats.markdown(judged, scale).partition("\n### ")[2]
    lines = details.split("\n")
    text = [f"{target.name}: {claims_formats.word(judged[0])}", f"says: {entry['says']} ({entry['source']})"]
    text += [f"decided by: {entry['predicate']}"]
    text += [line for line in lines if line.startswith("- ") and not line.startswith("- [")]
    explained = analysis.explain(judged, analysis.load(folder), scale)
    for paragraphs in analysis.paragraphs(explained).values():
        text += paragraphs
    text += [line for line in claims_formats.lacking(judged[0].missing) if f"- {line}" not in text]
    text += [_to_judge(target, scale, params)] * (judged[0].verdict == "not_run")
    return "\n".join([*text, *(f"left out: {problem}" for problem in problems)]) + "\n"


def _to_judge(target: Target, scale: str, params: Path) -> str:
    """How to get the runs that a claim needs at this scale, and how many of them are not in results/<scale>."""
    from relearn.studies import parameters

    plans = targets.plans(parameters.load(params, scale))
    needed = targets.needed(targets.records(target, plans)[0], plans)
    if not needed:
        return f"no run of it is planned at scale {scale}"
    left = sum(not Path(path).is_file() for path in needed)
    return (
        f"`relearn reproduce {target.name} --scale {scale}` makes its runs, {left} of {len(needed)} are left"
    )
