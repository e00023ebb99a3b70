"""A picture knows where its points lie: the colour of a point is found at its place in the PNG."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from PIL import Image

from relearn.report import figures
from relearn.report.figures import panels, picture, spoken
from relearn.report.figures.style import SMALL, WIDTH, chance_line, empty_figure, in_percent, styled

RED = (255, 0, 0)


def test_places_are_those_of_the_png(tmp_path: Path) -> None:
    points = [{"x": 1, "y": 10.0}, {"x": 3, "y": 1000.0}, {"x": 2, "y": None}]
    with styled():
        drawn = empty_figure(3.0)
        axes = drawn.subplots()
        axes.set_title("a title that moves the axes down")
        axes.plot([1, 3], [10.0, 1000.0], "s", color="red", ms=7, zorder=9)
        axes.set(yscale="log", ylabel="y", xlim=(0, 4), ylim=(1, 10000))
    for point in points[:2]:
        drawn.mark(axes, point["x"], point["y"], point, spoken.number(point["y"]))
    figures.write(drawn, points, ("x", "y"), tmp_path / "one")
    with (tmp_path / "one.csv").open() as file:
        first, second, third = csv.DictReader(file)
    assert (first["plot_says"], second["plot_says"], third["plot_left"]) == ("10", "1,000", "")
    with Image.open(tmp_path / "one.png") as image:
        pixels = image.convert("RGB")
        assert pixels.width == round(160 * WIDTH)
        for row in (first, second):
            at = (float(row["plot_left"]) * pixels.width, float(row["plot_top"]) * pixels.height)
            assert pixels.getpixel(at) == pytest.approx(RED, abs=8)


def test_a_point_outside_its_axes_has_no_place() -> None:
    drawn = empty_figure(3.0)
    axes = drawn.subplots()
    axes.set(xlim=(0, 1), ylim=(0, 1))
    inside, outside = {"y": 1.0}, {"y": 1.5}
    for point in (inside, outside):
        drawn.mark(axes, 0.5, point["y"], point, "")
    drawn.draw_without_rendering()
    ((found, place),) = drawn.places()
    assert found is inside and set(place) == set(picture.FIELDS) == set(figures.PLACED)


def test_numbers_have_their_interval_where_they_have_one() -> None:
    assert spoken.number(0.2, 0.081, 0.416, percent=True) == "20% [8.1%, 41.6%]"
    assert spoken.number(0.2, 0.2, 0.2) == spoken.number(0.2) == spoken.number(0.2, None, 1.0) == "0.2"
    assert spoken.counted(1, "seed") == "1 seed" and spoken.counted(60.0, "step") == "60 steps"


@pytest.mark.parametrize(("reach", "lines"), [(True, 1), (False, 0)])
def test_chance_is_a_line_on_the_axis_and_has_its_name(reach: bool, lines: int) -> None:
    axes = empty_figure(3.0).subplots()
    axes.plot([0, 1], [0.8, 0.9])
    in_percent(axes.yaxis)
    points = [{"chance": 0.1}, {"chance": 0.1}, {"chance": None}, {}]
    chance_line(axes, points, reach=reach)
    drawn = [line for line in axes.lines if list(line.get_ydata()) == [0.1, 0.1]]
    assert len(drawn) == len(axes.texts) == lines
    assert bool(axes.get_ylim()[0] < 0.1) is reach
    assert all(text.get_text() == "chance" and text.get_fontsize() == SMALL for text in axes.texts)


def test_a_panel_without_runs_keeps_the_ticks_that_others_share() -> None:
    first, second = empty_figure(3.0).subplots(1, 2, sharey=True)
    first.plot([0, 1], [0, 1])
    panels.empty(second)
    assert len(first.get_yticks()) > 2 and len(second.get_xticks()) == 0
    assert [text.get_text() for text in second.texts] == ["not run"]
