"""Figures show the points they keep, equal points give equal bytes, and nothing measured is no failure."""

import csv
import importlib
from dataclasses import replace

import pytest

from relearn.report.figures.style import HATCH
from relearn.report.statistics import wilson
from relearn.studies.poisoning.figures import bars, knn_sweep

from ...report.conftest import RENDERERS, chapter, evidence_of
from ...report.drawn import rendered
from ...steps.recorded import rows_of
from .fake_records import VICTIMS

ARTEFACTS = chapter()
FIGURES = [artefact for artefact in ARTEFACTS.values() if artefact.kind == "figure"]
RATES, SWEEP = ARTEFACTS["zhu2022.fig2.5"], ARTEFACTS["zhu2022.fig2.11"]


@pytest.fixture(scope="module")
def nothing(tmp_path_factory):
    return evidence_of(tmp_path_factory.mktemp("nothing"))


@pytest.mark.parametrize("name", ["zhu2022.fig2.2", "zhu2022.fig2.5"])  # images, bars: all are saved alike
def test_equal_records_give_equal_files(name, evidence, tmp_path):
    first, again = (rendered(ARTEFACTS[name], evidence, tmp_path / folder) for folder in ("first", "again"))
    assert [path.suffix for path in first] == [".csv", ".png", ".pdf"]
    for one, other in zip(first, again):
        assert one.read_bytes() == other.read_bytes() and one.stat().st_size > 300


@pytest.mark.parametrize("artefact", FIGURES, ids=lambda artefact: artefact.id)
def test_every_figure_is_drawn_with_and_without_runs(artefact, evidence, nothing):
    module = importlib.import_module(RENDERERS[artefact.renderer])
    words = []
    for known in (nothing, evidence):
        points = module.points(artefact, known)
        assert all(set(point) <= set(module.FIELDS) for point in points)
        drawn = module.draw(artefact, points)
        found = [text.get_text() for text in drawn.findobj(lambda item: hasattr(item, "get_text"))]
        words.append([text for text in found if "not run" in text])
    assert words[0]  # nothing measured is said, not hidden
    assert len(words[1]) < len(words[0])


def test_an_empty_study_is_written_too(nothing, tmp_path):
    for path in rendered(ARTEFACTS["zhu2022.fig2.7"], nothing, tmp_path):
        assert path.is_file()


def test_an_unknown_renderer_is_refused(evidence, tmp_path):
    with pytest.raises(ValueError, match=r"fig2.5: found renderer fig9, allowed: bars, "):
        rendered(replace(RATES, renderer="fig9"), evidence, tmp_path)


def test_points_of_the_success_rates(evidence):
    points = bars.points(RATES, evidence)
    found = {(p["series"], p["victim"]): p for p in points if p["source"] == "measured"}
    assert len(found) == 5 * 8
    polytope = found["convex_polytope", "SENet18"]
    assert (polytope["success"], polytope["trials"]) == (0.5, 20)
    assert (polytope["low"], polytope["high"]) == (wilson(10, 20).low, wilson(10, 20).high)
    assert found["feature_collision", "DenseNet121"]["success"] == 0.25
    assert found["feature_collision", "ResNet18"]["reference"] == 0.0
    assert found["convex_polytope", "DPN92"]["status"] == "not_run"
    black_box = {p["victim"] for p in found.values() if p["knowledge"] == "black_box"}
    assert black_box == {"MobileNetV2", "DenseNet121"}


def test_published_bounds_are_no_bars(evidence):
    bounds = [p for p in bars.points(RATES, evidence) if p["source"] == "paper"]
    assert {p["status"] for p in bounds} == {"upper bound", "lower bound"}
    assert all(p["success"] == 0.5 and p["low"] is None for p in bounds)


def test_the_only_series_stands_above_its_victims_name(evidence):
    points = bars.points(RATES, evidence)
    one = next(p["series"] for p in points if p["status"] == "measured")
    (axes,) = bars.draw(RATES, [p for p in points if p["series"] == one]).axes
    centres = [bar.get_x() + bar.get_width() / 2 for bar in axes.patches]
    assert centres and all(centre == pytest.approx(round(centre)) for centre in centres)
    assert all(bar.get_width() <= bars.WIDEST for bar in axes.patches)


def test_bars_follow_the_paper_s_order_and_missing_ones_are_named(evidence):
    figure = bars.draw(RATES, bars.points(RATES, evidence))
    axes = figure.axes[0]
    names = [label.get_text().split("\n")[0] for label in axes.get_xticklabels()]
    assert names == [member.split("-")[0] for member in RATES.members if member in VICTIMS]
    gone = [member for member in RATES.members if member not in VICTIMS]
    assert axes.get_xlabel() == f"Not run here: {', '.join(gone)}" and len(gone) == 4
    marked = [label.get_text() for label in axes.get_xticklabels() if "black box" in label.get_text()]
    assert marked == ["MobileNetV2\n(black box)", "DenseNet121\n(black box)"]
    assert {patch.get_height() for patch in axes.patches} == {0.25, 0.5}
    assert len(axes.patches) == 5 * 4  # the additions have bars of their own


def test_under_the_pointer_stand_the_numbers_of_the_csv_file(evidence, tmp_path):
    table, *_ = rendered(RATES, evidence, tmp_path)
    with table.open() as file:
        rows = [row for row in csv.DictReader(file) if row["plot_left"]]
    assert len(rows) == 5 * len(VICTIMS)
    for row in rows:
        low, value, high = (f"{100 * float(row[name]):.3g}%" for name in ("low", "success", "high"))
        assert f"{row['victim']}: {value} [{low}, {high}], {row['trials']} attacks" in row["plot_says"]
        assert 0 < float(row["plot_left"]) < 1 and 0 < float(row["plot_top"]) < 1
    tops = {row["success"]: float(row["plot_top"]) for row in rows}
    assert tops["0.5"] < tops["0.25"]  # higher in the picture


def test_the_line_says_who_is_a_black_box_if_others_are_in_the_paper(evidence):
    points = bars.points(RATES, evidence)
    said = "black box here: MobileNetV2, DenseNet121, in the paper: ResNet18, DenseNet121"
    assert bars.NOTE(RATES, points) == said
    as_printed = [p for p in points if p["victim"] not in ("MobileNetV2", "ResNet18")]
    assert bars.NOTE(RATES, as_printed) == ""  # of the victims that were attacked


def test_what_the_paper_states_of_grey_boxes_is_drawn_over_them_alone(evidence):
    artefact = ARTEFACTS["zhu2022.fig2.7"]
    blank = dict.fromkeys(bars.FIELDS)
    bound = {"series": "CP on multiple layers", "success": 0.6, "source": "paper"}
    rate = {
        "status": "measured",
        "series": "multi_layer",
        "success": 0.5,
        "low": 0.4,
        "high": 0.6,
        "trials": 5,
    }
    known = [
        (victim, "black_box" if "121" in victim else "gray_box") for victim in ("SENet18", "DenseNet121")
    ]
    points = [{**blank, **rate, "victim": victim, "knowledge": knowledge} for victim, knowledge in known]
    drawn = bars.draw(artefact, [*points, {**blank, **bound}])
    (line,) = [one for one in drawn.axes[0].lines if one.get_label().startswith("Paper")]
    assert list(line.get_xdata()[:2]) == [-0.5, 0.5] and set(line.get_ydata()) == {0.6}
    assert line.get_label() == "Paper: several layers, grey box: above"
    (whole,) = [
        one
        for one in bars.draw(RATES, bars.points(RATES, evidence)).axes[0].lines
        if "never" in one.get_label()
    ]
    assert list(whole.get_ydata()) == [0.5, 0.5] and list(whole.get_xdata()) == [0, 1]


def chosen(points, **wanted):
    return [p for p in points if all(p[name] == value for name, value in wanted.items())]


def test_points_of_the_sweep(evidence):
    points = knn_sweep.points(SWEEP, evidence)
    curve = chosen(points, source="measured", series="convex_polytope", panel="mcc", victim="all", along="k")
    assert [(p["x"], p["value"]) for p in curve] == [
        (0.2, pytest.approx(0.3)),
        (1.0, pytest.approx(0.5)),
        (1.5, pytest.approx(0.45)),
        (4.0, pytest.approx(0.2)),
    ]
    assert all(p["trials"] == 80 for p in curve)
    works = chosen(
        points, source="measured", series="feature_collision", population="effective", victim="all"
    )
    assert {p["trials"] for p in works} == {5 * 4} and {p["value"] for p in works} == {1.0}


def test_published_code_is_turned_from_attack_to_defence_success(evidence):
    points = knn_sweep.points(SWEEP, evidence)
    code = chosen(points, source="published code", panel="defence_success", along="k")
    assert len(code) == 12
    assert code[0]["value"] == pytest.approx(1 - 0.2843) and code[0]["x"] == 0.04
    assert len(chosen(points, source="published code", panel="mcc")) == 12


def test_points_of_the_imbalance(evidence):
    points = knn_sweep.points(SWEEP, evidence)
    found = {
        copies: [
            (p["x"], p["value"])
            for p in chosen(
                *(points,),
                source="measured",
                along="balance",
                panel="defence_success",
                victim="all",
                population="effective",
                replicated=copies,
            )
        ]
        for copies in (0, 1)
    }
    # half of the attacks work undefended, and those get through below 0.7 unless the class is replicated
    assert found == {
        0: [(0.1, 0.0), (0.5, 0.0), (0.7, 1.0), (1.0, 1.0)],
        1: [(x, 1.0) for x in (0.1, 0.5, 0.7, 1.0)],
    }
    code = chosen(points, source="published code", along="balance")
    assert len(code) == 20 and {p["panel"] for p in code} == {"defence_success"}
    assert [p["value"] for p in code if p["x"] == 0.24] == [pytest.approx(1 - 0.186), pytest.approx(1 - 0.01)]


def test_six_panels_and_what_was_not_run(evidence, make_study):
    figure = knn_sweep.draw(SWEEP, knn_sweep.points(SWEEP, evidence))
    assert len(figure.axes) == 6 and not any(said(axes) for axes in figure.axes)
    left = chosen(knn_sweep.points(SWEEP, evidence), along="k")
    assert [said(axes) for axes in knn_sweep.draw(SWEEP, left).axes] == [False, True] * 3


def test_bands_with_and_without_replication_can_be_told_apart(evidence):
    figure = knn_sweep.draw(SWEEP, knn_sweep.points(SWEEP, evidence))
    for left, right in zip(figure.axes[::2], figure.axes[1::2]):
        assert {band.get_hatch() for band in left.collections} == {None}
        assert {band.get_hatch() for band in right.collections} == {None, HATCH}


def said(axes):
    return any(text.get_text() == "not run" for text in axes.texts)


def test_where_no_attack_works_the_panel_counts_all_of_them(make_study):
    never = make_study(success=lambda *_: False, defences=("deep_knn",), victims=("SENet18",), targets=3)
    points = knn_sweep.points(SWEEP, evidence_of(never))
    assert not chosen(points, source="measured", population="effective")
    label = knn_sweep.draw(SWEEP, points).axes[0].get_ylabel()
    assert label.endswith("(all attacks)")


def test_points_come_back_from_the_csv(evidence, tmp_path):
    path = rendered(RATES, evidence, tmp_path)[0]
    rows = rows_of(path)
    points = bars.points(RATES, evidence)
    assert [float(row["success"]) for row in rows if row["success"]] == [
        p["success"] for p in points if p["success"] is not None
    ]
