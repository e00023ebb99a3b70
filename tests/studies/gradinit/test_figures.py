"""The figures of chapter 4 show what the records say, in the paper's panels, and say what was not run."""

import math

import pytest

from relearn.report import coverage
from relearn.studies.gradinit.figures import heat_map, layer_profile, learning_curves

from ...report.conftest import chapter, evidence_of
from ...report.drawn import (
    check_cells,
    check_equal_files,
    check_panels,
    labels,
    words,
)
from . import fake_records as pretend

FIGURES = {name: one for name, one in chapter("gradinit").items() if one.kind == "figure"}
PANELS = {
    "zhu2022.fig4.1": 8,
    "zhu2022.fig4.2": 4,
    "zhu2022.fig4.3": 6,
    "zhu2022.fig4.4": 4,
    "zhu2022.fig4.5": 4,
    "zhu2022.fig4.6": 4,
    "zhu2022.fig4.7": 2,
    "zhu2022.fig4.8": 4,
    "zhu2022.fig4.9": 14,
    "zhu2022.fig4.10": 14,
}


def panels(drawn):
    return [axes for axes in drawn.axes if axes.get_visible()]


def test_every_figure_of_the_chapter_is_there():
    assert set(FIGURES) == set(PANELS)


@pytest.mark.parametrize("name", PANELS)
def test_every_figure_is_drawn_with_and_without_runs(name, gradinit, tmp_path):
    printed = FIGURES[name].renderer == "heat_map"  # the half of the paper is always there
    check_panels(name, evidence_of(tmp_path), PANELS[name], gaps=PANELS[name] // (2 if printed else 1))
    check_panels(name, gradinit, PANELS[name], gaps=0)
    cells = 36 if name == "zhu2022.fig4.3" else 2 * PANELS[name]  # squares, or lines
    check_cells(name, gradinit, evidence_of(tmp_path), cells, cells)


def test_equal_records_give_equal_files(gradinit, tmp_path):
    check_equal_files("zhu2022.fig4.2", gradinit, tmp_path)


def test_networks_that_were_not_run_have_no_empty_panels(tmp_path):
    pretend.gradients(tmp_path, "ResNet-110-BN", "kaiming", pretend.layers("ResNet-110-BN", False))
    check_panels("zhu2022.fig4.1", evidence_of(tmp_path), 4, gaps=0)


def profile(name, evidence, panel, series):
    points = layer_profile.points(FIGURES[name], evidence)
    return [p for p in points if (p["panel"], p["series"]) == (panel, series)]


def test_a_profile_is_of_one_kind_of_tensor_from_shallow_to_deep(tmp_path):
    rows = pretend.layers("VGG-19-BN", False)
    for seed, factor in ((0, 1.0), (1, 3.0)):
        scaled = [{**row, "gradient_std": factor * row["gradient_std"]} for row in rows]
        pretend.gradients(
            tmp_path, "VGG-19-BN", "kaiming", scaled[::-1], seed=seed
        )  # the order of rows is no matter
    pretend.gradients(tmp_path, "VGG-19", "kaiming", pretend.layers("VGG-19", False))
    known = evidence_of(tmp_path)
    line = profile("zhu2022.fig4.4", known, "VGG-19-BN/norm/gradient_std", "before")
    norms = [row for row in rows if row["kind"] == "norm"]
    assert [p["name"] for p in line] == [row["name"] for row in norms]
    assert [p["layer"] for p in line] == list(range(1, 17))
    assert [p["value"] for p in line] == pytest.approx([2 * row["gradient_std"] for row in norms])
    assert [p["high"] / p["low"] for p in line] == pytest.approx([3.0] * 16)
    linear = profile("zhu2022.fig4.4", known, "VGG-19-BN/linear/weight_abs_mean", "before")
    assert len(linear) == 17 and linear[-1]["name"] == "head.weight"  # 16 convolutions and the last layer
    assert not profile("zhu2022.fig4.4", known, "VGG-19-BN/linear/weight_abs_mean", "gradinit")


@pytest.mark.parametrize("name", ["zhu2022.fig4.1", *(f"zhu2022.fig4.{n}" for n in range(4, 9))])
def test_a_panel_names_its_network_and_its_weights(name):
    for column in FIGURES[name].columns:
        network, kind, _ = column.id.split("/")
        named, _, weights = column.title.partition(": ")
        assert named.split()[0] in network and named.endswith(
            "with BN" if network.endswith("-BN") else "without BN"
        )
        assert column.where == {"network": network} and column.panel["kind"] == kind
        assert weights == {"norm": "BN weights", "linear": "conv. and linear weights"}[kind]


def test_a_layer_without_a_number_keeps_its_place(tmp_path):
    rows = pretend.layers("VGG-19", False)
    rows[1]["gradient_std"] = None
    rows[2]["gradient_std"] = math.inf
    pretend.gradients(tmp_path, "VGG-19", "kaiming", rows, outcome="diverged")
    line = profile("zhu2022.fig4.6", evidence_of(tmp_path), "VGG-19/linear/gradient_std", "before")
    assert [p["layer"] for p in line] == [1, *range(4, 18)]


def test_the_transformers_panels_are_groups_of_tensors(gradinit):
    numbers = {
        panel: len(profile("zhu2022.fig4.9", gradinit, f"{panel}/gradient_std", "gradinit"))
        for panel in ("layer_norm", "out", "fc1", "fc2", "q", "k", "v")
    }
    # 6 encoder layers of 2 norms, 6 decoder layers of 3; attention once and twice; feed-forward once
    assert numbers == {"layer_norm": 30, "out": 18, "fc1": 12, "fc2": 12, "q": 18, "k": 18, "v": 18}
    names = [p["name"] for p in profile("zhu2022.fig4.9", gradinit, "q/gradient_std", "before")]
    assert names[:2] == ["encoder.0.self.q", "encoder.1.self.q"]
    assert names[6:8] == ["decoder.0.self.q", "decoder.0.cross.q"]


def test_adam_and_sgd_are_two_starts(tmp_path):
    pretend.gradients(tmp_path, "post_ln", "gradinit_sgd", pretend.layers("post_ln", True))
    known = evidence_of(tmp_path)
    assert not profile("zhu2022.fig4.9", known, "q/gradient_std", "gradinit")
    assert profile("zhu2022.fig4.10", known, "q/gradient_std", "gradinit")


def test_profiles_are_drawn_as_lines_on_log_axes(gradinit):
    artefact = FIGURES["zhu2022.fig4.7"]
    drawn = layer_profile.draw(artefact, layer_profile.points(artefact, gradinit))
    weights, deviations = panels(drawn)
    assert (weights.get_ylabel(), deviations.get_ylabel()) == ("‖W‖₁ / d", "σ(g)")
    assert {axes.get_yscale() for axes in drawn.axes} == {"log"}
    before, after = deviations.get_lines()
    rows = [pretend.layers("DenseNet-100", after) for after in (False, True)]
    for line, own in zip((before, after), rows):
        assert list(line.get_ydata()) == pytest.approx([row["gradient_std"] for row in own])
    assert before.get_color() != after.get_color()


def test_curves_are_means_over_the_seeds_that_got_so_far(tmp_path):
    for seed, accuracies in enumerate(((0.2, 0.6, 0.8), (0.4, 0.8))):
        rows = [
            {"epoch": epoch, "loss": 1.0, "test_accuracy_frac": accuracy}
            for epoch, accuracy in enumerate(accuracies, 1)
        ]
        rows.insert(1, {"epoch": 1.5, "loss": 1.0, "test_accuracy_frac": None})  # a row between two epochs
        more = {"seed": seed, "files": {"history.csv": rows}, "outcome": "diverged" if seed else "ok"}
        pretend.train(tmp_path, "VGG-19-BN", "kaiming", {}, **more)
        pretend.train(tmp_path, "VGG-19-BN", "kaiming", {}, recipe="adamw", **more)
    artefact = FIGURES["zhu2022.fig4.2"]
    points = learning_curves.points(artefact, evidence_of(tmp_path))
    assert [(p["epoch"], p["accuracy"], p["low"], p["high"], p["seeds"]) for p in points] == [
        (1, pytest.approx(0.3), 0.2, 0.4, 2),
        (2, pytest.approx(0.7), 0.6, 0.8, 2),
        (3, pytest.approx(0.8), 0.8, 0.8, 1),
    ]
    assert {p["panel"] for p in points} == {"VGG-19-BN/sgd"}
    drawn = learning_curves.draw(artefact, points)
    assert "Kaiming: 1 diverged\nGradInit: not run" in words(drawn)
    assert labels(drawn) == ["Kaiming"]  # no entry for what has no curve


def test_the_panel_of_adamw_takes_gradinit_for_adam(tmp_path):
    row = {"epoch": 1, "test_accuracy_frac": 0.5}
    for start in ("gradinit", "gradinit_adam"):
        for recipe in ("sgd", "adamw"):
            files = {"history.csv": [row]}
            pretend.train(tmp_path, "ResNet-110-BN", start, {}, recipe=recipe, files=files)
    points = learning_curves.points(FIGURES["zhu2022.fig4.2"], evidence_of(tmp_path))
    assert [(p["panel"], p["runs"].split("/")[-3:-1]) for p in points] == [
        ("ResNet-110-BN/sgd", ["gradinit", "sgd"]),
        ("ResNet-110-BN/adamw", ["gradinit_adam", "adamw"]),
    ]


def test_maps_have_every_printed_value_and_measured_ones_of_their_own_rates(tmp_path):
    for seed, bleu in enumerate((20.0, 21.0)):
        pretend.train_translation(tmp_path, "w_skip", "admin", "adam_lr0.002_b0.98", bleu, seed=seed)
    pretend.train_translation(tmp_path, "w_skip", "admin", "adam_lr0.002_b0.995", 0.0, outcome="diverged")
    pretend.train_translation(tmp_path, "w_skip", "admin", "adam", 30.0)
    artefact = FIGURES["zhu2022.fig4.3"]
    points = heat_map.points(artefact, evidence_of(tmp_path))
    printed = [p for p in points if p["source"] == "paper"]
    assert len(printed) == 36
    chosen = {(p["series"], p["lr"], p["beta2"]): p["bleu"] for p in printed}
    assert chosen["gradinit", 5e-4, 0.995] == 8.9 and chosen["admin", 4e-4, 0.995] == 27.1
    measured = [p for p in points if p["source"] == "measured"]
    assert [(p["lr"], p["beta2"], p["bleu"], p["seeds"], p["diverged"]) for p in measured] == [
        (0.002, 0.98, 20.5, 2, 0),
        (0.002, 0.995, 0.0, 1, 1),
    ]
    found = words(heat_map.draw(artefact, points))
    assert "20.5" in found and "0.0\n1 diverged" in found and "2e-3" in found and "27.1" in found
    assert coverage.cover(artefact, evidence_of(tmp_path)).measured == 0  # the paper shows no such rate


@pytest.mark.parametrize("rate", [2e-4, 5e-4, 1e-3, 0.0015, 0.15])
def test_rates_are_written_as_the_paper_writes_them(rate):
    made = heat_map._rate(rate)
    assert float(made) == pytest.approx(rate) and len(made) <= 6


@pytest.mark.parametrize(("least", "lines"), [(0.01, 1), (0.5, 0)])
def test_the_floor_of_the_factors_is_marked_where_a_layer_comes_near(gradinit, least, lines):
    artefact = FIGURES["zhu2022.fig4.4"]
    found = layer_profile.points(artefact, gradinit)
    own = [p for p in found if (p["panel"], p["series"]) == (artefact.columns[0].id, "gradinit")]
    assert own and {p["floor"] for p in found if p["series"] == "before"} == {None}
    for point in own:
        point |= {"floor": 0.01, "value": max(point["value"], 0.5), "low": 0.5, "high": 1.5}
    own[0] |= {"value": least}
    panel = layer_profile.draw(artefact, found).axes[0]
    assert sum(list(line.get_ydata()) == [0.01, 0.01] for line in panel.lines) == len(panel.texts) == lines
