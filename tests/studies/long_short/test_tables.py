"""The study's tables: every published cell occurs once, next to the right run; numbers that are only printed are no cells."""

import pytest

from relearn.report import artefacts, coverage, grid, table, table_formats
from relearn.report.quantities import Evidence

from ...report.conftest import cells_of, chapter, check_counted, check_printed, evidence_of, own, values_of
from . import fake_records as pretend

ALL = chapter("long_short") | chapter("robustness")
#: published cells, and those that the pretended chapter measures
DEFINED = {
    "zhu2022.table5.1": (8 * 7 + 3, 59),
    "zhu2022.table5.2": (12, 12),
    "zhu2022.table5.3": (24, 24),
    "zhu2022.table5.4": (4, 2),
    "zhu2022.table5.5": (14, 14),
    "zhu2022.table5.6": (12 * 6 - 3, 69),
    "zhu2022.table5.7": (5 + 2, 5),
    "zhu2022.table5.8": (23 * 2, 10),
    "zhu2022.table5.8.accuracy": (18, 9),
    "zhu2022.table5.8.derived": (12 * 2, 0),
    "zhu2022.table5.8.latency": (9, 1),
    "zhu2022.table5.9": (6 * 6, 6),
    "zhu2022.table5.10": (5 * 15, 75),
    "zhu2022.table5.11": (4 * 4, 4),
}
#: of table 5.8 the measures of each of its artefacts
PART = {
    "zhu2022.table5.8": {"model size", "compute"},
    "zhu2022.table5.8.accuracy": {"ImageNet-1K top-1"},
    "zhu2022.table5.8.derived": {"ImageNet-ReaL top-1", "ImageNet-V2 top-1"},
    "zhu2022.table5.8.latency": {"V100 latency, batch 32"},
}
TABLES = {name: one for name, one in ALL.items() if one.kind == "table"}
ADDITIONS = sorted(name for name, one in TABLES.items() if one.addition)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    small = type("Small", (pretend.Chapter,), {"seeds": (0, 1)})()
    return evidence_of(small.write(tmp_path_factory.mktemp("long_short")))


def test_all_tables_are_there():
    assert set(TABLES) - set(ADDITIONS) == set(DEFINED)


@pytest.mark.parametrize("name", DEFINED)
def test_every_published_number_stands_in_exactly_one_cell_and_every_cell_has_one(name, tmp_path):
    check_printed(name, evidence_of(tmp_path), lambda v: v.column in PART.get(name, {v.column}))


@pytest.mark.parametrize("name", DEFINED)
def test_cells_are_counted(name, whole, tmp_path):
    check_counted(name, whole, evidence_of(tmp_path), *DEFINED[name])


def test_rows_that_are_only_printed_are_no_cells_and_nothing_is_missing_of_them(whole):
    found = coverage.cover(TABLES["zhu2022.table5.7"], own("zhu2022.table5.7", whole))
    assert found.methods == 2 and not found.missing
    _, lines = table_formats.header_and_rows(
        TABLES["zhu2022.table5.7"],
        table.build(TABLES["zhu2022.table5.7"], own("zhu2022.table5.7", whole)),
    )
    said = {line[0]: line for line in lines}
    assert said["Longformer [8] (smaller)"][-3:] == ["n/a", "1.00", "-"]
    assert said["Transformer-LS (smaller)"][1:4] == ["44.10 (1)", "44", "+0.10"]
    assert said["Transformer-LS (smaller)"][-3:] == ["0.995 ± 0.005 (2)", "0.99", "+0.005"]
    assert said["Transformer-LS (larger)"][-3:] == ["0.975 ± 0.005 (2)", "0.97", "+0.005"]


@pytest.mark.parametrize("name", ADDITIONS)
def test_additions_are_no_published_cells(name, whole):
    found = coverage.cover(TABLES[name], own(name, whole))
    assert found.addition and coverage.total([found]) == (0, 0) and "Addition, no" in TABLES[name].title
    assert found.measured or name == "addition.robustness_imagenet"


def test_accuracy_flops_and_average_of_an_attention(whole, tmp_path):
    cells = cells_of("zhu2022.table5.1", whole)
    assert cells["full", "text/accuracy"].mean == pytest.approx(0.665)
    assert cells["full", "text/accuracy"].published == {"paper": pytest.approx(0.654)}
    assert cells["long_short", "retrieval/flops"].mean == pytest.approx(0.84)
    assert cells["long_short", "retrieval/flops"].published == {"paper": 0.8}
    assert cells["long_short", "average/accuracy"].mean == pytest.approx(0.705)
    assert cells["full", "average/flops"].status == "not_applicable"
    assert cells["data", "text/length"].mean == 1296.0
    assert grid.format_published(cells["data", "text/length"].printed.values()) == "1296 ± 893"
    for task, accuracy in (("listops", 0.2), ("text", 0.6), ("image", 0.9)):
        pretend.understand(tmp_path, task, "full", accuracy)
    cells = cells_of("zhu2022.table5.1", evidence_of(tmp_path))
    assert cells["full", "average/accuracy"].mean is None  # no Retrieval
    pretend.understand(tmp_path, "retrieval", "full", 0.7)
    cells = cells_of("zhu2022.table5.1", evidence_of(tmp_path))
    assert cells["full", "average/accuracy"].mean == pytest.approx(0.5)


def test_window_and_rank_are_those_of_the_runs(tmp_path):
    pretend.understand(tmp_path, "retrieval", "long_short_best", 0.6, window=1, rank=254)
    cells = cells_of("zhu2022.table5.2", evidence_of(tmp_path))
    assert [grid.away(cells["long_short_best", f"retrieval/{size}"]) for size in ("window", "rank")] == [
        "+0",
        "+0",
    ]
    assert cells["long_short_best", "text/rank"].status == "not_run"


def test_perturbed_texts_have_their_accuracies_and_losses(whole):
    cells = cells_of("zhu2022.table5.3", whole)
    assert cells["dynamic", "text/none"].mean == pytest.approx(0.645)
    assert cells["dynamic", "text/insertion"].mean == pytest.approx(0.605)
    assert cells["linformer", "retrieval/deletion"].mean == pytest.approx(0.445)
    assert cells["linformer", "retrieval/deletion"].published == {"paper": pytest.approx(0.5175)}
    assert cells["long_short_best", "text/deletion"].published == {"paper": pytest.approx(0.6262)}


def test_seconds_of_a_batch_are_of_attention_and_task(tmp_path):
    at = {"performer": 1.0, "full": 5.0}
    pretend.latency(tmp_path, lambda attention, task: at.get(attention, 3.0) + 0.5 * (task == "text"))
    known = evidence_of(tmp_path)
    cells = cells_of("zhu2022.table5.6", known)
    assert cells["performer", "listops/latency"].mean == 1.0 and cells["full", "text/latency"].mean == 5.5
    assert cells["full", "text/latency"].published == {"paper": 0.071}
    assert cells["reformer", "text/latency"].status == "not_applicable"
    assert cells["performer", "listops/accuracy"].status == "not_run"
    more = cells_of("addition.long_short_latency", known)
    assert (
        more["performer", "text/train"].mean == pytest.approx(4.5) and more["full", "text/flops"].mean is None
    )


def test_networks_at_their_image_size(whole):
    cells = cells_of("zhu2022.table5.8", whole)
    assert cells["CvT-13@224", "flops"].mean == pytest.approx(4.48)
    assert cells["CvT-13@384", "flops"].mean == pytest.approx(7.68)
    assert cells["CvT-13@384", "flops"].published == {"paper": 31.9}
    assert cells_of("zhu2022.table5.8.latency", whole)["CvT-13@224", "latency"].mean == pytest.approx(0.08)
    accuracy = cells_of("zhu2022.table5.8.accuracy", whole)
    assert accuracy["CvT-LS-13@224", "accuracy"].mean == pytest.approx(0.605)
    assert accuracy["CvT-LS-21@448", "accuracy"].status == "not_run"


def test_sorted_errors_are_compared_with_sorted_errors(whole):
    """No printed number of table 5.10 is compared with a named corruption."""
    cells = cells_of("zhu2022.table5.10", whole)
    ranks = [column.id for column in TABLES["zhu2022.table5.10"].columns]
    for row in ("ResNet-50", "CvT-LS-21"):
        measured = [cells[row, rank].mean for rank in ranks]
        printed = [cells[row, rank].published["paper"] for rank in ranks]
        assert measured == sorted(measured) and printed == sorted(printed)
    words = " ".join(
        column.title + column.group + column.measure for column in TABLES["zhu2022.table5.10"].columns
    )
    assert not any(name in words for name in ("Gauss", "Fog", "JPEG", "Blur"))
    assert "sorted" in TABLES["zhu2022.table5.10"].caption
    named = cells_of("addition.robustness_corruptions", whole)
    assert (
        named["CvT-13", "fog"].mean == pytest.approx(pretend.errors()["fog"])
        and not named["CvT-13", "fog"].printed
    )


def test_captions_state_contradictions_between_printed_numbers():
    values = {(v.row, v.column): v.value for v in values_of("zhu2022.table5.9") if v.value is not None}
    gain = values["ResNet-50 [88]", "ImageNet-C"] - values["CvT*-LS-21", "ImageNet-C"]
    more = values["CvT*-LS-21", "ImageNet-A"] - values["ResNet-50 [88]", "ImageNet-A"]
    prose = {v.column: v.value for v in values_of("zhu2022.sec5_prose")}
    caption = TABLES["zhu2022.table5.9"].caption
    assert f"gives {gain:.1f} and {more:.1f}" in caption
    assert f"{prose['ImageNet-C mCE improvement']} (-C) and {prose['ImageNet-A improvement']} (-A)" in caption
    text = {
        (v.row, v.column.split()[-1]): v.value for v in values_of("zhu2022.table5.3") if "Text" in v.column
    }
    falls = [
        f"{text[row, 'None'] - text[row, change]:.1f}"
        for row in ("DP", "Linformer")
        for change in ("Insertion", "Deletion")
    ]
    assert "{} and {} points against {} and {}".format(*falls) in TABLES["zhu2022.table5.3"].caption
    flops = {(v.row, v.column): v.value for v in values_of("zhu2022.table5.1") if v.metric == "flops_g"}
    ours = "Transformer-LS (w,r=8,32)"
    shares = [
        flops[ours, column] / value
        for (row, column), value in flops.items()
        if row.startswith(("Reformer", "Linformer", "Performer", "Nystromformer"))
    ]
    assert f"{100 * min(shares):.0f}% to {100 * max(shares):.0f}%" in TABLES["zhu2022.table5.1"].caption


def test_imagenet_sets_and_a_reference_of_our_own(tmp_path):
    pretend.withstand(
        tmp_path, "DeiT-S", 0.798, corrupted={}, imagenet={"c": 0.571, "a": 0.19, "nine_same": 0.9}
    )
    pretend.withstand(tmp_path, "CvT-13", 0.8)
    known = evidence_of(tmp_path)
    cells = cells_of("zhu2022.table5.9", known)
    assert cells["DeiT-S", "mce"].mean == pytest.approx(0.571) and grid.away(cells["DeiT-S", "mce"]) == "+0.0"
    assert cells["DeiT-S", "same"].mean == 0.9 and cells["DeiT-S", "rand"].status == "no_value"
    assert cells["CvT-13", "mce"].status == "no_value"
    assert cells["CvT-13", "size"].status == "not_applicable"


def test_the_caption_names_the_machine_of_the_seconds(whole):
    for name in ("zhu2022.table5.6", "addition.long_short_latency", "addition.long_short_slopes"):
        assert "{machines}" in TABLES[name].caption
        assert "{machines}" not in artefacts.expand_rows(TABLES[name], own(name, whole).runs).caption
        assert "not measured at this scale" in artefacts.expand_rows(TABLES[name], []).caption


@pytest.mark.parametrize("name", sorted(TABLES))
def test_all_formats_are_written_without_a_run(name, tmp_path):
    cells = table.build(TABLES[name], Evidence([]))
    paths = table_formats.write(TABLES[name], cells, tmp_path)
    assert {path.name for path in paths} == {
        f"{name}{kind}" for kind in (".csv", ".seeds.csv", ".md", ".tex")
    }
