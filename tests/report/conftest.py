"""Artefacts, claims and published numbers of all studies, and the evidence of fake studies."""

import csv
import functools
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from relearn.cli.docs import ROOT, material
from relearn.report import claims, coverage, published, table
from relearn.report.artefacts import Artefact
from relearn.report.artefacts import load as load_artefacts
from relearn.report.claims import Section
from relearn.report.quantities import Evidence
from relearn.report.runs import load
from relearn.report.site.material import Site
from relearn.studies.study import all_studies

from ..studies.poisoning import fake_settings
from ..studies.poisoning.fake_records import Study

FOLDERS = {study.name: study.reported for study in all_studies()}
RENDERERS = {name: module for study in all_studies() for name, module in study.figures.items()}
SECTIONS = {
    study.name: Section(study.part("claims").PREDICATES, study.part("claims").power)
    for study in all_studies()
}


def values_of(artefact: str) -> list[published.Value]:
    """The published values of this artefact."""
    files = [folder / published.FILE for folder in FOLDERS.values()]
    found = [value for file in files for value in published.read(file) if value.artefact == artefact]
    assert found, artefact
    return found


def printed_rows(artefact: str) -> list[dict[str, str]]:
    """The published numbers of this artefact, line by line as in the file."""
    lines: list[dict[str, str]] = []
    for folder in FOLDERS.values():
        with (folder / published.FILE).open(encoding="utf-8", newline="") as file:
            lines += [line for line in csv.DictReader(file) if line["artefact"] == artefact]
    assert lines, artefact
    return lines


def evidence_of(root: Path) -> Evidence:
    """The records below ``root``, all of them sound."""
    runs, problems = load(root, "mini")
    assert not problems
    return Evidence(runs)


def runs_of(studies: Iterable[str], evidence: Evidence) -> dict[str, Evidence]:
    """Of each study its own runs."""
    return {study: Evidence(run for run in evidence.runs if run.study == study) for study in studies}


def own(name: str, evidence: Evidence) -> Evidence:
    """The runs of the study that an artefact is of."""
    study = every_artefact()[name].study
    return runs_of([study], evidence)[study]


def cells_of(name: str, evidence: Evidence) -> dict[tuple[str, str], table.Cell]:
    """The cells of a table by row and column."""
    return {(c.row.id, c.column.id): c for c in table.build(every_artefact()[name], own(name, evidence))}


def check_printed(name: str, nothing: Evidence, wanted: Callable[[published.Value], bool]) -> None:
    """Every wanted number of the paper stands in one cell, and every cell that counts has a number; without runs none is measured."""
    cells = cells_of(name, nothing).values()
    shown = [value for cell in cells for value in cell.printed.values() if value.value is not None]
    values = every_artefact()[name].published["paper"].values()
    assert sorted(map(repr, shown)) == sorted(repr(v) for v in values if v.value is not None and wanted(v))
    for cell in cells:
        if cell.row.applies(cell.column.id):
            assert cell.published and cell.status == "not_run", (name, cell.row.id, cell.column.id)


def check_counted(name: str, whole: Evidence, nothing: Evidence, defined: int, measured: int) -> None:
    """So many cells of a published table, of which so many are measured; without runs none is."""
    found = coverage.cover(every_artefact()[name], own(name, whole))
    assert (found.measured, found.defined) == (measured, defined) and not found.addition
    found = coverage.cover(every_artefact()[name], own(name, nothing))
    assert (found.measured, found.defined) == (0, defined)


def judged(sections: Mapping[str, Any], records: Evidence | Path, name: str | None = None) -> Any:
    """The claims of these sections by name, each judged by the runs of its own study; or the one of this name."""
    known = runs_of(sections, evidence_of(records) if isinstance(records, Path) else records)
    found = {claim.id: claim for claim in claims.judge_all(sections, known, SECTIONS)}
    return found[name] if name else found


def part(claim: Any, begin: str) -> Any:
    """The one comparison of a judged claim whose name begins so."""
    (found,) = [one for one in claim.parts if one.name.startswith(begin)]
    return found


@functools.cache
def every_artefact() -> Mapping[str, Artefact]:
    """All artefacts as they are defined, read once for all modules: not to be changed."""
    return load_artefacts(FOLDERS)


def chapter(study: str = "poisoning") -> dict[str, Artefact]:
    """The artefacts of one study."""
    return {name: one for name, one in every_artefact().items() if one.study == study}


@pytest.fixture(scope="session")
def make_study(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Write a study with some answers replaced; the results root."""

    def make(**changes: Any) -> Path:
        study = type("Changed", (Study,), changes)()
        return study.write(tmp_path_factory.mktemp("results"))

    return make


@pytest.fixture(scope="session")
def root(make_study: Callable[..., Path]) -> Path:
    """The study as Study describes it, in all its settings."""
    extras = (
        *(fake_settings.overlap(), fake_settings.end_to_end(), fake_settings.additions),
        *(fake_settings.imbalance(), fake_settings.craft(), fake_settings.evaluations()),
    )
    return make_study(extras=extras, roles=("victim", "victim_disjoint", "robust"))


@pytest.fixture(scope="session")
def evidence(root: Path) -> Evidence:
    """The records of that study."""
    return evidence_of(root)


@pytest.fixture(scope="session")
def gradinit(tmp_path_factory: pytest.TempPathFactory) -> Evidence:
    """The records of chapter 4 as pretend_gradinit.Chapter describes them."""
    from ..studies.gradinit import fake_records as pretend_gradinit

    return evidence_of(pretend_gradinit.Chapter().write(tmp_path_factory.mktemp("gradinit")))


@pytest.fixture(scope="session")
def site() -> Site:
    """The material of the site: all studies with the published scale mini."""
    made = material(ROOT, ["mini"])
    assert isinstance(made, Site)
    return made
