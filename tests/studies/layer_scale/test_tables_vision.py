"""Tables of qi2023 and touvron2021 over trainings: every published cell occurs once, and the outcome of a training is a result."""

import pytest

from relearn.report import artefacts, coverage, grid, quantities, table, table_formats

from ...report import fake_vision as pretend
from ...report.conftest import cells_of, chapter, check_counted, evidence_of, own

ALL = chapter("lipsformer") | chapter("layer_scale")
#: published cells, and those that the pretended study measures
DEFINED = {
    "qi2023.table2.accuracy": (54, 4),
    "qi2023.table3": (22, 22),
    "qi2023.table7.accuracy": (7, 5),
    "qi2023.throughput_memory": (4, 4),
    "touvron2021.facts": (4, 4),
}
ADDITIONS = (
    *("addition.lipsformer_training", "addition.lipsformer_throughput"),
    *("addition.layer_scale_depth", "addition.layer_scale_drop_path", "addition.layer_scale_class_token"),
)
TABLES = {name: ALL[name] for name in (*DEFINED, *ADDITIONS)}
METRICS = {"accuracy", "throughput", "peak_memory", "trainability"}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    small = type("Small", (pretend.Study,), {"seeds": (0, 1), "depths": (12, 24)})()
    return evidence_of(small.write(tmp_path_factory.mktemp("vision")))


@pytest.mark.parametrize("name", DEFINED)
def test_every_published_number_of_what_is_built_stands_in_one_cell(name, tmp_path):
    cells = cells_of(name, evidence_of(tmp_path)).values()
    shown = [value for cell in cells for value in cell.printed.values()]
    values = TABLES[name].published["paper"].values()
    rows = {row.published or row.title for row in TABLES[name].rows}
    wanted = [v for v in values if v.row in rows and v.metric in METRICS and v.outcome != "not_reported"]
    assert sorted(map(repr, shown)) == sorted(map(repr, wanted))
    if name == "qi2023.table2.accuracy":  # and of its networks those that are built
        rows = {row.published or row.title for row in ALL["qi2023.table2"].rows}
    else:
        rows = {v.row for v in values if v.metric in METRICS and v.outcome != "not_reported"}
    assert {row.published or row.title for row in TABLES[name].rows} == rows


@pytest.mark.parametrize("name", DEFINED)
def test_cells_are_counted(name, whole, tmp_path):
    check_counted(name, whole, evidence_of(tmp_path), *DEFINED[name])


@pytest.mark.parametrize("name", ADDITIONS)
def test_additions_are_no_published_cells(name, whole):
    found = coverage.cover(TABLES[name], own(name, whole))
    assert found.addition and found.measured and coverage.total([found]) == (0, 0)


def test_one_network_is_the_base_of_seven_groups(whole):
    cells = cells_of("qi2023.table3", whole)
    base = [cell for cell in cells.values() if "/base/" in f"{cell.runs[0]}/"]
    assert len(base) == 7 and len({grid.text(cell) for cell in base}) == 1
    assert {cell.row.title.partition(":")[0] for cell in base} == {
        *("Warmup", "Normalization", "Initialization", "Attention", "Alpha", "Conv Blocks", "Drop Ratio")
    }
    assert {cell.published["paper"] for cell in base} == {0.816}
    runs = {run for cell in cells.values() for run in cell.runs}
    assert {run.split("/")[4] for run in runs} == set(pretend.ABLATION)


def test_how_trainings_end_is_a_result_beside_the_printed_one(whole):
    artefact = TABLES["qi2023.table3"]
    header, lines = table_formats.header_and_rows(
        artefact, table.build(artefact, own("qi2023.table3", whole))
    )
    assert header == ["LipsFormer-CSwin-T", "Accuracy, %", "Paper", "Deviation"]
    said = {line[0]: line[1:] for line in lines}
    assert said["Normalization: LayerNorm"] == ["10.0 ± 0.0 (2) [2 not converged]", "not converged", "-"]
    assert said["Attention: Dot Product"] == ["diverged (2)", "diverged", "-"]
    assert said["Warmup: No"] == ["70.5 ± 0.5 (2)", "81.6", "-11.1"]
    facts = cells_of("touvron2021.facts", whole)
    assert grid.text(facts["fixup", "accuracy"]) == "10.0 ± 0.0 (2) [2 not converged]"
    assert grid.text(facts["t_fixup", "accuracy"]) == "diverged (2)"
    assert grid.text(facts["rezero", "accuracy"]) == "58.5 ± 0.5 (2)"
    assert {grid.format_published(cell.printed.values()) for cell in facts.values()} == {
        "not converged",
        "converges poorly",
    }


def test_a_training_that_did_not_converge_is_counted_in_the_raw_table(tmp_path):
    for seed, outcome in enumerate(("ok", "not_converged", "diverged")):
        pretend.ablation(tmp_path, "layer_norm", 0.2, seed=seed, outcome=outcome)
    cells = table.build(TABLES["qi2023.table3"], evidence_of(tmp_path))
    table_formats.write(TABLES["qi2023.table3"], cells, tmp_path)
    head, *lines = (tmp_path / "qi2023.table3.csv").read_text().splitlines()
    (line,) = [line for line in lines if line.startswith("qi2023.table3,layer_norm,")]
    row = dict(zip(head.split(","), line.split(",")))
    assert (row["not_converged_count"], row["diverged_count"], row["members_count"]) == ("1", "1", "3")
    text = "20.0 ± 0.0 (3) [1 diverged] [1 not converged]"
    assert grid.text(next(cell for cell in cells if cell.row.id == "layer_norm")) == text


def test_facts_are_of_twelve_blocks(tmp_path):
    pretend.deep(tmp_path, "rezero", 24, 0.1)
    assert cells_of("touvron2021.facts", evidence_of(tmp_path))["rezero", "accuracy"].status == "not_run"


def test_suites_do_not_mix(tmp_path):
    pretend.pair(tmp_path, "LipsFormer-CSwin-T", 0.9)
    pretend.ablation(tmp_path, "base", 0.5)
    known = evidence_of(tmp_path)
    assert cells_of("qi2023.table2.accuracy", known)["LipsFormer-CSwin-T", "accuracy"].mean == 0.9
    assert cells_of("qi2023.table3", known)["warmup_no", "accuracy"].mean == 0.5
    more = cells_of("addition.lipsformer_training", known)
    assert (more["LipsFormer-CSwin-T", "best"].mean, more["base", "best"].mean) == (0.9, 0.5)


def test_each_depth_has_its_own_columns(whole):
    cells = cells_of("addition.layer_scale_depth", whole)
    assert cells["pre_norm", "12/accuracy"].mean == pytest.approx(0.605)
    assert cells["pre_norm", "24/accuracy"].mean == pytest.approx(0.605 - 0.036)
    assert cells["pre_norm", "36/accuracy"].status == "not_run"
    assert cells["layer_scale_1e-5", "24/variation"].mean == pytest.approx(0.3 * 1.05)
    assert cells_of("addition.layer_scale_drop_path", whole)["linear", "accuracy"].mean == pytest.approx(
        0.605
    )
    assert cells_of("addition.layer_scale_class_token", whole)[
        "class_attention", "accuracy"
    ].mean == pytest.approx(0.625)


def test_the_caption_states_the_rate_that_was_chosen_and_not_the_one_that_it_replaces(tmp_path):
    for variant, rate in (("rezero", 0.002), ("skip_init", 0.008)):
        more = {"settings": {"lr": 0.004}, "metrics": {"lr": rate}}
        pretend.deep(tmp_path, variant, 12, 0.5, **more)
    pretend.deep(tmp_path, "fixup", 12, 0.5, settings={"lr": 0.004})  # without a search
    cells = cells_of("addition.layer_scale_depth", evidence_of(tmp_path))
    stated = {row: cell.chosen for (row, column), cell in cells.items() if column == "12/accuracy"}
    assert {row: words for row, words in stated.items() if words} == {
        "rezero": "learning rate 0.002",
        "skip_init": "learning rate 0.008",
        "fixup": "learning rate 0.004",
    }


def test_the_caption_names_the_machine_of_the_speed(whole, tmp_path):
    cells = cells_of("qi2023.throughput_memory", whole)
    assert cells["LipsFormer-Swin-B", "memory"].published == {"paper": 7415.0}
    assert cells["LipsFormer-Swin-T", "throughput"].mean == 900.0
    for name in ("qi2023.throughput_memory", "addition.lipsformer_throughput"):
        runs = own(name, whole).runs
        (machine,) = {run.machine for run in runs if run.step == "throughput"}
        assert f"{machine}." in artefacts.expand_rows(TABLES[name], runs).caption
        assert artefacts.expand_rows(TABLES[name], []).caption.endswith(": not measured at this scale.")


def test_steps_of_vision_are_quantities():
    for step in ("train_vision", "evaluate_uncertainty", "throughput", "evaluate_imagenet"):
        found = quantities.quantity(f"{step}.acc_frac")
        assert (found.step, found.metric) == (step, "acc_frac")


@pytest.mark.parametrize("name", sorted(TABLES))
def test_all_formats_are_written(name, whole, tmp_path):
    paths = table_formats.write(TABLES[name], table.build(TABLES[name], own(name, whole)), tmp_path)
    assert {path.name for path in paths} == {
        f"{name}{kind}" for kind in (".csv", ".seeds.csv", ".md", ".tex")
    }
