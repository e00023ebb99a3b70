"""Figure 2 of qi2023 and the four constants of its appendix: one run measures every row."""

from __future__ import annotations

import math
import os

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from relearn.report import coverage, figures, table, table_formats
from relearn.studies.lipsformer.figures import activations

from ...report.conftest import RENDERERS, chapter, evidence_of, values_of
from . import fake_records as pretend

ARTEFACTS = chapter("lipsformer")
TABLE, FIGURE = ARTEFACTS["qi2023.appendix_a1"], ARTEFACTS["qi2023.fig2"]
SLOPES = {"sigmoid": 0.25, "tanh": 1.0, "relu": 1.0, "gelu_sigmoid": 1.0998, "gelu": 1.1289, "gelu_tanh": 1.5}


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda _: None)  # no record has to survive a power cut


def examined(root, slopes=SLOPES):
    cases = [{"activation": name, "at": 0.5, "norm": slope, "holds": 1} for name, slope in slopes.items()]
    curves = [
        {"activation": name, "x": x, "value": x * slope, "slope": slope}
        for name, slope in slopes.items()
        for x in (-1.0, 0.0, 2.0)
    ]
    metrics = {f"{name}_slope_max": slope for name, slope in slopes.items()}
    files = {"cases.csv": cases, "curves.csv": curves}
    pretend.write_run(root, "lipsformer", "check_theorems", {"protocol": "activations"}, metrics, files)
    return evidence_of(root)


def test_each_row_has_its_own_number_of_one_run_beside_the_printed_one(tmp_path):
    known = examined(tmp_path)
    cells = {cell.row.id: cell for cell in table.build(TABLE, known)}
    assert {name: cell.mean for name, cell in cells.items()} == SLOPES
    values = values_of("qi2023.prose")
    wanted = sorted(v.value for v in values if v.metric == "lipschitz_constant")
    assert sorted(value for cell in cells.values() for value in cell.published.values()) == wanted
    assert len(wanted) == 4 and not cells["gelu"].published
    _, lines = table_formats.header_and_rows(TABLE, list(cells.values()))
    assert lines[3] == ["GELU, x sigmoid(1.702 x)", "1.0998 (1)", "1.0998", "+0.0000"]
    assert lines[4][1:] == ["1.1289 (1)", "-", "-"]


@pytest.mark.parametrize("artefact", [TABLE, FIGURE], ids=lambda one: one.id)
def test_the_papers_four_are_the_cells(artefact, tmp_path):
    before = coverage.cover(artefact, evidence_of(tmp_path))
    after = coverage.cover(artefact, examined(tmp_path))
    assert (before.measured, after.measured, after.defined) == (0, 4, 4)


def test_a_row_that_the_run_lacks_is_not_measured(tmp_path):
    known = examined(tmp_path, {name: slope for name, slope in SLOPES.items() if name != "tanh"})
    assert coverage.cover(TABLE, known).missing == ("Tanh",)
    cells = {cell.row.id: cell for cell in table.build(TABLE, known)}
    assert cells["tanh"].status == "no_value" and cells["relu"].mean == 1
    drawn = activations.draw(FIGURE, activations.points(FIGURE, known))
    assert [len(axes.get_lines()) for axes in drawn.axes] == [4, 4 + 1 + 4]


def test_points_and_lines_are_the_runs(tmp_path):
    points = activations.points(FIGURE, examined(tmp_path))
    assert len(points) == 5 * 3 and all(set(point) == set(activations.FIELDS) for point in points)
    tanh = [point for point in points if point["series"] == "tanh"]
    assert [(p["x"], p["value"], p["slope"]) for p in tanh] == [(-1, -1, 1), (0, 0, 1), (2, 2, 1)]
    assert {(p["series"], p["at"], p["constant"]) for p in points} == {
        (name, 0.5, slope) for name, slope in SLOPES.items() if name != "gelu_tanh"
    }
    drawn = activations.draw(FIGURE, points)
    left, right = drawn.axes
    assert list(left.get_lines()[1].get_ydata()) == [-1, 0, 2]
    assert list(right.get_lines()[0].get_ydata()) == [0.25] * 3
    marks = [line for line in right.get_lines() if line.get_marker() == "o"]
    assert [(line.get_xdata()[0], line.get_ydata()[0]) for line in marks] == [
        (0.5, slope) for name, slope in SLOPES.items() if name != "gelu_tanh"
    ]
    said = [text.get_text() for legend in drawn.legends for text in legend.get_texts()]
    assert said[0] == "Sigmoid: 0.25" and said[3:] == [
        "GELU, x sigmoid(1.702 x): 1.0998",
        "GELU, exact (ours): 1.1289",
    ]


def test_a_jump_is_a_gap_and_a_steep_slope_is_none():
    near = [{"x": x, "slope": slope} for x, slope in ((-0.1, 0.0), (0.0, 1.0), (0.1, 1.0))]
    xs, ys = activations._curve(near, "slope")
    assert xs == [-0.1, 0.0, 0.0, 0.1] and math.isnan(ys[1]) and ys[2:] == [1.0, 1.0]
    far = [{"x": x, "slope": slope} for x, slope in ((-1.0, 0.0), (0.0, 1.0))]
    assert activations._curve(far, "slope") == ([-1.0, 0.0], [0.0, 1.0])


def test_it_is_drawn_without_runs_and_nothing_covers_anything(tmp_path):
    empty = activations.draw(FIGURE, activations.points(FIGURE, evidence_of(tmp_path)))
    words = [text.get_text() for axes in empty.axes for text in axes.texts]
    assert words == ["not run"] * 2 and not empty.legends
    drawn = activations.draw(FIGURE, activations.points(FIGURE, examined(tmp_path)))
    FigureCanvasAgg(drawn).draw()
    (box,) = [legend.get_window_extent() for legend in drawn.legends]
    assert not any(box.overlaps(axes.get_window_extent()) for axes in drawn.axes)
    assert box.x0 >= 0 and box.x1 <= drawn.bbox.width


def test_equal_records_give_equal_files(tmp_path):
    known = examined(tmp_path / "runs")
    both = [figures.render(FIGURE, known, RENDERERS, tmp_path / name) for name in "ab"]
    for one, other in zip(*both):
        assert one.read_bytes() == other.read_bytes() and one.stat().st_size > 300
