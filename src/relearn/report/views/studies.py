"""One study prepared for a page: its publication, claims, tables, figures, deviations, errata and cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from relearn.report import cost, figures, table_formats
from relearn.report.analysis import Explained
from relearn.report.artefacts import Artefact
from relearn.report.claims import Claim
from relearn.report.coverage import Coverage, total
from relearn.report.deviations import Method
from relearn.report.layout import PIPELINE, Layout
from relearn.report.runs import Run
from relearn.report.settings_page import SettingsTable
from relearn.report.table import Cell
from relearn.report.views import claims, names, tables


@dataclass(frozen=True)
class About:
    """A study and its publication: ``cited`` is a one-line citation, ``source`` is like ``zhu2022, chapter 2``."""

    name: str
    title: str
    source: str
    cited: str
    url: str


@dataclass(frozen=True)
class Material:
    """All data of a scale; each study's view selects its own part."""

    root: Path
    runs: Sequence[Run]
    artefacts: Sequence[Artefact]
    tables: Mapping[str, Sequence[Cell]]
    claims: Sequence[Claim]
    coverages: Sequence[Coverage]
    deviations: Sequence[Sequence[str]] | None = None
    errata: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    explained: Sequence[Explained] = ()
    settings: Mapping[str, Sequence[SettingsTable]] = field(default_factory=dict)
    terms: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    other_deviations: Sequence[Method] = ()
    layout: Layout = PIPELINE


def view(about: About, material: Material) -> dict[str, Any]:
    """The content of a study's section; published figures and tables come before additions."""
    own = sorted((a for a in material.artefacts if a.study == about.name), key=lambda one: one.addition)
    covered = {one.artefact: one for one in material.coverages}
    counted = [covered[one.id] for one in own]
    measured, defined = total(counted)
    judged, silent = claims.split([one for one in material.claims if one.section == about.name])
    runs = [run for run in material.runs if run.study == about.name]
    empty = [one for one in own if not (covered[one.id].measured or _beside_the_grid(one, material))]
    shown = [artefact(one, material, covered[one.id]) for one in own if one not in empty]
    return {
        "about": about,
        "claims": judged,
        "terms": material.terms.get(about.name, {}),
        "silent": silent,
        "tally": _tally(judged, silent),
        "explained": [one for one in material.explained if one.claim.section == about.name],
        "figures": [one for one in shown if one["picture"]],
        "tables": [one for one in shown if not one["picture"]],
        "empty": [names.heading(one.id, one.title) for one in empty],
        "coverage": f"{measured} of {defined} published cells measured" if defined else "",
        "deviations": [one for one in material.deviations or () if one[0].partition(".")[0] == about.name],
        "other_deviations": [one for one in material.other_deviations if one.study == about.name],
        "settings": material.settings.get(about.name, ()),
        "errata": material.errata.get(about.name, {}),
        "costs": cost.per_step(runs),
        "cost": cost.sum_up(runs),
    }


def artefact(one: Artefact, material: Material, coverage: Coverage) -> dict[str, Any]:
    """A table or a figure, with links to the files of its numbers."""
    shown: dict[str, Any] = {
        "id": one.id,
        "heading": names.heading(one.id, one.title),
        "title": one.title,
        "caption": one.full_caption,
    }
    shown["coverage"] = f"{coverage.measured} of {coverage.defined} cells measured"
    if not (coverage.measured or one.addition):
        shown["coverage"] = f"0 of {coverage.defined} published cells measured; shown on data of our own"
    shown["files"] = material.layout.files(one)
    if one.kind == "table":
        cells = material.tables[one.id]
        header, lines = table_formats.header_and_rows(one, cells)
        heads, rows = tables.fold_published(header, lines)
        beside = tables.has_published(header)
        return {
            **shown,
            "caption": table_formats.caption(one, cells),
            "header": heads,
            "lines": rows,
            "beside": beside,
            "picture": "",
        }
    size = _size(material.root / "figures" / f"{one.id}.png")
    picture = material.layout.picture(material.root, one.id)
    return {**shown, "picture": picture, "size": size, "marks": _marks(material, one.id)}


def _beside_the_grid(one: Artefact, material: Material) -> bool:
    """Whether rows were measured that the published grid does not have, such as a text of our own."""
    if one.kind == "table":
        return any(cell.status == "measured" for cell in material.tables[one.id])
    path = material.root / "figures" / f"{one.id}.csv"
    return path.is_file() and figures.has_runs(path.read_bytes())


def _marks(material: Material, figure: str) -> list[dict[str, str]]:
    """The points of a figure; each links to the record of its first run, if the page can link one."""

    def link(row: figures.Line) -> str:
        run = figures.first_run(row)
        return material.layout.run(run) if run else ""

    path = material.root / "figures" / f"{figure}.csv"
    return figures.placed(path.read_bytes(), link) if path.is_file() else []


def shared_deviations(
    about: Sequence[About], deviations: Sequence[Sequence[str]] | None
) -> list[Sequence[str]]:
    """The deviations that do not belong to a single study."""
    named = {one.name for one in about}
    return [row for row in deviations or () if row[0].partition(".")[0] not in named]


def _tally(judged: Sequence[Mapping[str, Any]], silent: Sequence[Claim]) -> dict[str, int]:
    found: dict[str, int] = {}
    for one in judged:
        found[one["word"]] = found.get(one["word"], 0) + 1
    return {**found, "not run": len(silent)} if silent else found


def _size(picture: Path) -> tuple[int, int]:
    """Width and height of a PNG in pixels, so that a browser reserves its space before loading; (0, 0) if unknown."""
    head = picture.read_bytes()[:24]
    if head[:8] != b"\x89PNG\r\n\x1a\n":
        return 0, 0
    return int.from_bytes(head[16:20], "big"), int.from_bytes(head[20:24], "big")
