"""Tables of zhu2022, chapter 3: every published cell occurs once, medians are labelled; numbers that are only printed are no cells."""

import shutil
from dataclasses import replace

import numpy as np
import pytest

from relearn.report import artefacts, coverage, grid, statistics, table, table_formats
from relearn.report.artefacts import Artefact, Column, Row

from ...report.conftest import (
    FOLDERS,
    cells_of,
    chapter,
    check_counted,
    check_printed,
    every_artefact,
    evidence_of,
)
from ...steps.recorded import rows_of
from . import fake_records as pretend

ALL = chapter("freelb")
#: published cells, and those that the pretended chapter measures
DEFINED = {
    "zhu2022.table3.1": (5 + 3 * 8, 5 + 3 * 8),
    "zhu2022.table3.2": (2 * 15, 2 * 4),
    "zhu2022.table3.2.ensembles": (2 * 15, 2 * 4),
    "zhu2022.table3.3": (7 + 9 + 6, 1),  # the ensemble on CommonsenseQA
    "zhu2022.table3.4": (15, 15),
    "zhu2022.table3.5": (27, 27),
    "zhu2022.table3.6": (2 + 5 + 5 + 4, 16),
    "zhu2022.table3.7": (4 * 8, 4 * 8),
}
#: of table 3.2 the rows of each of its artefacts
ROWS = {
    "zhu2022.table3.2": {"BERT-base", "FreeLB-BERT", "MT-DNN", "XLNet-Large", "Human"},
    "zhu2022.table3.2.ensembles": {"RoBERTa", "FreeLB-RoB"},
}
MEDIANS = {f"zhu2022.table3.{number}" for number in (1, 4, 5, 6, 7)}
TABLES = {name: one for name, one in ALL.items() if one.kind == "table"}
ADDITIONS = sorted(name for name, one in TABLES.items() if one.addition)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    changes = {"seeds": (0, 1), "tasks": pretend.GLUE, "encoders": ("roberta", "albert", "bert")}
    small = type("Small", (pretend.Chapter,), changes)()
    return evidence_of(small.write(tmp_path_factory.mktemp("freelb")))


def test_all_tables_are_there():
    assert set(TABLES) - set(ADDITIONS) == set(DEFINED)
    wanted = {
        f"addition.freelb_{part}"
        for part in ("own_tasks", "tasks", "contrast", "cost", "encoders", "max_increase")
    }
    assert set(ADDITIONS) == wanted


@pytest.mark.parametrize("name", DEFINED)
def test_every_published_number_stands_in_exactly_one_cell_and_every_cell_has_one(name, tmp_path):
    check_printed(name, evidence_of(tmp_path), lambda v: v.row in ROWS.get(name, {v.row}))


@pytest.mark.parametrize("name", DEFINED)
def test_cells_are_counted(name, whole, tmp_path):
    check_counted(name, whole, evidence_of(tmp_path), *DEFINED[name])


@pytest.mark.parametrize("name", ADDITIONS)
def test_additions_are_no_published_cells(name, whole):
    found = coverage.cover(TABLES[name], whole)
    assert found.addition and coverage.total([found]) == (0, 0) and "Addition, no" in TABLES[name].title
    assert found.measured or name == "addition.freelb_own_tasks"


# medians


def test_tables_of_medians_are_those_that_the_paper_calls_so():
    assert {name for name in DEFINED if TABLES[name].aggregate == "median"} == MEDIANS
    others = [one for one in every_artefact().values() if one.study != "freelb"]
    assert {one.aggregate for one in others} == {"mean"}


def test_a_median_is_shown_with_the_standard_deviation(tmp_path):
    scores = [0.5, 0.9, 0.52, 0.51, 0.53]  # one far off: the median does not follow it
    pretend.several(tmp_path, "rte", freelb=scores)
    cell = cells_of("zhu2022.table3.1", evidence_of(tmp_path))["freelb", "rte"]
    assert cell.mean == pytest.approx(0.52) and cell.spread == pytest.approx(np.std(scores, ddof=1))
    assert grid.text(cell) == "52.0 ± 17.3 (5)"
    assert grid.away(cell) == "-36.1" and grid.format_published(cell.printed.values()) == "88.13 ± 1.2 (5)"


def test_a_mean_is_shown_with_its_standard_error(tmp_path):
    pretend.several(tmp_path, "rte", freelb=[0.5, 0.9, 0.52])
    known = evidence_of(tmp_path)
    as_mean = replace(TABLES["zhu2022.table3.1"], aggregate="mean")
    (cell,) = [c for c in table.build(as_mean, known) if c.status == "measured"]
    assert cell.mean == pytest.approx(0.64)
    assert cell.spread == pytest.approx(np.std([0.5, 0.9, 0.52], ddof=1) / np.sqrt(3))


def test_of_one_seed_there_is_no_spread_and_of_two_the_median_is_between(tmp_path):
    pretend.several(tmp_path, "rte", freelb=[0.5], pgd=[0.5, 0.6])
    cells = cells_of("zhu2022.table3.1", evidence_of(tmp_path))
    assert grid.text(cells["freelb", "rte"]) == "50.0 (1)"
    assert grid.text(cells["pgd", "rte"]) == "55.0 ± 7.1 (2)"
    assert statistics.median_spread([0.3]) == (0.3, None)


def test_a_run_that_did_not_converge_counts_and_is_reported(tmp_path):
    pretend.several(tmp_path, "stsb", pgd=[0.9, 0.91])
    pretend.finetune(tmp_path, "stsb", "pgd", 0.02, seed=2, outcome="not_converged")
    pretend.finetune(tmp_path, "stsb", "pgd", None, seed=3, outcome="diverged")
    cell = cells_of("zhu2022.table3.1", evidence_of(tmp_path))["pgd", "stsb"]
    assert grid.text(cell) == "90.0 ± 51.1 (3) [1 diverged] [1 not converged]"


def test_every_format_says_what_is_aggregated(whole, tmp_path):
    said = "A cell: median ± standard deviation over seeds, (n) = seeds."
    one, other = TABLES["zhu2022.table3.1"], TABLES["zhu2022.table3.2"]
    assert said in one.full_caption and other.full_caption == other.caption
    cells = table.build(one, whole)
    assert said in table_formats.markdown(one, cells)
    assert "median \\ensuremath{\\pm} standard deviation" in table_formats.latex(one, cells)
    for artefact, words in ((one, ("median", "standard_deviation")), (other, ("mean", "standard_error"))):
        table_formats.write(artefact, table.build(artefact, whole), tmp_path)
        rows = rows_of(tmp_path / f"{artefact.id}.csv")
        assert {(row["aggregate"], row["spread_kind"]) for row in rows} == {words}
    found = [coverage.cover(artefact, whole) for artefact in (one, other)]
    assert found[0].line().startswith("zhu2022.table3.1: medians, ") and "mean" not in found[1].line()
    aggregate = coverage.FIELDS.index("aggregate")
    assert [row[aggregate] for row in coverage.table(found, "mini")] == ["median", "mean"]


def test_the_page_says_it_too(whole, tmp_path):
    from relearn.report.views import studies

    one = TABLES["zhu2022.table3.4"]
    material = studies.Material(tmp_path, (), [one], {one.id: table.build(one, whole)}, (), ())
    found = studies.artefact(one, material, coverage.cover(one, whole))
    assert one.full_caption in found["caption"] and one.full_caption != one.caption


def test_medians_over_victims_have_the_standard_deviation_as_their_means_do():
    column = Column("a", "A", "attack_success", "fraction")
    common = {"id": "x", "study": "s", "kind": "table", "title": "T", "caption": "C."}
    common |= {"where": (), "members": (), "rows": (Row("r", "R", {}),), "columns": (column,)}
    one = Artefact(**common, over="victim", aggregate="median", layout="members")
    assert one.full_caption == "C. A cell: median ± standard deviation over victims, (n) = victims."
    assert replace(one, aggregate="mean").spread_kind == "standard_deviation"
    assert replace(one, aggregate="mean", layout="grid").spread_kind == "standard_error"
    assert replace(one, kind="figure").full_caption == "C."


def test_an_unknown_aggregate_is_refused(tmp_path):
    for file in FOLDERS["freelb"].iterdir():
        shutil.copy(file, tmp_path)
    assert artefacts.load({"freelb": tmp_path})
    tables = tmp_path / "tables.yaml"
    text = tables.read_text(encoding="utf-8")
    tables.write_text(text.replace("  aggregate: median\n", "  aggregate: mode\n", 1), encoding="utf-8")
    with pytest.raises(ValueError, match=r"table3\.1: aggregate: found mode, allowed: mean, median"):
        artefacts.load({"freelb": tmp_path})


# what the cells are


def test_rows_that_are_only_printed(whole):
    _, lines = table_formats.header_and_rows(
        TABLES["zhu2022.table3.7"], table.build(TABLES["zhu2022.table3.7"], whole)
    )
    said = {(line[0], line[1]): line[2:] for line in lines}
    assert said["BERT-large", "MNLI, %"] == ["n/a", "86.6", "-"]
    assert said["RoBERTa-FreeLB", "MNLI, %"] == ["86.5 ± 0.7 (2)", "90.6 (5)", "-4.1"]


def test_single_models_are_berts_and_ensembles_are_robertas(tmp_path):
    pretend.finetune(tmp_path, "mrpc", "freelb", 0.8, encoder="bert")
    pretend.finetune(tmp_path, "mrpc", "freelb", 0.2, encoder="roberta")
    pretend.finetune(tmp_path, "rte", "freelb", 0.9, encoder="bert")
    pretend.ensemble(tmp_path, "freelb", 0.7)
    known = evidence_of(tmp_path)
    cells = cells_of("zhu2022.table3.2", known)
    assert cells["freelb", "mrpc_accuracy"].mean == pytest.approx(0.78)
    assert cells["freelb", "mrpc_f1"].mean == pytest.approx(0.79)
    assert cells["freelb", "mrpc_f1"].published == {"paper": pytest.approx(0.881)}
    assert cells["freelb", "rte"].status == "no_value"  # its labels are the server's
    cells = cells_of("zhu2022.table3.2.ensembles", known)
    assert cells["freelb", "stsb_spearman"].mean == 0.7
    assert cells["freelb", "stsb_spearman"].published == {"paper": pytest.approx(0.922)}
    assert cells["vanilla", "mrpc_f1"].status == "not_run"


def test_questions_with_several_answers(tmp_path):
    pretend.finetune(tmp_path, "csqa", "freelb", 0.5)
    pretend.finetune(tmp_path, "arc_easy", "freelb", 0.9)
    for task, score in (("arc", 0.6), ("arc_joint", 0.7)):
        pretend.merge_scores(tmp_path, task, "freelb", score)
    pretend.ensemble(tmp_path, "freelb", 0.4)
    cells = cells_of("zhu2022.table3.3", evidence_of(tmp_path))
    assert cells["freelb", "merge_dev"].mean == 0.6 and cells["freelb_joint", "merge_dev"].mean == 0.7
    assert cells["freelb_joint", "merge_dev"].published == {"paper": pytest.approx(0.7986)}
    assert cells["freelb", "easy_dev"].mean == 0.9 and cells["freelb", "csqa_ensemble"].mean == 0.4
    assert cells["freelb", "csqa_dev"].mean == 0.5 and cells["vanilla", "csqa_dev"].status == "not_run"


def test_increases_are_of_a_model_a_reference_and_a_task(tmp_path):
    for seed, size in enumerate((1.0, 3.0, 2.0)):
        pretend.max_loss_increase(
            tmp_path, "cola", {"vanilla": 5e-4 * size, "freelb": 1.4e-4 * size}, seed=seed
        )
    cells = cells_of("zhu2022.table3.5", evidence_of(tmp_path))
    found = cells["freelb", "cola/increase"]
    assert found.mean == pytest.approx(2 * 0.9 * 1.4e-4) and found.published == {"paper": 1.4e-4}
    assert cells["freelb", "cola/increase_reference"].mean == pytest.approx(2.8e-4)
    assert cells["vanilla", "cola/loss"].mean == pytest.approx(1e-2)
    assert cells["pgd", "cola/increase"].status == "no_value"
    assert cells["vanilla", "rte/increase"].status == "not_run"
    assert grid.text(found) == "2.52e-04 ± 1.26e-04 (3)" and grid.away(found) == "+1.12e-04"
    assert grid.format_published(found.printed.values()) == "0.00014"


def test_majority_accuracy_and_cost_have_columns(tmp_path):
    pretend.finetune(tmp_path, "imdb", "vanilla", 0.8, majority=0.51)
    pretend.finetune(tmp_path, "imdb", "freelb", 0.85, majority=0.51)
    known = evidence_of(tmp_path)
    cells = cells_of("addition.freelb_own_tasks", known)
    assert cells["vanilla", "imdb/majority"].mean == 0.51
    assert cells["freelb", "imdb/majority"].status == "not_applicable"
    assert cells["freelb", "imdb/test"].mean == pytest.approx(0.83)
    cells = cells_of("addition.freelb_cost", known)
    assert (cells["vanilla", "imdb/passes"].mean, cells["freelb", "imdb/passes"].mean) == (60.0, 180.0)
