"""Of a table of our own the lines that nothing ran for are named below it, not shown; a published table keeps its gaps."""

from dataclasses import replace

import pytest

from relearn.report import artefacts, blank, grid, table, table_formats

from ..studies.freelb import fake_records as pretend
from .conftest import chapter, evidence_of

TABLES = chapter("freelb")


@pytest.fixture
def evidence(tmp_path):
    pretend.finetune(tmp_path, "imdb", "vanilla", 0.8, majority=0.5)
    pretend.finetune(tmp_path, "imdb", "freelb", 0.85, majority=0.5)
    return evidence_of(tmp_path)


def cells(artefact, evidence):
    return table.build(artefact, evidence)


def test_rows_and_groups_without_a_run_are_named_below(evidence):
    ours = TABLES["addition.freelb_own_tasks"]
    found = cells(ours, evidence)
    header, lines = table_formats.header_and_rows(ours, found)
    everything = grid.header_and_rows(ours, found)[1]
    assert header[:4] == ["Method", "IMDb: Dev, %", "IMDb: Last, %", "IMDb: Test, %"]
    assert {line[0] for line in lines} == {"Vanilla", "FreeLB"} < {line[0] for line in everything}
    assert all("not run" not in line for line in lines)
    text = table_formats.markdown(ours, found)
    assert (
        text.rstrip().endswith("YOPO, 3 of α; Acceptability.")
        and " Not run here: PGD; FreeAT; FreeLB, fresh" in text
    )
    assert "Not run here: PGD" in table_formats.latex(ours, found)


def test_numbers_and_the_files_of_raw_numbers_stay(evidence, tmp_path):
    ours = TABLES["addition.freelb_own_tasks"]
    found = cells(ours, evidence)
    kept, _ = blank.without_empty(ours, found)
    named = {(cell.row.id, cell.column.id) for cell in found if cell.status not in blank.BLANK}
    assert named == {(r.id, c.id) for r in kept.rows for c in kept.columns} & named and named
    table_formats.write(ours, found, tmp_path)
    assert len((tmp_path / "addition.freelb_own_tasks.csv").read_text().splitlines()) == 1 + len(found)


def test_a_group_keeps_its_measures(evidence, tmp_path):
    ours = TABLES["addition.freelb_own_tasks"]
    kept, _ = blank.without_empty(ours, cells(ours, evidence))
    wanted = [f"IMDb: {column.measure}" for column in ours.columns if column.group == "IMDb"]
    assert [column.measure for column in kept.columns] == wanted
    pretend.finetune(tmp_path, "acceptability", "vanilla", 0.8, majority=0.5)
    both, gone = blank.without_empty(ours, cells(ours, evidence_of(tmp_path)))
    assert both.columns == ours.columns and "Acceptability" not in gone


def test_a_published_table_keeps_its_gaps(evidence):
    paper = TABLES["zhu2022.table3.4"]
    assert blank.without_empty(paper, cells(paper, evidence)) == (paper, "")
    ours = replace(paper, addition=True)
    assert blank.without_empty(ours, cells(ours, evidence)) == (ours, "")  # nothing ran at all


def test_what_diverged_or_gave_no_number_ran():
    row, column = artefacts.Row("a", "A", {}), artefacts.Column("x", "X", "score", "fraction")
    ours = replace(
        TABLES["addition.freelb_own_tasks"], rows=(row, replace(row, id="b", title="B")), columns=(column,)
    )
    for status, gone in (
        ("diverged", "Not run here: B."),
        ("no_value", "Not run here: B."),
        ("not_applicable", ""),
    ):
        found = [table.Cell(row, column, status), table.Cell(ours.rows[1], column, "not_run")]
        assert blank.without_empty(ours, found)[1] == gone
