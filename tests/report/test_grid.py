"""Chapter 4's tables: cells against means done by hand, every published cell joined once, and how it reads."""

import csv
import json
import math
from dataclasses import replace

import pytest

from relearn.report import artefacts, classified, coverage, grid, table, table_formats
from relearn.report.published import Value
from relearn.steps.trained import chance

from ..studies.gradinit import fake_records as pretend
from .conftest import cells_of, chapter, every_artefact, evidence_of

ARTEFACTS = chapter("gradinit")
TABLES = {name: one for name, one in ARTEFACTS.items() if one.kind == "table"}
DEFINED = {
    "zhu2022.table4.1": 3 * 2,
    "zhu2022.table4.2": 3 * 3,
    "zhu2022.table4.3": 2 * 4 + 4 * 4 * 2,
    "zhu2022.table4.4": 5 * 5 * 2,
    "zhu2022.table4.5": 3 * 4 * 2 - 1,  # MetaInit's first epoch on WRN is not reported
    "zhu2022.table4.6": 4 * 2 * 2,
    "zhu2022.table4.7": 3 * 2 + 2 * 2,
    "zhu2022.table4.8": 2 + 2 + 1 + 4,
    "zhu2022.table4.9": 3 * 4 * 2,
    "zhu2022.table4.10": 9,
    "zhu2022.sec4_adamw": 4,
    "zhu2022.sec4_warmup": 2,
    "zhu2022.sec4_gradient_ratio": 2,
}


@pytest.fixture
def evidence(gradinit):
    return gradinit


@pytest.mark.parametrize("name", [name for name in TABLES if not name.startswith("addition")])
def test_every_published_number_stands_in_exactly_one_cell(name, tmp_path):
    source = TABLES[name].published["paper"]
    cells = cells_of(name, evidence_of(tmp_path)).values()
    shown = [value for cell in cells for value in cell.printed.values() if cell.row.applies(cell.column.id)]
    if source.artefact == "zhu2022.sec4_prose":
        assert len(shown) == DEFINED[name] == len({(value.row, value.column) for value in shown})
    else:
        values = [v for v in source.values() if v.value is not None]
        assert sorted(map(repr, shown)) == sorted(map(repr, values))
    assert not any(cell.published for cell in cells if not cell.row.in_grid)


def test_published_numbers_are_those_of_their_network_and_measure(tmp_path):
    cells = cells_of("zhu2022.table4.4", evidence_of(tmp_path))
    assert cells["gradinit", "ResNet-1202-BN/acc1"].published == {"paper": pytest.approx(0.29)}
    assert cells["gradinit", "ResNet-1202-BN/accbest"].published == {"paper": pytest.approx(0.962)}
    assert cells["kaiming", "VGG-19-BN/acc1"].published == {"paper": pytest.approx(0.126)}
    assert cells["extra_epoch_warmup", "ResNet-110/accbest"].published == {"paper": pytest.approx(0.941)}
    seconds = cells_of("zhu2022.table4.3", evidence_of(tmp_path))
    assert seconds["constraint", "ResNet-110-BN/seconds"].published == {"paper": 195.0}
    assert seconds["penalty", "ResNet-110-BN/seconds"].published == {"paper": 269.0}


@pytest.mark.parametrize("name", DEFINED)
def test_nothing_measured_of_everything_defined(name, tmp_path):
    found = coverage.cover(ARTEFACTS[name], evidence_of(tmp_path))
    assert (found.measured, found.defined, found.addition) == (0, DEFINED[name], False)
    assert len(found.missing) == found.methods


def test_the_ratio_of_first_to_last_is_that_of_the_probe(tmp_path):
    labels = {"protocol": "gradient_statistics", "task": "images", "suite": "grid", "network": "VGG-19-BN"}
    for start, ratio in (("kaiming", 150.0), ("gradinit", 90.0)):
        metrics = {"conv_std_first_to_last_ratio": ratio}
        pretend.write_run(tmp_path, "gradient_statistics", {**labels, "initialisation": start}, metrics)
    cells = cells_of("zhu2022.sec4_gradient_ratio", evidence_of(tmp_path))
    assert cells["kaiming", "ratio"].deviation() == ("paper", pytest.approx(150 - 204.9))
    assert cells["gradinit", "ratio"].deviation() == ("paper", pytest.approx(90 - 164.8))


def test_coverage_counts_cells_and_not_seeds(tmp_path):
    for seed in (0, 1, 2):
        pretend.train(tmp_path, "VGG-19", "kaiming", {"acc1_frac": 0.3, "accbest_frac": 0.9}, seed=seed)
    found = coverage.cover(TABLES["zhu2022.table4.4"], evidence_of(tmp_path))
    assert found.measured == 2
    assert found.missing == ("+1 epoch (Const. LR)", "+1 epoch (Warmup)", "MetaInit", "GradInit")
    pretend.train(tmp_path, "VGG-19", "fixup", {"acc1_frac": 0.3}, recipe="adamw")  # in no table
    pretend.train(tmp_path, "VGG-19", "gradinit", {"acc1_frac": 0.3}, suite="first_steps")
    assert coverage.cover(TABLES["zhu2022.table4.4"], evidence_of(tmp_path)).measured == 2


def test_a_cell_is_the_mean_over_seeds_with_its_standard_error(tmp_path):
    for seed, accuracy in enumerate((0.2, 0.3, 0.7)):
        pretend.train(tmp_path, "VGG-19-BN", "gradinit", {"acc1_frac": accuracy}, seed=seed)
    pretend.train(tmp_path, "VGG-19-BN", "gradinit", {"acc1_frac": 0.0}, recipe="steps", suite="first_steps")
    pretend.train(tmp_path, "VGG-19", "gradinit", {"acc1_frac": 0.0})
    cell = cells_of("zhu2022.table4.4", evidence_of(tmp_path))["gradinit", "VGG-19-BN/acc1"]
    assert cell.mean == pytest.approx(0.4)
    deviation = math.sqrt((0.2**2 + 0.1**2 + 0.3**2) / 2)
    assert cell.spread == pytest.approx(deviation / math.sqrt(3))
    assert list(cell.members) == ["seed0", "seed1", "seed2"]
    assert cell.deviation() == ("paper", pytest.approx(0.4 - 0.478))
    assert cell.runs == tuple(
        f"runs/gradinit/train_from_init/images/grid/VGG-19-BN/gradinit/sgd/seed{seed}" for seed in (0, 1, 2)
    )
    assert grid.text(cell) == "40.0 ± 15.3 (3)"


def test_the_seconds_of_a_penalty_are_averaged_over_its_strengths_and_then_over_seeds(tmp_path):
    for seed in (0, 1):
        for strength, seconds in (("1e-4", 4.0), ("1", 8.0 + seed)):
            name = f"gradinit_penalty_{strength}"
            pretend.initialise(tmp_path, "VGG-19", name, {"initialise_s": seconds}, seed=seed)
    cell = cells_of("zhu2022.table4.3", evidence_of(tmp_path))["penalty", "VGG-19/seconds"]
    assert (cell.mean, len(cell.members)) == (pytest.approx((6.0 + 6.5) / 2), 2)
    assert cell.spread == pytest.approx(0.25)


def test_a_diverged_run_counts_with_the_number_that_it_has(tmp_path):
    chance = {"acc1_frac": 0.1, "accbest_frac": math.nan}
    pretend.train(tmp_path, "VGG-19-BN", "kaiming", chance, recipe="scalars", outcome="diverged")
    pretend.train(tmp_path, "VGG-19-BN", "kaiming", {"acc1_frac": 0.3}, recipe="scalars", seed=1)
    cells = cells_of("zhu2022.table4.7", evidence_of(tmp_path))
    first, best = (cells["scalars", f"VGG-19-BN/{measure}"] for measure in ("acc1", "accbest"))
    assert (first.mean, first.diverged, first.status) == (pytest.approx(0.2), 1, "measured")
    assert grid.text(first) == "20.0 ± 10.0 (2) [1 diverged]"
    assert grid.text(best) == "diverged (1)"
    assert cells["gradinit", "VGG-19-BN-low-lr/acc1"].status == "not_applicable"
    # the result "diverged" is a measured cell; the other learning rate and network are not
    assert coverage.cover(TABLES["zhu2022.table4.7"], evidence_of(tmp_path)).measured == 2


def test_the_best_recipe_is_the_one_with_the_best_mean(tmp_path):
    for seed, (low, high) in enumerate(((30.0, 34.0), (36.0, 35.0))):
        pretend.train_translation(tmp_path, "w_skip", "admin", "adam_lr0.0002_b0.98", low, seed=seed)
        pretend.train_translation(tmp_path, "w_skip", "admin", "adam_lr0.0005_b0.98", high, seed=seed)
    pretend.train_translation(tmp_path, "w_skip", "admin", "adam_warmup", 99.0)
    pretend.train_translation(tmp_path, "w_skip", "gradinit", "adam_lr0.0002_b0.98", 98.0)
    cells = cells_of("zhu2022.table4.10", evidence_of(tmp_path))
    best = cells["admin_adam", "bleu"]
    assert (best.mean, best.best, len(best.runs)) == (34.5, "adam_lr0.0005_b0.98", 2)
    assert grid.text(best) == "34.5 ± 0.5 (2) [adam_lr0.0005_b0.98]"
    assert cells["gradinit_w_skip_adam", "bleu"].best == ""  # there was no choice
    assert cells["gradinit_adam", "bleu"].status == "not_run"


def test_lower_is_better_where_the_column_says_so(tmp_path):
    for recipe, bleu in (("adam", 30.0), ("adam_lr0.0002_b0.98", 20.0)):
        pretend.train_translation(tmp_path, "w_skip", "admin", recipe, bleu)
    artefact = TABLES["zhu2022.table4.10"]
    lower = replace(artefact, columns=(replace(artefact.columns[0], direction="lower"),))
    found = {c.row.id: c for c in table.build(lower, evidence_of(tmp_path))}
    assert found["admin_adam"].mean == 20.0


def test_a_grid_reads_row_by_row_and_measure_by_measure(evidence):
    artefact = TABLES["zhu2022.table4.4"]
    header, lines = table_formats.header_and_rows(artefact, table.build(artefact, evidence))
    assert (
        header[:5] == ["Initialisation", "Measure", "VGG-19", "Paper", "Deviation"]
        and len(header) == 2 + 5 * 3
    )
    assert [line[:2] for line in lines[:3]] == [
        ["Kaiming", "Acc1, %"],
        ["Kaiming", "Accbest, %"],
        ["+1 epoch (Const. LR)", "Acc1, %"],
    ]
    assert all(len(line) == len(header) for line in lines) and len(lines) == 10
    # Chapter: 0.25 + 0.01 seed for Kaiming's first epoch, seeds 0 to 2
    assert lines[0][2:5] == ["26.0 ± 0.6 (3)", "29.1 ± 1.5 (4)", "-3.1"]


def test_a_grid_of_one_network_has_its_measures_as_columns(evidence):
    artefact = TABLES["zhu2022.table4.2"]
    header, lines = table_formats.header_and_rows(artefact, table.build(artefact, evidence))
    assert header[1::3] == ["Gradient norm at the start", "Acc1, %", "Accbest, %"]
    assert [line[2] for line in lines] == ["8.63 ± 0.20", "11.56 ± 0.05", "190.62 ± 7.65"]


def test_an_addition_has_no_published_column(evidence):
    artefact = TABLES["addition.gradinit_rivals"]
    header, _ = table_formats.header_and_rows(artefact, table.build(artefact, evidence))
    assert header == ["Initialisation", "Measure", "VGG-19", "ResNet-110", "ResNet-110 with BN"]


@pytest.mark.parametrize("name", TABLES)
def test_all_formats_are_written_and_agree(name, evidence, tmp_path):
    artefact = TABLES[name]
    cells = table.build(artefact, evidence)
    paths = {path.name: path for path in table_formats.write(artefact, cells, tmp_path)}
    assert set(paths) == {f"{name}{kind}" for kind in (".csv", ".seeds.csv", ".md", ".tex")}
    with paths[f"{name}.csv"].open(newline="") as file:
        rows = {(row["row"], row["column"]): row for row in csv.DictReader(file)}
    with paths[f"{name}.seeds.csv"].open(newline="") as file:
        seeds = list(csv.DictReader(file))
    for cell in cells:
        row = rows[cell.row.id, cell.column.id]
        assert row["mean"] == ("" if cell.mean is None else repr(cell.mean))
        own = [s for s in seeds if (s["row"], s["column"]) == (cell.row.id, cell.column.id)]
        assert {s["member"] for s in own} == set(cell.members)
        assert all(s["member"] in run for s in own for run in s["runs"].split())
    width = {line.count("|") for line in paths[f"{name}.md"].read_text().splitlines() if line[:1] == "|"}
    assert len(width) == 1


def value(number, spread=None, runs=None, outcome="ok", unit="percent"):
    return Value("a", "r", "c", "m", unit, "higher", number, spread, "", runs, outcome, "")


@pytest.mark.parametrize(
    ("printed", "words"),
    [
        (value(95.0, 0.2, 4), "95.0 ± 0.2 (4)"),
        (value(94.7, 0.02), "94.7 ± 0.02"),
        (value(8.63, 0.2), "8.63 ± 0.20"),
        (value(82.0, unit="seconds"), "82"),
        (value(10.0, 0.0, 4, "not_converged"), "10.0 ± 0.0 (4), not converged"),
        (value(None, outcome="not_converged"), "not converged"),
        (value(None, outcome="not_reported"), "-"),
    ],
)
def test_what_the_paper_prints(printed, words):
    assert grid.format_published([printed]) == words


@pytest.mark.parametrize(
    ("number", "unit", "words"),
    [
        (0.4567, "fraction", "45.7"),
        (0.3025, "fraction", "30.3"),  # halves away from zero, not to the even digit
        (-0.3025, "fraction", "-30.3"),
        (2.5, "count", "3"),
        (1.0005, "nats", "1.001"),  # the nearest binary number is below the half
        (-1e-9, "correlation", "0.000"),
        (123.4, "seconds", "123"),
        (1.234, "seconds", "1.23"),
        (0.00012, "l2_norm", "1.20e-04"),
        (3 * 2**20, "bytes", "3"),
        (-1e-9, "fraction", "0.0"),
        (None, "bleu", "-"),
    ],
)
def test_numbers_are_rounded_by_their_unit(number, unit, words):
    assert grid.number(number, unit) == words


def test_a_deviation_has_the_decimals_of_the_larger_number():
    column = artefacts.Column("ratio", "Ratio", "a.b", "ratio")
    cell = table.Cell(
        artefacts.Row("a", "A", {}), column, "measured", mean=157.53, published={"paper": 164.8}
    )
    assert (
        grid.away(cell) == "-7" and grid.away(replace(cell, mean=1.53, published={"paper": 1.0})) == "+0.53"
    )
    assert grid.away(replace(cell, comparable=False)) == "-"


def test_a_wide_table_has_a_line_for_each_of_its_cells(tmp_path):
    wide = every_artefact()["kim2020.table2"]
    cells = table.build(wide, evidence_of(tmp_path))
    header, lines = table_formats.header_and_rows(wide, cells)
    assert header == ["Self-attention", "Measure", "Here", "Paper"]  # nothing was run, so nothing deviates
    printed = [grid.format_published(cell.printed.values()) for cell in cells]
    assert sorted(line[3] for line in lines if line[3] != "-") == sorted(
        text for text in printed if text != "-"
    )
    assert {(line[0], line[1]) for line in lines} >= {
        ("DP", "5 layers, nats"),
        ("Contractive L2", "14 layers, nats"),
    }
    assert ("DP", "6 layers, nats") not in {
        (line[0], line[1]) for line in lines
    }  # neither here nor in the paper


def test_a_wide_table_of_our_own_has_a_line_for_each_of_its_cells_too(tmp_path):
    pretend.write_run(tmp_path, "train", {"network": "VGG"}, {f"m{n}_frac": n / 100 for n in range(20)})
    defined = {
        "title": "t",
        "caption": "c",
        "head": "Network",
        "addition": True,
        "where": [{"step": "train"}],
        "rows": [{"id": name, "title": name, "where": {"network": name}} for name in ("VGG", "ResNet")],
        "groups": [{"id": "", "title": "all", "where": {}}],
    }
    for count in (grid.WIDEST - 1, grid.WIDEST):
        measures = [
            {"id": f"m{n}", "title": f"M{n}", "quantity": f"train.m{n}_frac", "unit": "fraction"}
            for n in range(count)
        ]
        values = {key: list(one) if isinstance(one, list) else one for key, one in defined.items()}
        (tmp_path / "tables.yaml").write_text(json.dumps({"own": {**values, "measures": measures}}))
        (own,) = artefacts.load({"gradinit": tmp_path}).values()
        header, lines = table_formats.header_and_rows(own, table.build(own, evidence_of(tmp_path)))
        if count < grid.WIDEST:
            assert len(header) == grid.WIDEST and len(lines) == 1
        else:
            assert header == ["Network", "Measure", "Here"]
            assert lines[3] == ["VGG", "M3, %", "3.0 (1)"] and len(lines) == count


def test_trainings_that_learn_nothing_are_counted_although_their_step_calls_them_ok(tmp_path):
    pretend.write_run(
        tmp_path, "prepare_images", {"dataset": "cifar10"}, {"classes_count": 10.0, "test_count": 1000.0}
    )
    labels = {
        "suite": "grid",
        "network": "VGG-19",
        "initialisation": "gradinit",
        "recipe": "sgd",
        "task": "images",
    }
    for seed, (accuracy, loss) in enumerate([(0.105, 2.303), (0.4, 1.6), (0.105, 1.9)]):
        metrics = {
            "acc1_frac": accuracy,
            "accbest_frac": accuracy,
            "accfinal_frac": accuracy,
            "train_loss_nats": loss,
        }
        pretend.write_run(tmp_path, "train_from_init", labels, metrics, seed=seed)
    cell = cells_of("zhu2022.table4.1", evidence_of(tmp_path))["overlap_half", "accbest"]
    assert cell.stalled == 1 and grid.text(cell).endswith("[1 not converged]")
    assert (classified.ERRORS, classified.BELOW) == (
        chance.ERRORS,
        chance.BELOW,
    )  # the rule of `train_vision`
    labels = {"network": "post_ln", "initialisation": "gradinit_sgd", "recipe": "sgd", "task": "translation"}
    for seed, bleu in enumerate([0.3, 31.0]):
        pretend.write_run(tmp_path, "train_translation", labels, {"bleu_best": bleu}, seed=seed)
    assert cells_of("zhu2022.table4.10", evidence_of(tmp_path))["gradinit_sgd", "bleu"].stalled == 1


def test_a_star_matches_any_letters_of_a_label():
    labels = {"recipe": "adam_lr0.0002_b0.98"}
    assert artefacts.matches({"recipe": "adam_lr*"}, "gradinit", "train_translation", labels)
    assert artefacts.matches({"recipe": ["sgd", "adam*"]}, "gradinit", "train_translation", labels)
    assert not artefacts.matches({"recipe": ["sgd", "adam_warmup*"]}, "gradinit", "train_translation", labels)
    assert not artefacts.matches(
        {"initialisation": "*"}, "gradinit", "train_translation", labels
    )  # no such label


def test_only_may_name_a_group_a_measure_or_one_column():
    rows = {row.id: row for row in TABLES["zhu2022.table4.5"].rows}
    assert rows["fixup"].only == ("FixUpResNet-110/acc1", "FixUpResNet-110/accbest")
    assert not rows["metainit"].applies("WRN-28-10/acc1") and rows["metainit"].applies("WRN-28-10/accbest")
    seconds = {row.id: row for row in TABLES["zhu2022.table4.3"].rows}["penalty"]
    assert [one.split("/")[1] for one in seconds.only] == ["seconds"] * 4
