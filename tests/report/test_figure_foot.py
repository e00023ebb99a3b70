"""The line below a figure says what stands behind it."""

from __future__ import annotations

import re
from dataclasses import replace
from importlib import import_module
from inspect import getsource

import pytest

from relearn.report import figures
from relearn.report.artefacts import Artefact
from relearn.report.figures import claims_forest, foot
from relearn.report.figures.style import empty_figure
from relearn.studies.study import all_studies

from .conftest import every_artefact

BARS = "bands: lowest to highest seed"


@pytest.fixture
def figure() -> Artefact:
    return replace(every_artefact()["zhu2022.fig4.2"], stated=(), addition=False)


def point(seeds: int, low: float, high: float) -> dict[str, float]:
    return {"seeds": seeds, "low": low, "high": high}


def test_seeds_are_counted_and_bands_named_where_there_are_some(figure: Artefact) -> None:
    none = "no published numbers are at hand to draw beside"
    assert foot.words(figure, [point(1, 0.5, 0.5)], BARS) == f"1 seed; {none}"
    assert (
        foot.words(figure, [point(1, 0.5, 0.5), point(3, 0.4, 0.6)], BARS) == f"1 to 3 seeds; {BARS}; {none}"
    )
    assert foot.words(figure, [{"trials": 20, "low": None, "high": None}], BARS) == f"20 trials each; {none}"
    assert foot.words(figure, [], BARS) == ""


def test_published_points_are_neither_counted_nor_missed(figure: Artefact) -> None:
    points = [{"source": "measured", "trials": 5}, {"source": "published code", "trials": 102}]
    assert foot.words(figure, points, "") == "5 trials each"
    assert foot.words(replace(figure, addition=True), [point(2, 0, 1)], "") == "2 seeds"


def test_the_line_is_drawn_within_the_figure() -> None:
    drawn = empty_figure(2.0, width=3.0)
    drawn.subplots()
    foot.write(
        drawn, "1 to 3 seeds; " + BARS + "; and many words that do not fit into one line of a small figure"
    )
    (text,) = [one for one in drawn.texts if "seeds" in one.get_text()]
    drawn.draw_without_rendering()
    assert text.get_text().count("\n") >= 1
    assert text.get_window_extent().x1 <= drawn.bbox.x1


def test_one_file_decides_how_wide_figures_and_how_large_letters_are() -> None:
    own = re.compile(r"fontsize=[\d.]+|empty_figure\([^()]*,|Figure\(")
    modules = [import_module(name) for study in all_studies() for name in study.figures.values()]
    assert [module.__name__ for module in (*modules, claims_forest) if own.search(getsource(module))] == []


def test_a_renderer_that_draws_intervals_says_what_they_are() -> None:
    modules = [import_module(name) for study in all_studies() for name in study.figures.values()]
    silent = [
        module.__name__
        for module in modules
        if ("fill_between" in getsource(module) or "errorbar" in getsource(module))
        and not getattr(module, "BARS", "")
    ]
    assert silent == [] and figures.foot is foot


def test_published_numbers_stand_in_the_line_that_names_them() -> None:
    told = foot.words(
        every_artefact()["zhu2022.fig4.4"], [point(1, 0.5, 0.5)], "", "networks at 0.25 of the width"
    )
    assert told == (
        "1 seed; networks at 0.25 of the width; the paper: σ(g) of the first convolution over that of the last: "
        "204.9 with Kaiming, 164.8 with GradInit"
    )


def test_seeds_of_single_runs_are_counted(figure: Artefact) -> None:
    ours = replace(figure, addition=True)
    assert foot.words(ours, [{"seed": 0}, {"seed": 0}], "") == "1 seed"
    assert foot.words(ours, [{"seed": 0}, {"seed": 1}], "") == "2 seeds"
    assert foot.words(ours, [{"seed": 0, "seeds": 3}], "") == "3 seeds"


def test_chance_is_told_where_points_know_it(figure: Artefact) -> None:
    assert (
        foot.words(replace(figure, addition=True), [{"chance": 0.1}, {"chance": None}], "") == "chance: 10%"
    )
