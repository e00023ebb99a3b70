"""render: tables, figures, verdicts and the page, from the records under one results folder and nothing else.

Any part of a study will do: what has no record shows as "not run"; the last line says what is incomplete.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

NEEDS_TORCH = False


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--root", type=Path, required=True, help="results/<scale>: runs/ is read, the rest written"
    )
    parser.add_argument("--params", type=Path, default=Path("params.yaml"), help="the parameters in force")
    parser.add_argument("--scale", required=True, help="records of other scales are left out")
    parser.add_argument(
        "--reported", type=Path, default=Path("workflow/reported"), help="the published numbers"
    )
    parser.add_argument(
        "--artefact", action="append", metavar="ID", help="only the files of this table or figure"
    )
    parser.add_argument("--strict", action="store_true", help="status 1 where a cell is not measured")


def main(args: argparse.Namespace) -> int:
    """Render everything, or the files of single artefacts.

    Raises:
        ValueError: an artefact that does not exist, published numbers or parameters that cannot be read.
        FileNotFoundError: no folder of published numbers.
    """
    from relearn.report import artefacts, coverage, figures, runs, table, table_formats
    from relearn.report.quantities import Evidence

    if not (args.reported / "artefacts.yaml").is_file():
        raise FileNotFoundError(f"--reported: no file {args.reported / 'artefacts.yaml'}")
    loaded = artefacts.load(args.reported)
    for name in args.artefact or ():
        if name not in loaded:
            raise ValueError(f"--artefact: found {name}, allowed: {', '.join(loaded)}")
    found, problems = runs.load(args.root, args.scale)
    for problem in problems:
        print(f"render: left out: {problem}")
    evidence = {study: Evidence(run for run in found if run.study == study) for study in _studies(loaded)}
    defined = {name: artefacts.expanded(one, evidence[one.study].runs) for name, one in loaded.items()}

    tables, coverages = {}, []
    for name in args.artefact or defined:
        artefact = defined[name]
        known = evidence[artefact.study]
        if artefact.kind == "table":
            tables[name] = table.build(artefact, known, args.reported)
            table_formats.write(artefact, tables[name], args.root / "tables")
        else:
            figures.render(artefact, known, args.reported, args.root / "figures")
        coverages.append(coverage.cover(artefact, known))
        print(coverages[-1].line())
    if not args.artefact:
        _whole(args, found, problems, defined, evidence, tables, coverages)
    measured, cells = coverage.total(coverages)
    print(f"coverage: {measured} of {cells} published cells measured")
    incomplete = [one.artefact for one in coverages if one.measured < one.defined and not one.addition]
    print(f"incomplete: {', '.join(incomplete)}" if incomplete else "complete: every cell is measured")
    return 1 if args.strict and incomplete else 0


def _studies(defined: dict[str, Any]) -> list[str]:
    return list(dict.fromkeys(artefact.study for artefact in defined.values()))


def _whole(
    args: argparse.Namespace,
    runs: Sequence[Any],
    problems: Sequence[str],
    defined: dict[str, Any],
    evidence: dict[str, Any],
    tables: dict[str, Any],
    coverages: Sequence[Any],
) -> None:
    """Claims, coverage, deviations, the small file of metrics, and the page that shows them all."""
    from relearn.report import (
        analysis,
        claims,
        claims_formats,
        coverage,
        page,
        summary,
        table_formats,
        yaml_file,
    )

    root, scale = args.root, args.scale
    judged = claims.judge_all(claims.load(args.reported / "claims.yaml"), evidence)
    explained = analysis.explain(judged, analysis.load(args.reported / "analysis.yaml"), scale)
    deviations, why = _deviations(args.params, scale, root / "deviations.md")
    settings = _settings(args.params, args.reported, root / "settings.md")
    errata = yaml_file.read(args.reported / "errata.yaml")
    text = {
        "claims.md": claims_formats.markdown(judged, scale) + analysis.markdown(explained),
        "claims.json": claims_formats.as_json(judged, scale),
        "coverage.csv": table_formats.csv_text(coverage.FIELDS, coverage.table(coverages, scale)),
        "metrics.json": summary.metrics(scale, judged, coverages, tables),
        "report.html": page.html(
            scale=scale,
            root=root,
            runs=runs,
            problems=problems,
            artefacts=list(defined.values()),
            tables=tables,
            claims=judged,
            coverages=coverages,
            deviations=deviations,
            no_deviations=why,
            errata=errata,
            explained=explained,
            settings=settings,
        ),
    }
    for name, content in text.items():
        (root / name).write_text(content, encoding="utf-8", newline="\n")
    counts = ", ".join(f"{count} {word.replace('_', ' ')}" for word, count in claims.tally(judged).items())
    print(f"claims: {counts}")
    print(f"report: {root / 'report.html'}")


def _deviations(params: Path, scale: str, target: Path) -> tuple[list[tuple[str, ...]] | None, str]:
    """Rows for the page, and deviations.md; without the published settings beside the parameters, why not."""
    from relearn import params as parameters
    from relearn.report import deviations

    paper = params.parent / "params" / "paper.yaml"
    if not paper.is_file():
        why = f"Not known: there is no {paper.name} with the published settings."
        target.write_text(f"{why}\n", encoding="utf-8", newline="\n")
        return None, why
    published = deviations.read(paper)
    values = parameters.load(params, scale)
    target.write_text(deviations.markdown(values, published), encoding="utf-8", newline="\n")
    rows = deviations.deviations(values, published)
    shown = deviations.shown
    return [(row.key, shown(row.value), shown(row.published), row.source) for row in rows], ""


def _settings(params: Path, reported: Path, target: Path) -> list[Any]:
    """The papers' tables of settings for the page, and settings.md; none without the published settings."""
    from relearn.report import deviations, settings_page

    paper = params.parent / "params" / "paper.yaml"
    told = paper.is_file() and (reported / "settings.yaml").is_file()
    tables = settings_page.load(reported, deviations.read(paper)) if told else []
    target.write_text(settings_page.markdown(tables), encoding="utf-8", newline="\n")
    return tables
