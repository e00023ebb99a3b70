"""Figure 2 of qi2023 and the four constants of its appendix: one run measures every row.

count: from settings to record; the row is the measure's, the metrics are the row's.
"""

import math
from pathlib import Path
from typing import Any, get_args

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from relearn.measures.model_counts import COLUMNS, NETWORKS, PUBLISHED, RIVALS
from relearn.models.timm_names import NAMES
from relearn.report import coverage, table, table_formats
from relearn.studies.lipsformer.figures import activations
from relearn.studies.lipsformer.params import Network, Rival
from relearn.studies.lipsformer.steps import count_params_flops as count

from ...report.conftest import chapter, evidence_of, values_of
from ...report.drawn import rendered
from ...steps.recorded import made_by, rows_of
from . import fake_records as pretend

ARTEFACTS = chapter("lipsformer")
TABLE, FIGURE = ARTEFACTS["qi2023.appendix_a1"], ARTEFACTS["qi2023.fig2"]
SLOPES = {"sigmoid": 0.25, "tanh": 1.0, "relu": 1.0, "gelu_sigmoid": 1.0998, "gelu": 1.1289, "gelu_tanh": 1.5}


def examined(root, slopes=SLOPES):
    cases = [{"activation": name, "at": 0.5, "norm": slope, "holds": 1} for name, slope in slopes.items()]
    curves = [
        {"activation": name, "x": x, "value": x * slope, "slope": slope}
        for name, slope in slopes.items()
        for x in (-1.0, 0.0, 2.0)
    ]
    metrics = {f"{name}_slope_max": slope for name, slope in slopes.items()}
    files = {"cases.csv": cases, "curves.csv": curves}
    pretend.write_run(root, "check_theorems", {"protocol": "activations"}, metrics, files, study="lipsformer")
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
    both = [rendered(FIGURE, known, tmp_path / name) for name in "ab"]
    for one, other in zip(*both):
        assert one.read_bytes() == other.read_bytes() and one.stat().st_size > 300


def step(out: Path, network: str) -> tuple[dict[str, Any], dict[str, str]]:
    settings = {"network": network}
    done = made_by(count, out, settings, settings, study="lipsformer")
    (row,) = rows_of(out / "counts.csv")
    return done, row


def test_every_published_network_can_be_counted() -> None:
    assert set(NETWORKS) == set(PUBLISHED) == set(get_args(Network)[1].names)
    ours = {
        name for name in NAMES if "cswin" in name or name.startswith("lipsformer")
    }  # the others are no network of qi2023
    assert {name for name in NETWORKS.values() if not name.startswith("swin")} == ours


def test_the_row_and_the_metrics_are_those_of_the_network(tmp_path: Path) -> None:
    done, row = step(tmp_path / "a", "LipsFormer-Swin-T")
    assert tuple(row) == COLUMNS and row["network"] == "LipsFormer-Swin-T"
    assert row["parameters"] == row["released"] == "30908578"
    assert (row["equal"], row["equal_to_released"], row["within"]) == ("1", "1", "1")
    metrics = done["metrics"]
    assert metrics["parameters_count"] == 30_908_578 and metrics["parameters_millions"] == 30.908578
    assert metrics["multiply_adds_count"] == int(row["multiply_adds"])
    assert metrics["multiply_adds_giga"] == pytest.approx(4.9775, abs=1e-4)


def test_the_largest_network_has_the_classes_of_imagenet_22k(tmp_path: Path) -> None:
    done, row = step(tmp_path / "a", "LipsFormer-Swin-L++")
    assert done["metrics"]["parameters_count"] == 526_947_205
    assert row["equal"] == "0" and row["published_giga"] == row["within"] == ""
    assert done["notes"][0].startswith("21,841 classes")


def test_another_network_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="network is 'ViT-S'; allowed: Swin-T, "):
        step(tmp_path / "refused", "ViT-S")


def test_rivals_are_counted_in_one_run_at_the_size_of_their_images(tmp_path: Path) -> None:
    """Two of them, against table 2: 19 M and 4.2 G, which EfficientNet's authors count at 380 pixels, and 20 M and 4.5 G."""
    assert set(RIVALS) == set(get_args(Rival))
    settings = {"networks": ["EffNet-B4", "CvT-13"]}
    made_by(count, tmp_path, settings, {"network": "rivals"}, study="lipsformer")
    rows = {row["network"]: row for row in rows_of(tmp_path / "counts.csv")}
    for name, millions, giga in (("EffNet-B4", 19, 4.2), ("CvT-13", 20, 4.5)):
        assert float(rows[name]["parameters"]) / 1e6 == pytest.approx(millions, abs=0.5)
        assert float(rows[name]["multiply_adds"]) / 1e9 == pytest.approx(giga, rel=0.05)
    with pytest.raises(ValueError, match="networks: found 'NAT-T'; allowed: RegNetY-4G"):
        made_by(count, tmp_path / "other", {"networks": ["NAT-T"]}, study="lipsformer")
