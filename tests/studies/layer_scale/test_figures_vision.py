"""The figures of qi2023 and touvron2021 over trainings show what the records say, and say what was not run."""

import itertools
import math

import pytest
from matplotlib.colors import to_rgb

from relearn.studies.lipsformer.figures import alphas

from ...report import fake_vision as pretend
from ...report.conftest import chapter, evidence_of
from ...report.drawn import (
    check_equal_files,
    check_figure,
    drawn_of,
    labels,
    points_of,
    words,
)

ALL = chapter("lipsformer") | chapter("layer_scale")
#: panels without runs and of the whole study, cells of the published figure
SIZES = {
    "qi2023.fig4": (2, 2, 4),
    "qi2023.fig5": (1, 4, 4),
    "addition.layer_scale_accuracy": (4, 4, 15),
    "addition.layer_scale_branches": (4, 4, 20),
}
FIGURES = {name: ALL[name] for name in SIZES}
NOTHING = b"epoch,stage,alpha_mean,alpha_std\n"  # a table without rows


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    small = type("Small", (pretend.Study,), {"seeds": (0, 1), "depths": (12, 24)})()
    return evidence_of(small.write(tmp_path_factory.mktemp("vision")))


@pytest.mark.parametrize("name", SIZES)
def test_every_figure_is_drawn_with_and_without_runs(name, whole, tmp_path):
    empty, full, cells = SIZES[name]
    check_figure(name, whole, evidence_of(tmp_path), (empty, full), (cells, cells))


def test_equal_records_give_equal_files(whole, tmp_path):
    check_equal_files("qi2023.fig5", whole, tmp_path)


# figure 4


def line(name, evidence, panel, series):
    return [p for p in points_of(name, evidence) if (p["panel"], p["series"]) == (panel, series)]


def test_a_curve_is_the_mean_over_seeds_and_a_training_that_diverged_has_its_own(tmp_path):
    for seed, accuracy in enumerate((0.5, 0.7)):
        pretend.pair(tmp_path, "Swin-T", accuracy, seed=seed)
    pretend.pair(tmp_path, "Swin-T", 0.6, seed=2, outcome="diverged")
    known = evidence_of(tmp_path)
    sound, lost = (
        [p for p in line("qi2023.fig4", known, "accuracy", "Swin-T") if p["diverged"] == one]
        for one in (0, 1)
    )
    share = 1 - math.exp(-3.0)
    assert len(sound) == pretend.EPOCHS and sound[-1]["epoch"] == 12.0 and sound[-1]["seeds"] == 2
    assert [sound[-1][key] for key in ("low", "value", "high")] == pytest.approx(
        [0.1 + share * (accuracy - 0.1) for accuracy in (0.5, 0.6, 0.7)]
    )
    assert [p["epoch"] for p in lost] == [1.0, 2.0] and lost[0]["runs"].endswith("seed2")
    losses = [p["value"] for p in line("qi2023.fig4", known, "loss", "Swin-T") if p["diverged"]]
    assert losses[-1] == 31.0
    drawn = drawn_of("qi2023.fig4", known)
    assert drawn.axes[0].get_ylim()[1] < 3  # not 31
    assert "Swin-T (1 diverged)" in labels(drawn)


def test_a_training_that_diverged_at_once_is_named(tmp_path):
    pretend.pair(tmp_path, "LipsFormer-Swin-T", 0.5)
    pretend.pair(tmp_path, "Swin-T", None, outcome="diverged", rows=NOTHING)
    drawn = drawn_of("qi2023.fig4", evidence_of(tmp_path))
    assert labels(drawn) == ["LipsFormer-Swin-T", "Swin-T (1 diverged)"]


def test_trainings_of_the_ablation_are_no_pairs(tmp_path):
    pretend.ablation(tmp_path, "base", 0.5)
    assert not points_of("qi2023.fig4", evidence_of(tmp_path))


# figure 5


def test_alphas_of_a_stage_with_their_spread_after_each_epoch(tmp_path):
    for seed, factor in enumerate((1.0, 3.0)):
        rows = [
            {**row, "alpha_mean": factor * row["alpha_mean"], "alpha_std": factor * row["alpha_std"]}
            for row in pretend.alphas()
        ]
        pretend.pair(tmp_path, "LipsFormer-Swin-T", 0.5, seed=seed, files={"alphas.csv": rows})
    found = line("qi2023.fig5", evidence_of(tmp_path), "LipsFormer-Swin-T", "3")
    wanted = [row for row in pretend.alphas() if row["stage"] == 2]
    assert [p["epoch"] for p in found] == [row["epoch"] for row in wanted]
    assert [p["mean"] for p in found] == pytest.approx([2 * row["alpha_mean"] for row in wanted])
    assert [p["std"] for p in found] == pytest.approx([2 * row["alpha_std"] for row in wanted])
    drawn = drawn_of("qi2023.fig5", evidence_of(tmp_path))
    assert labels(drawn) == [f"Stage {n}" for n in (1, 2, 3, 4)] and len(drawn.axes) == 1


def test_the_line_names_bars_or_lines_by_the_number_of_epochs():
    artefact = FIGURES["qi2023.fig5"]
    for epochs, said in ((alphas.FEW, "bars"), (alphas.FEW + 1, "thin lines")):
        points = [{"panel": "a", "series": "1", "epoch": epoch} for epoch in range(epochs)]
        assert alphas.BARS(artefact, points) == f"{said}: mean ± standard deviation of |α| within a stage"


def test_a_network_without_alphas_is_not_shown(tmp_path):
    pretend.pair(tmp_path, "LipsFormer-Swin-S", 0.5, files={"alphas.csv": NOTHING})
    assert [axes.get_title(loc="left") for axes in drawn_of("qi2023.fig5", evidence_of(tmp_path)).axes] == [
        "LipsFormer-Swin-T"
    ]


# accuracy over depth


def by_depth(root):
    return {
        (p["series"], p["depth"]): p for p in points_of("addition.layer_scale_accuracy", evidence_of(root))
    }


def test_accuracy_over_depth_says_what_was_lost(tmp_path):
    for seed, accuracy in enumerate((0.5, 0.6, 0.9)):
        pretend.deep(tmp_path, "rezero", 36, accuracy, seed=seed)
        pretend.deep(tmp_path, "rezero", 4, accuracy, seed=seed)
    pretend.deep(tmp_path, "fixup", 36, None, outcome="diverged")
    pretend.deep(tmp_path, "post_norm", 36, 0.1, outcome="not_converged")
    pretend.deep(tmp_path, "linear", 36, 0.9, suite="drop_path")
    found = by_depth(tmp_path)
    assert [key for key in found if key[0] == "rezero"] == [("rezero", 4), ("rezero", 36)]
    one = found["rezero", 36]
    assert one["value"] == pytest.approx(2 / 3) and one["seeds"] == 3
    assert (
        one["high"] - one["value"]
        == pytest.approx(4.302653 * (0.13 / 3) ** 0.5 / 3**0.5)
        == pytest.approx(one["value"] - one["low"])
    )  # t with 2
    lost = {
        name: (found[name, 36]["diverged"], found[name, 36]["not_converged"])
        for name in ("fixup", "post_norm", "rezero")
    }
    assert lost == {"fixup": (1, 0), "post_norm": (0, 1), "rezero": (0, 0)}
    alone = found["fixup", 36]
    assert alone["low"] == alone["value"] == alone["high"] == pretend.CHANCE  # one seed has no interval
    drawn = drawn_of("addition.layer_scale_accuracy", evidence_of(tmp_path))
    marks = {item.get_marker() for axes in drawn.axes for item in axes.get_lines()}
    hollow = [item for item in drawn.axes[0].get_lines() if item.get_markerfacecolor() == "white"]
    assert "X" in marks and len(hollow) == 1
    assert labels(drawn) == ["4 blocks", "36 blocks", "Some did not converge", "Some diverged"]
    silent = [text.get_text() for text in drawn.axes[1].texts]
    assert silent == ["not run"]  # all of LayerScale


def test_a_guess_is_drawn_below_the_accuracies_over_depth(tmp_path):
    pretend.deep(tmp_path, "pre_norm", 12, 0.8)
    labels = {"dataset": "digits"}
    pretend.write_run(tmp_path, "prepare_images", labels, {"classes_count": 4}, study="layer_scale")
    drawn = drawn_of("addition.layer_scale_accuracy", evidence_of(tmp_path))
    lines = [one.get_xdata()[0] for one in drawn.axes[0].get_lines()]
    assert 0.25 in lines and drawn.axes[0].get_xlim()[0] < 0.25


# branches


def test_branches_are_of_the_greatest_depth_that_both_have(tmp_path):
    for depth in (12, 24):
        pretend.deep(tmp_path, "pre_norm", depth, 0.5)
    for depth in (12, 24, 36):
        pretend.deep(tmp_path, "layer_scale_1e-4", depth, 0.5)
    found = line("addition.layer_scale_branches", evidence_of(tmp_path), "mlp_end", "pre_norm")
    assert {p["depth"] for p in found} == {24} and [p["layer"] for p in found] == list(range(1, 25))
    assert [p["value"] for p in found] == pytest.approx([1 / math.sqrt(n) for n in range(1, 25)])
    start = line(
        "addition.layer_scale_branches", evidence_of(tmp_path), "attention_start", "layer_scale_1e-4"
    )
    assert {p["value"] for p in start} == {0.5e-4}
    drawn = drawn_of("addition.layer_scale_branches", evidence_of(tmp_path))
    assert labels(drawn) == ["Pre-norm", "LayerScale, 1e-4"] and "Block of 24" in words(drawn)


def test_schemes_whose_lines_coincide_have_colours_far_apart(whole):
    lines = drawn_of("addition.layer_scale_branches", whole).axes[-1].get_lines()
    colours = [to_rgb(one.get_color()) for one in lines]
    assert len(colours) > 3 and min(math.dist(*pair) for pair in itertools.combinations(colours, 2)) > 0.28


def test_a_ratio_that_is_not_finite_is_left_out(tmp_path):
    rows = pretend.layers("pre_norm", 3)
    rows[-1]["ratio"] = math.nan
    pretend.deep(tmp_path, "pre_norm", 3, None, outcome="diverged", files={"layers.csv": rows})
    found = line("addition.layer_scale_branches", evidence_of(tmp_path), "mlp_end", "pre_norm")
    assert [p["layer"] for p in found] == [1, 2]


@pytest.mark.parametrize(("value", "said"), [(0.775, "77.5%"), (0.3, "30%"), (1.0, "100%"), (0.0, "0%")])
def test_ticks_in_percent_are_not_rounded(value, said):
    from matplotlib.figure import Figure

    from relearn.report.figures.style import in_percent

    axis = Figure().subplots().yaxis
    in_percent(axis)
    assert axis.get_major_formatter()(value, 0) == said
