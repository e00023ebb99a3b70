"""Tables of kim2020: every published cell occurs once, the recipe is chosen on validation data, and blanks state their reason."""

import math

import pytest

from relearn.report import coverage, grid, table, table_formats
from relearn.report.published import Value
from relearn.studies.l2_attention.claims import recipes

from ...report.conftest import cells_of, chapter, evidence_of
from . import fake_records as pretend

ARTEFACTS = chapter("l2_attention")
TABLES = {name: one for name, one in ARTEFACTS.items() if one.kind == "table"}
DEFINED = {"kim2020.table1": 4 * 5, "kim2020.table2": 3 * 5 + 10, "kim2020.table3": 3 * 9}
ADDITIONS = {f"addition.l2_attention_{name}" for name in ("language", "characters", "constructions")}


def test_every_table_of_the_paper_is_there_and_three_of_ours():
    assert set(TABLES) == set(DEFINED) | ADDITIONS


@pytest.mark.parametrize("name", DEFINED)
def test_every_published_number_stands_in_exactly_one_cell(name, tmp_path):
    cells = cells_of(name, evidence_of(tmp_path)).values()
    shown = [value for cell in cells for value in cell.printed.values() if cell.row.applies(cell.column.id)]
    values = TABLES[name].published["paper"].values()
    # what the paper did not run is no cell; that a model did not converge is a result
    assert sorted(map(repr, shown)) == sorted(repr(v) for v in values if v.outcome != "not_reported")
    ours = [value for cell in cells if not cell.row.in_grid for value in cell.printed.values()]
    assert all(value.note.startswith("derived: ") for value in ours)


@pytest.mark.parametrize("name", DEFINED)
def test_cells_are_counted(name, l2_attention, tmp_path):
    nothing, all_of_it = (
        coverage.cover(TABLES[name], known) for known in (evidence_of(tmp_path), l2_attention)
    )
    assert (nothing.measured, nothing.defined) == (0, DEFINED[name])
    assert (all_of_it.measured, all_of_it.defined) == (DEFINED[name], DEFINED[name])


def test_numbers_stand_beside_those_of_their_attention_and_depth(l2_attention):
    cells = cells_of("kim2020.table2", l2_attention)
    assert cells["contractive", "10"].deviation() == (
        "paper",
        pytest.approx(1.56 - 9 * 0.04 + 0.001 - 1.0495),
    )
    assert cells["l2_tied", "3"].published == {"paper": 1.001}
    assert cells["l2_matched", "3"].published == {} and cells["l2_matched", "3"].mean == pytest.approx(1.116)
    seconds = cells_of("kim2020.table1", l2_attention)
    assert seconds["l2_tied", "4/epoch"].published == {"paper": 91.0}
    assert seconds["l2_tied", "4/epoch"].mean == pytest.approx(20 * 5 * 1.04)
    assert seconds["l2_tied_ratio", "4/ratio"].mean == pytest.approx(1.04)
    assert seconds["l2_tied", "4/ratio"].status == "not_applicable"


def test_times_over_dp_are_quotients_of_the_printed_seconds(l2_attention):
    cells = cells_of("kim2020.table1", l2_attention)
    over = {name: one for name, one in cells.items() if name[0].endswith("_ratio") and one.published}
    assert len(over) == 3 * 5
    for (row, column), one in over.items():
        at = column.replace("ratio", "epoch")
        printed = [cells[name, at].published["paper"] for name in (row.removesuffix("_ratio"), "dp")]
        assert one.published["paper"] == pytest.approx(printed[0] / printed[1], abs=0.005)
        assert "derived" in one.row.note
    assert [row.id for row in TABLES["kim2020.table1"].rows][:3] == list(
        dict.fromkeys(row for row, _ in over)
    )


def test_blank_cells_of_the_paper_say_why(l2_attention):
    header, lines = table_formats.header_and_rows(
        TABLES["kim2020.table3"], table.build(TABLES["kim2020.table3"], l2_attention)
    )
    assert header == ["Self-attention", "Measure", "Here", "Paper", "Deviation"]
    dp = {line[1]: line[2:] for line in lines if line[0] == "DP"}
    assert dp["10 layers, nats"] == ["1.101 ± 0.001 (3)", "1.025", "+0.076"]
    assert dp["12 layers, nats"] == ["diverged (3)", "not converged", "-"]
    header, lines = table_formats.header_and_rows(
        TABLES["kim2020.table2"], table.build(TABLES["kim2020.table2"], l2_attention)
    )
    assert not any(
        line[:2] == ["DP", "6 layers, nats"] for line in lines
    )  # not reported, and not in the paper's grid


def test_the_recipe_is_chosen_on_validation_and_named(tmp_path):
    other = "warmup_g2_w40_d0"
    for seed in (0, 1):
        pretend.language(tmp_path, "dp", 2, 1.2, seed=seed, valid=1.0)
        pretend.language(tmp_path, "dp", 2, 1.0, seed=seed, valid=1.1 + seed, recipe=other)
        pretend.language(tmp_path, "dp", 2, 0.1, seed=seed, recipe=pretend.CONSTANT)  # another table
    known = evidence_of(tmp_path)
    cell = cells_of("kim2020.table2", known)["dp", "2"]
    assert grid.text(cell) == f"1.200 ± 0.000 (2) [{pretend.WARMUP}]"
    assert {run.rpartition("/")[0].rpartition("/")[2] for run in cell.runs} == {pretend.WARMUP}
    # the figures and the claims choose by the same rule
    runs = [run for run in known.runs if run.labels["recipe"] != pretend.CONSTANT]
    name, chosen = recipes.best(runs)
    assert (name, [run.folder for run in chosen]) == (cell.best, list(cell.runs))
    assert recipes.validation(runs) == {pretend.WARMUP: 1.0, other: pytest.approx(1.6)}


def test_without_a_validation_number_the_tables_own_decides(tmp_path):
    pretend.language(tmp_path, "dp", 2, 1.2, valid=None)
    pretend.language(tmp_path, "dp", 2, 1.1, valid=None, recipe="warmup_g2_w40_d0")
    known = evidence_of(tmp_path)
    assert cells_of("kim2020.table2", known)["dp", "2"].mean == pytest.approx(1.1)
    name, chosen = recipes.best(known.runs)
    assert name == "" and len(chosen) == 2


def test_a_model_that_diverged_counts_with_the_best_that_it_had(tmp_path):
    pretend.language(tmp_path, "dp", 12, 2.0, recipe=pretend.CONSTANT, outcome="diverged")
    pretend.language(tmp_path, "dp", 12, 1.0, recipe=pretend.CONSTANT, seed=1)
    cell = cells_of("kim2020.table3", evidence_of(tmp_path))["dp", "12"]
    assert grid.text(cell) == "1.500 ± 0.500 (2) [1 diverged]"


def test_the_addition_has_the_honest_number_and_bits(l2_attention):
    cells = cells_of("addition.l2_attention_language", l2_attention)
    assert cells["dp_warmup", "2/bpc"].mean == pytest.approx((1.16 - 0.06 + 0.001 + 0.005) / math.log(2))
    honest = (1.2 - 0.1 + 0.1 + 0.001 + 0.005) / math.log(2)
    assert cells["contractive_fixed", "18/bpc"].mean == pytest.approx(honest)
    assert cells["dp_warmup", "18/bpc"].status == "not_applicable"
    text = cells_of("addition.l2_attention_characters", l2_attention)
    assert grid.text(text["ptb", "unigram"]) == "2.900 (1)"
    assert text["pydoc_topics", "unigram"].status == "not_run"


def test_constructions_are_counted_and_theorem_3_1_prints_nothing_else(tmp_path):
    pretend.cases(tmp_path, "theorem_3_1", [1, 1, 0])
    pretend.cases(tmp_path, "masks", [1] * 5, printed_fails=2)
    cells = cells_of("addition.l2_attention_constructions", evidence_of(tmp_path))
    said = {
        protocol: [grid.text(cells[protocol, name]) for name in ("cases", "holds")]
        for protocol in ("theorem_3_1", "masks")
    }
    assert said == {"theorem_3_1": ["3 (1)", "2 (1)"], "masks": ["5 (1)", "5 (1)"]}
    assert grid.text(cells["masks", "printed"]) == "2 (1)"
    assert cells["theorem_3_1", "printed"].status == "not_applicable"
    assert cells["dropout", "cases"].status == "not_run"


@pytest.mark.parametrize("name", sorted(TABLES))
def test_all_formats_are_written(name, l2_attention, tmp_path):
    paths = table_formats.write(TABLES[name], table.build(TABLES[name], l2_attention), tmp_path)
    assert {path.name for path in paths} == {
        f"{name}{kind}" for kind in (".csv", ".seeds.csv", ".md", ".tex")
    }
    width = {
        line.count("|") for line in (tmp_path / f"{name}.md").read_text().splitlines() if line[:1] == "|"
    }
    assert len(width) == 1


def test_nats_keep_the_three_decimals_of_the_paper():
    value = Value("a", "r", "c", "nll", "nats_per_character", "lower", 1.04, None, "", None, "ok", "")
    assert grid.format_published([value]) == "1.040"
    assert grid.number(1.0396, "nats_per_character") == "1.040"
