"""report.html: everything the records say; it opens without a network, and needs its figures beside it or holds them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from relearn.report import claims_formats as formats
from relearn.report import cost, table_formats
from relearn.report.analysis import NONE_WRITTEN, Explained
from relearn.report.artefacts import Artefact
from relearn.report.claims import Claim, tally
from relearn.report.coverage import Coverage, total
from relearn.report.deviations import Method
from relearn.report.layout import PIPELINE, Layout
from relearn.report.runs import Run
from relearn.report.settings_page import SettingsTable
from relearn.report.table import Cell

TEMPLATE = "report.html.j2"  # beside this file, with report.css
ADDITIONS = "Additions"  # the category of what no paper shows


def html(
    *,
    scale: str,
    root: Path,
    runs: Sequence[Run],
    problems: Sequence[str],
    artefacts: Sequence[Artefact],
    tables: Mapping[str, Sequence[Cell]],
    claims: Sequence[Claim],
    coverages: Sequence[Coverage],
    deviations: Sequence[Sequence[str]] | None,
    no_deviations: str,
    errata: Mapping[str, Any],
    explained: Sequence[Explained] = (),
    settings: Sequence[SettingsTable] = (),
    other_deviations: Sequence[Method] = (),
    layout: Layout = PIPELINE,
) -> str:
    """The page. Every text is escaped; links are relative to ``root``, which holds the figures already.

    Args:
        deviations: key, value here, published value, source; None where they are not known, and
            ``no_deviations`` says why.
        other_deviations: what no parameter shows, as :func:`relearn.report.deviations.methods` has it.
        explained: the judged claims that did not come out, each with what is written about it.
        settings: the papers' tables that hold settings.
        layout: where the figures and the linked files lie.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    loader = PackageLoader("relearn", "report")
    template = Environment(loader=loader, autoescape=True, undefined=StrictUndefined).get_template(TEMPLATE)
    covered = {coverage.artefact: coverage for coverage in coverages}
    return template.render(
        scale=scale,
        runs=len(runs),
        day=cost.last_day(runs),
        versions=cost.versions(runs),
        machines=cost.machines(runs),
        problems=problems,
        tally=tally(claims),
        claims=_sections(claims),
        chapters=_chapters(artefacts, root, tables, covered, layout),
        lacking=[*table_formats.LACKING.values(), table_formats.NO_NUMBER],
        coverages=coverages,
        deviations=deviations,
        no_deviations=no_deviations,
        other_deviations=other_deviations,
        errata=_by_paper(errata),
        explained=explained,
        none_written=NONE_WRITTEN,
        settings=settings,
        total=total(coverages),
        costs=cost.per_step(runs),
        link=layout.run,
    )


def _chapters(
    artefacts: Sequence[Artefact],
    root: Path,
    tables: Mapping[str, Sequence[Cell]],
    covered: Mapping[str, Coverage],
    layout: Layout,
) -> list[dict[str, Any]]:
    """The artefacts by chapter, in the order of their definition; additions of ours come last."""
    names = sorted(dict.fromkeys(one.category for one in artefacts), key=lambda name: name == ADDITIONS)
    made = []
    for name in names:
        own = [one for one in artefacts if one.category == name]
        measured, defined = total([covered[one.id] for one in own])
        said = f"{measured} of {defined} published cells measured" if defined else ""
        shown = [_artefact(one, root, tables, covered[one.id], layout) for one in own]
        anchor = "-".join(re.findall(r"\w+", name.lower()))
        made.append({"title": name, "id": anchor, "coverage": said, "artefacts": shown})
    return made


def _artefact(
    artefact: Artefact, root: Path, tables: Mapping[str, Sequence[Cell]], coverage: Coverage, layout: Layout
) -> dict[str, Any]:
    shown: dict[str, Any] = {"id": artefact.id, "title": artefact.title, "caption": artefact.told}
    shown["coverage"] = f"{coverage.measured} of {coverage.defined} cells measured"
    if artefact.kind == "table":
        header, lines = table_formats.shown(artefact, tables[artefact.id])
        shown["caption"] = table_formats.told(artefact, tables[artefact.id])
        return {**shown, "header": header, "lines": lines, "picture": "", "files": layout.files(artefact)}
    return {**shown, "picture": layout.picture(root, artefact.id), "files": layout.files(artefact)}


def _by_paper(errata: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The entries of each paper together; papers and entries in the order in which they come."""
    papers: dict[str, dict[str, Any]] = {}
    for name, entry in errata.items():
        papers.setdefault(entry["paper"], {})[name] = entry
    return papers


def _sections(claims: Sequence[Claim]) -> dict[str, dict[str, list[Any]]]:
    """By section: the judged claims, and the names of those that nothing was run for."""
    sections: dict[str, dict[str, list[Any]]] = {}
    for claim in claims:
        main = claim.main.name if claim.main and len(claim.parts) > 1 else ""
        section = sections.setdefault(claim.section, {"judged": [], "open": []})
        if not claim.parts:
            section["open"].append(claim.id)
            continue
        section["judged"].append(
            {
                **{name: getattr(claim, name) for name in ("id", "says", "source", "verdict", "runs")},
                "word": formats.word(claim),
                "effect": formats.effect(claim.main),
                "main": main,
                "claimed": formats.claimed(claim.main),
                "n": formats.numbers(claim),
                "remarks": formats.remarks(claim),
                "parts": [f"{part.name}: {formats.effect(part)}, {part.verdict}" for part in claim.parts],
            }
        )
    return sections
