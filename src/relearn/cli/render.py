"""relearn render: tables, figures, verdicts and report from one results folder or published set alone.

Any part of a study can be rendered: cells without a record show "not run", and the last line lists what is incomplete. Everything
is checked first and rendered into a separate folder; the previous files stay until all new ones are complete.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from relearn.studies.study import Study, all_studies

ROOT = Path("results")
PAGE = (
    "report.html.j2",
    "parts.html.j2",
    "palette.css",
    "report.css",
    "report.js",
)  # the files that make up report.html, besides the modules


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--root",
        type=Path,
        help="its runs/ is read and the results are written there; default: results/<scale>",
    )
    add(
        "--from",
        dest="source",
        type=Path,
        metavar="FOLDER",
        help="read the runs of this folder instead: it has runs.parquet, as results/published/<scale>, or runs/",
    )
    add("--params", type=Path, default=Path("params.yaml"), help="the parameters in force")
    add(
        "--scale",
        help="records of other scales are left out; default: that of a set, or the scale in params.yaml",
    )
    add("--artefact", action="append", metavar="ID", help="only the files of this table or figure")
    add(
        "--self-contained",
        action="store_true",
        help="embed the figures in report.html; default: link to them",
    )
    add("--cores", type=int, metavar="N", help="processes that draw figures; default: one per core")
    add("--strict", action="store_true", help="exit status 1 if a cell is not measured")


def main(args: argparse.Namespace) -> int:
    """Render everything, or the files of single artefacts.

    Raises:
        ValueError: an unknown scale or artefact, no record of the scale, a file in place of --root, or unreadable published numbers or
            parameters.
        FileNotFoundError: no folder of published numbers or of records.
    """
    from relearn.cli import output_folder
    from relearn.report import coverage
    from relearn.report.layout import Layout
    from relearn.runs.atomic_files import staged

    if args.root:
        output_folder.check("--root", args.root)
    values, found, problems = inputs(args)
    args.root.mkdir(parents=True, exist_ok=True)
    problems += [args.unplanned] * bool(args.unplanned)
    for problem in problems:
        print(f"render: left out: {problem}")
    with staged(args.root) as new:
        coverages, _ = write(args, new, values, found, problems, Layout(embedded=args.self_contained))
    if not args.artefact:
        print(f"report: {args.root / 'report.html'}")
    measured, cells = coverage.total(coverages)
    print(f"coverage: {measured} of {cells} published cells measured")
    incomplete = [one.artefact for one in coverages if one.measured < one.defined and not one.addition]
    print(f"incomplete: {', '.join(incomplete)}" if incomplete else "complete: every cell is measured")
    return 1 if args.strict and incomplete else 0


def inputs(args: argparse.Namespace) -> tuple[dict[str, Any], list[Any], list[str]]:
    """The parameters, the valid planned runs of their scale, and a line for each invalid one; fills in ``args``.

    ``args.unplanned`` is a line about runs that are not planned any more, or "".

    Raises:
        ValueError: an unknown scale, unreadable parameters, or no record of the scale.
        FileNotFoundError: no folder of records.
    """
    from relearn.cli.planned_runs import still_planned
    from relearn.report import runs
    from relearn.runs.run_store import is_store
    from relearn.studies import parameters

    values = parameters.load(args.params, args.scale or runs.scale_of(args.source))
    args.scale = values["scale"]
    option = "--from " if args.source else "--root " if args.root else ""
    args.root = args.root or ROOT / args.scale
    source = args.source or args.root
    named = f"{option}{source}"
    if not is_store(source) and not (source / "runs").is_dir():
        raise FileNotFoundError(
            f"{named}: no folder {source / 'runs'}, allowed: a folder with runs/ or runs.parquet{runs.sets_below(source)}"
        )
    found, problems = runs.load(source, args.scale)
    if not found:
        first = f"; the first of {len(problems)}: {problems[0]}" if problems else ""
        raise ValueError(f"{named}: no sound record of scale {args.scale}{first}; --scale chooses another")
    found, args.unplanned = still_planned(found, values, source)
    if not found:
        raise ValueError(f"{named}: {args.unplanned}")
    return values, found, problems


def write(
    args: argparse.Namespace,
    new: Path,
    values: dict[str, Any],
    found: Sequence[Any],
    problems: Sequence[str],
    layout: Any,
) -> tuple[list[Any], list[Any]]:
    """Render everything, or the artefacts that ``args`` names, into the folder ``new``.

    Returns:
        the coverage of each artefact; the judged claims, empty if artefacts are named.

    Raises:
        ValueError: an unknown artefact, or unreadable published numbers.
    """
    from relearn.report import artefacts, coverage, table, table_formats
    from relearn.report.quantities import Evidence

    studies = all_studies()
    renderers = {study.name: study.figures for study in studies}
    loaded = artefacts.load({study.name: study.reported for study in studies})
    if args.cores is not None and args.cores < 1:
        raise ValueError(f"--cores: found {args.cores}, allowed: at least 1")
    wanted = [_whole_id(name, list(loaded)) for name in args.artefact or ()]
    published = _published(args.params)
    evidence = {
        study: Evidence((run for run in found if run.study == study), found, published)
        for study in _studies(loaded)
    }
    defined = {name: artefacts.expand_rows(one, evidence[one.study].runs) for name, one in loaded.items()}
    tables, coverages = {}, []
    chosen = [defined[name] for name in wanted or defined]
    draw([one for one in chosen if one.kind != "table"], evidence, renderers, new / "figures", args)
    for artefact in chosen:
        known = evidence[artefact.study]
        if artefact.kind == "table":
            tables[artefact.id] = table.build(artefact, known)
            table_formats.write(artefact, tables[artefact.id], new / "tables")
        coverages.append(coverage.cover(artefact, known))
        print(coverages[-1].line())
    if args.artefact:
        return coverages, []
    whole = (args, new, values, studies, found, problems, defined, evidence, tables, coverages, layout)
    return coverages, _whole(*whole)


def _published(params: Path) -> Callable[[str], Mapping[str, Any] | None] | None:
    """The settings of a run at scale paper, planned when first asked for; None without the file of published settings."""
    from relearn.cli.planned_runs import planned_settings
    from relearn.studies import parameters

    if not (params.parent / "params" / "paper.yaml").is_file():
        return None
    planned = cache(lambda: planned_settings(parameters.load(params, "paper"), any_seed=True))
    return lambda folder: planned()(folder)


def draw(
    artefacts: Sequence[Any],
    evidence: Mapping[str, Any],
    renderers: Mapping[str, Mapping[str, str]],
    folder: Path,
    args: argparse.Namespace,
) -> None:
    """Draw the figures in as many processes as there are cores; what an earlier rendering drew from the same points is copied.

    Raises:
        ValueError: a figure names an unknown renderer.
    """
    from relearn.report import figures
    from relearn.report.figures import drawn
    from relearn.report.figures.shares import in_shares
    from relearn.runs.node.machine import cores

    before = drawn.Drawn.read(args.root / "figures", code_of_report())

    def one(artefact: Any) -> drawn.Entry:
        prepared = figures.prepare(artefact, evidence[artefact.study], renderers[artefact.study])
        key = before.key(artefact, prepared.points, prepared.text)
        files = before.copy(artefact.id, key, folder) or figures.draw(prepared, folder)
        return drawn.Entry(key, drawn.digests(files))

    entries = in_shares(one, artefacts, args.cores or cores())
    if artefacts:
        found = dict(zip((one.id for one in artefacts), entries))
        drawn.write({**before.entries, **found}, folder)


def _whole_id(name: str, known: Sequence[str]) -> str:
    """The id of a table or figure that is named as `relearn list` names it."""
    from relearn.params.messages import guess

    meant = [one for one in known if name in (one, one.partition(".")[2])]
    if len(meant) == 1:
        return meant[0]
    near = guess(name, known)
    hint = f"nearest: {near}; " if near else ""
    raise ValueError(f"--artefact: found {name}, {hint}allowed: {', '.join(meant or known)}")


def _studies(defined: dict[str, Any]) -> list[str]:
    return list(dict.fromkeys(artefact.study for artefact in defined.values()))


def _whole(
    args: argparse.Namespace,
    new: Path,
    values: dict[str, Any],
    studies: Sequence[Study],
    runs: Sequence[Any],
    problems: Sequence[str],
    defined: dict[str, Any],
    evidence: dict[str, Any],
    tables: dict[str, Any],
    coverages: Sequence[Any],
    layout: Any,
) -> list[Any]:
    """Write claims, coverage, deviations, metrics.json and the report; return the judged claims."""
    from functools import partial

    from relearn.cli.planned_runs import planned_settings, section_of
    from relearn.params.places import place
    from relearn.report import (
        analysis,
        claims,
        claims_beside,
        claims_formats,
        coverage,
        designs,
        errata,
        page,
        summary,
        table_formats,
    )
    from relearn.report.figures import claims_forest

    scale, folders = args.scale, {study.name: study.reported for study in studies}
    planned = designs.load(folders)
    sections = {study.name: section_of(study, scale, planned[study.name]) for study in studies}
    judged = claims.judge_all(claims.load(folders), evidence, sections)
    where = partial(place, path=args.params, scale=scale)
    as_planned = planned_settings(values)
    judged = claims_beside.with_evidence(judged, runs, planned, values, where, as_planned)
    claims_forest.write(judged, planned, new / "figures")
    explained = analysis.explain(judged, analysis.load(folders), scale)
    deviations, why, others = _deviations(args.params, values, folders, new / "deviations.md")
    settings = _settings(args.params, folders, new / "settings.md")
    entries = {name: errata.load({name: folder}) for name, folder in folders.items()}
    terms = claims.terms(folders)
    text = {
        "claims.md": claims_formats.markdown(
            judged, scale, layout.run, analysis.paragraphs(explained), terms
        ),
        "claims.json": claims_formats.as_json(judged, scale),
        "coverage.csv": table_formats.csv_text(coverage.FIELDS, coverage.table(coverages, scale)),
        "metrics.json": summary.metrics(scale, judged, coverages, tables),
        "report.html": page.html(
            scale=scale,
            root=new,
            runs=runs,
            problems=problems,
            about=about(studies),
            artefacts=list(defined.values()),
            tables=tables,
            claims=judged,
            coverages=coverages,
            deviations=deviations,
            no_deviations=why,
            other_deviations=others,
            errata=entries,
            explained=explained,
            settings=settings,
            terms=terms,
            layout=layout,
        ),
    }
    for name, content in text.items():
        (new / name).write_text(content, encoding="utf-8", newline="\n")
    counts = ", ".join(f"{count} {word.replace('_', ' ')}" for word, count in claims.tally(judged).items())
    print(f"claims: {counts}")
    return judged


def _deviations(
    params: Path, values: dict[str, Any], folders: Mapping[str, Path], target: Path
) -> tuple[list[tuple[str, ...]] | None, str, list[Any]]:
    """Rows for the report, the reason if there are none, and deviations that are not values of parameters; also writes deviations.md.

    There are no rows without the file of published settings.
    """
    from relearn.report import deviations

    paper = params.parent / "params" / "paper.yaml"
    others = deviations.methods(folders)
    if not paper.is_file():
        why = f"Not known: there is no {paper.name} with the published settings."
        target.write_text(f"{why}\n", encoding="utf-8", newline="\n")
        return None, why, others
    published = deviations.read(paper)
    target.write_text(deviations.markdown(values, published, others), encoding="utf-8", newline="\n")
    rows = deviations.deviations(values, published)
    shown = deviations.yaml_value
    return [(row.key, shown(row.value), shown(row.published), row.source) for row in rows], "", others


def _settings(params: Path, folders: Mapping[str, Path], target: Path) -> dict[str, list[Any]]:
    """Each study's published settings for the report; also writes settings.md. Empty without the file of published settings."""
    from relearn.report import deviations, settings_page

    paper = params.parent / "params" / "paper.yaml"
    published = deviations.read(paper) if paper.is_file() else None
    found = {
        name: settings_page.load({name: folder}, published) if published else []
        for name, folder in folders.items()
    }
    together = [table for tables in found.values() for table in tables]
    target.write_text(settings_page.markdown(together), encoding="utf-8", newline="\n")
    return found


def about(studies: Sequence[Study]) -> list[Any]:
    """The studies with their publications, as pages cite them."""
    from relearn.report.views.studies import About
    from relearn.studies.publications import PUBLICATIONS

    return [
        About(one.name, one.title, one.source, PUBLICATIONS[one.paper].cited, PUBLICATIONS[one.paper].url)
        for one in studies
    ]


def artefact_ids(study: Study) -> dict[str, list[str]]:
    """The ids of a study's tables and of its figures."""
    from relearn.report import yaml_file
    from relearn.report.artefacts import ANCHORS

    files = {kind: study.reported / f"{kind}.yaml" for kind in ("tables", "figures")}
    found = {kind: yaml_file.read(file) if file.is_file() else {} for kind, file in files.items()}
    return {kind: [name for name in ids if not name.startswith(ANCHORS)] for kind, ids in found.items()}


def code_of_report() -> str:
    """The version of everything that makes the report: modules, and the page's templates, style sheet and script."""
    from relearn.runs.atomic_files import digest
    from relearn.runs.code_version import code_version

    report = Path(__file__).resolve().parents[1] / "report"
    own = [
        ".".join(["relearn", "report", *path.relative_to(report).with_suffix("").parts])
        for path in sorted([*report.glob("*.py"), *report.glob("views/*.py")])
        if path.stem != "__init__"
    ]
    studies = all_studies()
    # which no other module of the report imports: this figure, and what the page says of the publications and studies
    own += ["relearn.report.figures.claims_forest", "relearn.studies.publications"]
    modules = [
        *own,
        *(f"relearn.studies.{study.name}.{part}" for study in studies for part in ("claims", "study")),
    ]
    modules += [module for study in studies for module in study.figures.values()]
    # which of the commands' modules decide what is counted and how the page is put together
    commands = [Path(__file__), Path(__file__).with_name("planned_runs.py")]
    return " ".join([code_version(*modules), *map(digest, [*(report / name for name in PAGE), *commands])])
