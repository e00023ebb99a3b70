"""The forest plot: where an effect lies on its axis, which claims have none, and that the picture says every verdict."""

import csv
import math
from dataclasses import replace
from pathlib import Path

import pytest

from relearn.report import distance, figures
from relearn.report.designs import Measure
from relearn.report.figures import claims_forest
from relearn.report.statistics import Interval
from relearn.report.verdict_words import COLOURS, MEANINGS
from relearn.report.verdicts import Above, Below, Within

from .test_undecided import DESIGN, claim, part


@pytest.mark.parametrize(
    ("side", "claimed", "unit", "value", "expected"),
    [
        (Above(0.0), 0.1, "fraction", 0.05, 0.5),
        (Above(-0.01, strict=False), 0.0, "fraction", 0.01, 2.0),
        (Above(0.97, strict=False), 0.99, "fraction", 0.96, -0.5),
        (Below(0.0), -0.2, "nats", -0.1, 0.5),
        (Below(0.02), 0.0, "nats", -0.02, 2.0),
        (Below(1.0), 0.5, "ratio", 0.25, 2.0),
        (Below(1.0), 0.5, "ratio", 2.0, -1.0),
        (Within(1.0, 2.0), None, "ratio", 1.5, 1.0),
        (Within(1.0, 2.0), None, "ratio", 2.0, 0.0),
        (Within(-0.01, 0.01), None, "fraction", -0.02, -1.0),
    ],
)
def test_the_bound_is_0_and_the_claimed_effect_1(side, claimed, unit, value, expected) -> None:
    axis = distance.scale(part([0.3], side, unit=unit), Measure("s", claimed=claimed))
    assert axis is not None and axis.of(value) == pytest.approx(expected)


def test_an_interval_is_right_of_0_where_the_verdict_is_reproduced() -> None:
    for side, claimed in ((Above(0.02), 0.1), (Below(0.3), 0.1), (Within(-0.3, 0.3), None)):
        for low, high in ((0.05, 0.15), (-0.4, 0.1), (0.21, 0.5), (-0.25, 0.29), (0.31, 0.4)):
            one = part([0.3], side, interval=Interval((low + high) / 2, low, high))
            axis = distance.scale(one, Measure("s", claimed=claimed))
            assert axis is not None
            ends = axis.interval(low, high)
            assert (ends[0] > 0) == (one.verdict == "reproduced"), (side, low, high)
            assert (ends[1] < 0) == (one.verdict == "contradicted"), (side, low, high)


def test_a_range_is_folded_at_its_middle() -> None:
    axis = distance.scale(part([0.3], Within(-1.0, 1.0)), None)
    assert axis is not None and axis.interval(-0.5, 0.25) == (0.5, 1.0)


def test_no_axis_without_a_stated_effect_and_none_on_the_wrong_side() -> None:
    assert distance.scale(part([0.3]), None) is None
    assert distance.scale(part([0.3], Within(0.0, 0.0)), None) is None  # no width to measure with
    assert (
        distance.scale(part([0.3], Above(1.0, strict=False), units=None), Measure("s", claimed=0.1)) is None
    )
    with pytest.raises(ValueError, match=r"found a claimed value of -0\.1, allowed: > 0"):
        distance.scale(part([0.3]), Measure("s", claimed=-0.1))


def test_the_points_beside_the_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "save", lambda figure, stem: [stem])  # what is drawn: the next test
    told = [
        claim(part([0.05, 0.1, 0.15]), verdict="reproduced"),
        claim(part([0.3]), verdict="underpowered", id="single"),
        claim(verdict="not_run", id="empty"),
        claim(verdict="not_run", id="silent", section="t"),  # of a study without a judged claim
    ]
    designs = {"s": {"one": DESIGN, "single": DESIGN}, "t": {}}
    claims_forest.write(told, designs, tmp_path)
    with (tmp_path / "claims_forest.csv").open() as file:
        first, second, third, fourth = csv.DictReader(file)
    assert float(first["distance"]) == pytest.approx(1.0) and first["bound"] == "> 0"
    assert first["claimed"] == "0.1" and float(first["distance_low"]) < 1.0 < float(first["distance_high"])
    assert (second["distance_low"], second["distance_high"]) == ("", "") and float(
        second["distance"]
    ) == pytest.approx(3.0)
    assert (third["distance"], third["shown"]) == (fourth["distance"], fourth["shown"]) == ("", "not run")
    assert fourth["claim"] == "silent"  # so that the picture has all claims that claims.md counts


def test_the_legend_explains_the_words_that_stand_there_and_names_every_claim() -> None:
    told = [claim(part([0.05, 0.1]), verdict="direction"), replace(claim(verdict="not_run"), id="empty")]
    plotted = claims_forest.points(told, {"s": {"one": DESIGN}})
    figure = claims_forest.draw(plotted)
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert legend == [f"direction (1): {MEANINGS['direction']}", f"not run (1): {MEANINGS['not_run']}"]
    assert [text.get_text() for text in figure.axes[0].get_yticklabels()] == ["s", "one", "empty"]


def test_no_two_verdicts_differ_in_colour_alone() -> None:
    assert set(claims_forest.MARKS) == set(MEANINGS)
    assert set(COLOURS) == set(MEANINGS)
    shapes = [marker for marker, _ in (*claims_forest.MARKS.values(), claims_forest.CHECK)]
    assert len(set(shapes)) == len(shapes) and math.isclose(claims_forest.REACH, 3.0)


def test_a_provisional_verdict_and_a_corrected_statement_look_like_none_that_is_firm() -> None:
    told = [
        claim(part([0.05, 0.1, 0.15]), verdict="reproduced"),
        replace(claim(part([0.05, 0.1, 0.15]), verdict="reproduced"), id="some", missing=("no runs for b",)),
        replace(claim(verdict="reproduced"), id="exact", kind="exact", corrected="Q9"),
    ]
    figure = claims_forest.draw(claims_forest.points(told, {"s": {"one": DESIGN, "some": DESIGN}}))
    marks = [line for line in figure.axes[0].get_lines() if line.get_marker() == "o"]
    assert [mark.get_fillstyle() for mark in marks] == ["full", "full", "left", "left", "full"]
    beside = [text.get_text() for text in figure.axes[0].texts]
    assert sum(text.endswith(" (provisional)") for text in beside) == 1
    assert "reproduced (as corrected, Q9)" in beside
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert legend == [
        f"reproduced (3, 1 as corrected): {MEANINGS['reproduced']}",
        f"provisional (1), half-filled: {claims_forest.PROVISIONAL_MEANS}",
    ]


def test_a_check_of_a_theorem_has_its_own_mark_and_is_not_counted() -> None:
    check = replace(claim(verdict="reproduced"), id="theorem", kind="check")
    plotted = claims_forest.points([claim(verdict="not_run"), check], {})
    figure = claims_forest.draw(plotted)
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert legend == [
        f"not run (1): {MEANINGS['not_run']}",
        f"check: holds (1): {claims_forest.CHECK_MEANS}",
    ]
    assert [line.get_marker() for line in figure.axes[0].get_lines()].count("P") == 1


@pytest.mark.parametrize(
    ("values", "arrows"),
    [([0.05, 0.1, 0.15], []), ([0.9], [">"]), ([-0.9], ["<"]), ([0.9, -0.9, 0.1], ["<", ">"]), ([0.1], [])],
)
def test_what_lies_beyond_the_axis_leaves_an_arrow(values: list[float], arrows: list[str]) -> None:
    drawn = claims_forest.draw(claims_forest.points([claim(part(values))], {"s": {"one": DESIGN}}))
    lines = drawn.axes[0].get_lines()
    edges = [
        one.get_marker()
        for one in lines
        if abs(one.get_xdata()[0]) == claims_forest.REACH and len(one.get_xdata()) == 1
    ]
    assert edges == arrows
