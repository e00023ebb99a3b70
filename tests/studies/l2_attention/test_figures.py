"""The figures of kim2020 show what the records say, in the paper's panels, and say what was not run."""

import itertools
import math

import numpy as np
import pytest
from matplotlib.collections import PolyCollection
from matplotlib.patches import StepPatch

from relearn.studies.l2_attention.figures import (
    ascent_curves,
    histograms,
    inversion_errors,
    lipschitz_bounds,
    nll_curves,
)

from ...report.conftest import chapter, evidence_of
from ...report.drawn import (
    check_equal_files,
    check_figure,
    drawn_of,
    labels,
    module_of,
    points_of,
    words,
)
from . import fake_records as pretend

FIGURES = {name: one for name, one in chapter("l2_attention").items() if one.kind == "figure"}
#: panels without runs and of the whole study, cells of the published figure
SIZES = {
    "kim2020.fig2": (1, 1, 20),
    "kim2020.fig3": (2, 3, 6),  # contractive L2 is ours
    "kim2020.fig4": (5, 5, 26),
    "kim2020.fig5": (1, 1, 3),
    "kim2020.fig6": (2, 8, 2),
    "kim2020.fig7": (2, 2, 10),
    "kim2020.fig8": (1, 2, 1),
    "kim2020.fig9": (3, 3, 15),
    "kim2020.fig10": (2, 2, 4),
    "kim2020.fig11": (3, 3, 27),
}


def test_every_figure_of_the_paper_but_the_drawing_is_there():
    assert set(FIGURES) == set(SIZES)


@pytest.mark.parametrize("name", SIZES)
def test_every_figure_is_drawn_with_and_without_runs(name, l2_attention, tmp_path):
    empty, full, cells = SIZES[name]
    check_figure(name, l2_attention, evidence_of(tmp_path), (empty, full), (cells, cells))


def test_equal_records_give_equal_files(l2_attention, tmp_path):
    check_equal_files("kim2020.fig5", l2_attention, tmp_path)


# figures 2 and 7


def test_the_five_best_of_all_starts_and_seeds(tmp_path):
    bounds = {"bound": 11.5, "structured": 8.5}
    pretend.ascend(tmp_path, "fig2", 100, [9.0, 8.0, 7.0, 6.0, math.inf], bounds)
    pretend.ascend(tmp_path, "fig2", 100, [8.8, 7.5, 1.0], bounds, seed=1)
    pretend.ascend(tmp_path, "fig7", 100, [50.0], {"bound": 60.0}, p="two")
    found = points_of("kim2020.fig2", evidence_of(tmp_path))
    assert [(p["series"], p["length"], p["rank"], p["value"]) for p in found] == [
        ("bound", 100, 1, 11.5),
        *(("lower", 100, rank, value) for rank, value in enumerate((9.0, 8.8, 8.0, 7.5, 7.0), 1)),
        ("structured", 100, 1, 8.5),
    ]
    drawn = drawn_of("kim2020.fig2", evidence_of(tmp_path))
    assert labels(drawn) == [
        "Upper bound",
        "Optimised lower bounds",
        "Structured lower bound",
    ]  # no slope of one N


def test_slopes_are_given_and_the_axis_of_n_is_logarithmic(l2_attention):
    drawn = drawn_of("kim2020.fig2", l2_attention)
    (axes,) = drawn.axes
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "linear")
    ns = np.log(pretend.LENGTHS)
    slope = np.polyfit(ns, [pretend.upper(n) for n in pretend.LENGTHS], 1)[0]
    best = np.polyfit(ns, [pretend.Study().lower(n, 1) for n in pretend.LENGTHS], 1)[0]
    assert labels(drawn)[:2] == [
        f"Upper bound: slope {slope:.2f} in ln N",
        f"Optimised lower bounds: slope {best:.2f} in ln N",
    ]
    bound = next(
        line for line in axes.get_lines() if len(line.get_xdata()) == 10 and line.get_linestyle() == "-"
    )
    assert list(bound.get_ydata()) == pytest.approx([pretend.upper(n) for n in pretend.LENGTHS])


def test_equal_bounds_are_one_line_and_lower_bounds_stand_once_more_alone(l2_attention):
    drawn = drawn_of("kim2020.fig7", l2_attention)
    both, alone = drawn.axes
    assert (both.get_yscale(), alone.get_yscale()) == ("log", "linear")
    assert [label.partition(":")[0] for label in labels(drawn)] == [
        "Optimised lower bounds",
        "Printed bound, here equal to the corrected bound",
        "Tighter bound, any mask",
        "Tightest valid bound",
    ]
    assert max(max(line.get_ydata()) for line in alone.get_lines() if len(line.get_ydata())) < 10


def test_bounds_that_differ_are_two_lines(tmp_path):
    two = {"bound": 20.0, "bound_tight": 25.0, "bound_printed": 50.0, "bound_corrected": 60.0}
    pretend.ascend(tmp_path, "fig7", 30, [2.0], two, p="two")
    drawn = drawn_of("kim2020.fig7", evidence_of(tmp_path))
    assert len(labels(drawn)) == 5
    assert [text.get_text() for text in drawn.axes[0].get_xticklabels()] == ["30"]


# figures 3, 5 and 6


def test_the_largest_error_over_seeds_and_what_is_not_finite(tmp_path):
    pretend.invert(tmp_path, "fig3", "dp", {0.5: [1.0, 0.2, None], 0.9: [2.0, 2.0, 2.0]})
    pretend.invert(tmp_path, "fig3", "dp", {0.5: [0.5, 0.4, 0.3]}, seed=1)
    pretend.invert(
        tmp_path, "fig3", "dp", {0.5: [9.0]}, weights="trained"
    )  # labelled as figure 3 all the same
    pretend.invert(tmp_path, "fig5", "dp", {0.5: [7.0]}, weights="trained")
    found = [p for p in points_of("kim2020.fig3", evidence_of(tmp_path)) if p["c"] == 0.5]
    assert [(p["iteration"], p["error"], p["low"], p["seeds"]) for p in found] == [
        (0, 9.0, 0.5, 3),
        (1, 0.4, 0.2, 2),
        (2, math.inf, 0.3, 2),
    ]
    drawn = drawn_of("kim2020.fig3", evidence_of(tmp_path))
    empty, axes = drawn.axes
    assert "not run" in words(empty) and axes.get_yscale() == "log"
    assert [list(line.get_xdata()) for line in axes.get_lines()] == [[0, 1], [0, 1, 2]]
    assert axes.findobj(PolyCollection) and labels(drawn) == ["c = 0.5", "c = 0.9"]


def test_every_size_has_its_panel_and_all_have_one_axis(tmp_path):
    for length, dim in ((16, 64), (64, 16)):
        pretend.invert(tmp_path, "fig6", "dp", {0.5: [1.0, 1e-20, 0.0]}, length=length, dim=dim)
    drawn = drawn_of("kim2020.fig6", evidence_of(tmp_path))
    titles = [axes.get_title(loc="left") for axes in drawn.axes]
    assert titles == [
        *("Tied L2", "DP\nN = 16, D = 16", "DP\nN = 16, D = 64"),
        *("Tied L2", "DP\nN = 64, D = 16", "DP\nN = 64, D = 64"),
    ]
    assert sum(text == "not run" for text in words(drawn)) == 4
    (limits,) = {axes.get_ylim() for axes in drawn.axes if axes.get_lines()}
    assert limits == pytest.approx((1 / 3, 3.0))  # a nought of the arithmetic stretches no axis


# figure 8


def test_the_best_start_is_thick_and_a_bound_is_drawn(tmp_path):
    curves = [[(0, 1.0), (10, 8.0)], [(0, 2.0), (10, 5.0)]]
    pretend.ascend(tmp_path, "fig8", 16, [8.0, 5.0], attention="dp", weights="trained", curves=curves)
    pretend.ascend(tmp_path, "fig8", 16, [2.0], {"bound": 3.0}, attention="l2_tied", weights="random")
    found = points_of("kim2020.fig8", evidence_of(tmp_path))
    assert [(p["rank"], p["step"], p["value"], p["bound"]) for p in found if p["panel"] == "dp"] == [
        *((1, 0, 1.0, None), (1, 10, 8.0, None), (2, 0, 2.0, None), (2, 10, 5.0, None))
    ]
    drawn = drawn_of("kim2020.fig8", evidence_of(tmp_path))
    dp, l2 = drawn.axes
    assert [axes.get_title(loc="left") for axes in (dp, l2)] == [
        "DP,\ntrained\nN = 16",
        "Tied L2,\nrandom (ours)\nN = 16",
    ]
    best, other = dp.get_lines()
    assert list(best.get_ydata()) == [1.0, 8.0] and best.get_linewidth() > other.get_linewidth()
    assert list(l2.get_lines()[-1].get_ydata()) == [3.0, 3.0] and labels(drawn) == [
        "Best start",
        "Other starts",
        "Bound",
    ]


# figures 4, 9 and 11


def test_curves_are_means_over_seeds_of_the_recipe_that_validation_chooses(tmp_path):
    for seed, best in enumerate((1.0, 1.2)):
        pretend.language(tmp_path, "dp", 2, best, seed=seed, rows=pretend.history(best, (0, 100)))
        pretend.language(tmp_path, "dp", 2, 0.5, seed=seed, valid=2.0, recipe="warmup_g2_w40_d0")
        pretend.language(tmp_path, "dp", 2, 0.5, seed=seed, recipe=pretend.CONSTANT)
    pretend.language(tmp_path, "dp", 6, 0.5)  # figure 4 has DP up to 5 layers
    found = [p for p in points_of("kim2020.fig4", evidence_of(tmp_path)) if p["series"] != "paper"]
    last = [best + (3.2 - best) * math.exp(-100 / 80) for best in (1.0, 1.2)]
    assert [(p["panel"], p["series"], p["step"], p["seeds"], p["recipe"]) for p in found] == [
        ("dp", 2, 0, 2, pretend.WARMUP),
        ("dp", 2, 100, 2, pretend.WARMUP),
    ]
    assert (found[1]["nll"], found[1]["low"], found[1]["high"]) == pytest.approx((sum(last) / 2, *last))


def test_figure_11_is_the_training_nll_at_a_fixed_rate(tmp_path):
    pretend.language(tmp_path, "dp", 12, 1.0, recipe=pretend.CONSTANT, rows=pretend.history(1.0, (0,)))
    pretend.language(tmp_path, "dp", 12, 1.0)
    (found,) = points_of("kim2020.fig11", evidence_of(tmp_path))
    assert (found["series"], found["nll"], found["recipe"]) == (12, pytest.approx(3.17), pretend.CONSTANT)


def test_what_diverged_is_named_and_stretches_no_axis(tmp_path):
    pretend.characters(tmp_path)
    for layers, best in ((2, 1.0), (10, 1.1)):
        pretend.language(tmp_path, "dp", layers, best, recipe=pretend.CONSTANT)
    for layers, rows in ((12, pretend.history(99.0)), (14, pretend.history(1.0, (0,))[1:])):
        more = {"recipe": pretend.CONSTANT, "outcome": "diverged", "rows": rows}
        pretend.language(tmp_path, "dp", layers, None, **more)
    known = evidence_of(tmp_path)
    lone = [p for p in points_of("kim2020.fig11", known) if p["series"] == 14]
    assert [(p["step"], p["nll"], p["diverged"]) for p in lone] == [(None, None, 1)]  # not one evaluation
    drawn = drawn_of("kim2020.fig11", known)
    assert "12, 14 layers diverged" in words(drawn)
    assert drawn.axes[0].get_ylim()[1] < 1.3 * pretend.UNIGRAM
    assert sum(text == "not run" for text in words(drawn)) == 2


def test_all_diverged_is_still_drawn(tmp_path):
    pretend.language(tmp_path, "dp", 1, None, outcome="diverged", rows=pretend.history(50.0))
    pretend.language(tmp_path, "l2", 1, None, outcome="diverged", rows=pretend.history(1.0, (0,))[1:])
    drawn = drawn_of("kim2020.fig4", evidence_of(tmp_path))
    assert words(drawn).count("1 layer diverged") == 2


def test_floors_and_the_papers_lstm_are_lines(l2_attention, tmp_path):
    drawn = drawn_of("kim2020.fig4", l2_attention)
    levels = [
        {line.get_ydata()[0] for line in axes.get_lines() if len(set(line.get_ydata())) == 1}
        for axes in drawn.axes
    ]
    assert levels == [{pretend.UNIGRAM, pretend.BIGRAM, 1.0}] + [{pretend.UNIGRAM, pretend.BIGRAM}] * 4
    assert labels(drawn)[-3:] == ["Unigram", "Bigram", "The paper's best LSTM, around 1.0"]
    assert labels(drawn)[:-3] == [str(n) for n in pretend.DEEP]
    for attention in ("dp", "l2"):  # without a record of the text, and far from the paper
        pretend.language(tmp_path, attention, 2, 3.0)
    assert labels(drawn_of("kim2020.fig9", evidence_of(tmp_path))) == ["2"]
    far = drawn_of("kim2020.fig4", evidence_of(tmp_path))
    assert labels(far) == ["2", "The paper's best LSTM, around 1.0, below the axis"]
    assert all(axes.get_ylim()[0] > 2 for axes in far.axes)  # the curves keep the room
    lstm = far.axes[0]  # not run: its published level is a line all the same
    assert "not run" in [text.get_text() for text in lstm.texts]
    assert [line.get_ydata()[0] for line in lstm.get_lines()] == [1.0]


def test_the_line_of_a_panel_without_curves_does_not_stretch_the_axis(tmp_path):
    pretend.language(tmp_path, "dp", 2, 1.5)  # near enough to the paper's LSTM, had that panel a curve
    known = evidence_of(tmp_path)
    assert drawn_of("kim2020.fig4", known).axes[0].get_ylim()[0] > 1.1
    pretend.language(tmp_path, "lstm", 2, 1.5)
    assert drawn_of("kim2020.fig4", evidence_of(tmp_path)).axes[0].get_ylim()[0] < 1.0


def test_the_axis_says_whose_nll_it_shows(tmp_path):
    pretend.language(tmp_path, "dp", 2, 1.5)
    pretend.language(tmp_path, "dp", 2, 1.5, recipe=pretend.CONSTANT)
    said = [
        drawn_of(f"kim2020.fig{n}", evidence_of(tmp_path)).axes[0].get_ylabel().partition(",")[0]
        for n in (4, 11)
    ]
    assert said == ["Test NLL", "Training NLL"]


def test_a_depth_has_one_colour_in_all_panels(l2_attention):
    drawn = drawn_of("kim2020.fig11", l2_attention)
    colours = [
        [line.get_color() for line in axes.get_lines() if line.get_linestyle() == "-"] for axes in drawn.axes
    ]
    assert colours[0] == colours[1] == colours[2] and len(set(colours[0])) == len(pretend.FIXED)
    for axes in drawn.axes:  # the colours of neighbours are alike, so their marks are not
        marks = [line.get_marker() for line in axes.get_lines() if line.get_linestyle() == "-"]
        assert all(one != other for one, other in itertools.pairwise(marks)) and "None" not in marks


def test_titles_leave_room_for_words_that_are_there_alone(tmp_path):
    pretend.language(tmp_path, "dp", 1, 1.0)
    assert drawn_of("kim2020.fig4", evidence_of(tmp_path)).axes[1].get_title(loc="left") == "DP"
    pretend.language(tmp_path, "l2", 1, None, outcome="diverged", rows=pretend.history(9.0))
    assert drawn_of("kim2020.fig4", evidence_of(tmp_path)).axes[1].get_title(loc="left") == "DP\n"


# figure 10


def test_densities_sum_to_one_and_their_widths_are_given(tmp_path):
    pretend.outputs(tmp_path, "dp", 4.0)
    found = points_of("kim2020.fig10", evidence_of(tmp_path))
    for side in ("input", "output"):
        own = [p for p in found if p["side"] == side]
        assert sum(p["density"] * (p["high"] - p["low"]) for p in own) == pytest.approx(1.0)
    assert [p["density"] for p in found if p["side"] == "input"][1] == pytest.approx(64 / 1272 / 0.1)
    drawn = drawn_of("kim2020.fig10", evidence_of(tmp_path))
    assert "DP,\ntrained\nσ of inputs: 0.577\nσ of outputs: 4" in words(drawn)
    assert len(drawn.axes[1].findobj(StepPatch)) == 2 and "not run" in words(drawn.axes[0])


def test_renderers_are_those_of_the_paper():
    used = {module_of(name) for name in FIGURES}
    assert used == {lipschitz_bounds, inversion_errors, ascent_curves, nll_curves, histograms}
