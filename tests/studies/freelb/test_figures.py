"""The figure of chapter 3: what adversarial training does to clean accuracy, from records to points, and what is drawn."""

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text

from relearn.report import coverage
from relearn.studies.freelb.figures import clean_robust

from ...report.conftest import chapter, evidence_of
from ...report.drawn import rendered
from . import fake_records as pretend

FIGURE = chapter("freelb")["addition.freelb_trade"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """On CoLA vanilla training learns nothing."""

    def score(self, task, method):
        gap = {"vanilla": 0.0, "pgd": 0.01, "free_at": -0.02, "freelb": 0.03}[method]
        return 0.8 + gap, "not_converged" if (task, method) == ("cola", "vanilla") else "ok"

    changes = {"score": score, "tasks": ("cola", "imdb"), "methods": pretend.METHODS[:4]}
    return evidence_of(type("Own", (pretend.Chapter,), changes)().write(tmp_path_factory.mktemp("freelb")))


def points_of(evidence):
    return clean_robust.points(FIGURE, evidence)


def test_a_point_a_seed_and_their_mean(whole):
    found = points_of(whole)
    assert all(set(point) == set(clean_robust.FIELDS) for point in found)
    images = [p for p in found if p["panel"] == "images"]
    assert len(images) == 4 * (3 + 1)
    (mean,) = [p for p in images if p["series"] == "freelb" and p["seed"] is None]
    half = 4.302653 * 0.01 / 3**0.5  # Student's t with 2 degrees of freedom
    assert (mean["x"], mean["x_low"], mean["x_high"]) == pytest.approx((0.91, 0.91 - half, 0.91 + half))
    assert (mean["y"], mean["y_low"], mean["y_high"]) == pytest.approx((0.61, 0.61 - half, 0.61 + half))
    assert mean["seeds"] == 3 and len(mean["runs"].split()) == 3


def test_changes_are_against_vanilla_training_of_the_same_seed(whole):
    texts = [p for p in points_of(whole) if p["panel"] == "texts"]
    assert {p["series"] for p in texts} == {"pgd", "free_at", "freelb"}
    assert [p["place"] for p in texts if p["seed"] is None] == ["cola"] * 3 + ["imdb"] * 3
    changes = {p["series"]: p["x"] for p in texts if p["place"] == "imdb" and p["seed"] == 2}
    assert changes == pytest.approx({"pgd": 0.01, "free_at": -0.02, "freelb": 0.03})
    assert {(p["place"], p["counts"]) for p in texts} == {("cola", 0), ("imdb", 1)}


def test_a_score_on_held_out_samples_is_shown_where_there_is_one(tmp_path):
    for method, apart in (("vanilla", 0.7), ("freelb", 0.72)):
        for seed in range(3):
            labels = {"encoder": "roberta", "task": "imdb", "method": method}
            metrics = {"score_frac": 0.9, "held_out_score_frac": apart, "majority_frac": 0.5}
            pretend.write_run(tmp_path, step="finetune", labels=labels, metrics=metrics, files={}, seed=seed)
    pretend.several(tmp_path, "cola", vanilla=0.5, freelb=0.6)
    points = points_of(evidence_of(tmp_path))
    changes = {(p["place"], p["held_out"]): p["x"] for p in points if p["seed"] == 0}
    assert changes == pytest.approx({("cola", 0): 0.1, ("imdb", 1): 0.02})
    (axes,) = clean_robust.draw(FIGURE, points).axes
    assert axes.get_xlabel().startswith("Held-out score minus")
    assert [text.get_text() for text in axes.get_yticklabels()] == ["CoLA\n(dev)", "IMDb"]
    assert clean_robust.BARS(FIGURE, points) == "whiskers: Student's 95% interval of the mean over seeds"


def test_a_seed_without_vanilla_training_has_no_change(tmp_path):
    pretend.several(tmp_path, "imdb", vanilla=[0.8], freelb=[0.9, 0.95])
    found = points_of(evidence_of(tmp_path))
    assert [(p["seed"], p["seeds"]) for p in found] == [(0, None), (None, 1)]
    assert found[0]["x"] == pytest.approx(0.1)


def test_it_is_drawn_with_and_without_runs(whole, tmp_path):
    for known, said in ((evidence_of(tmp_path), 2), (whole, 0)):
        drawn = clean_robust.draw(FIGURE, points_of(known))
        assert sum(text.get_text() == "not run" for text in drawn.findobj(Text)) == said
        assert len(drawn.axes) == 2 and len(drawn.legends) == (0 if said else 1)
    FigureCanvasAgg(drawn).draw()
    (legend,) = [one.get_window_extent() for one in drawn.legends]
    assert not any(legend.overlaps(axes.get_window_extent()) for axes in drawn.axes)
    assert [text.get_text() for text in drawn.axes[1].get_yticklabels()] == ["CoLA", "IMDb"]
    hollow = [line for line in drawn.axes[1].lines if line.get_markerfacecolor() == "white"]
    assert len(hollow) == 3  # of CoLA


def test_a_panel_without_runs_is_left_out(tmp_path):
    pretend.several(tmp_path, "imdb", vanilla=[0.8, 0.8], freelb=[0.9, 0.95])
    (axes,) = clean_robust.draw(FIGURE, points_of(evidence_of(tmp_path))).axes
    assert axes.get_title(loc="left") == "Texts"


def test_equal_records_give_equal_files_and_it_is_an_addition(whole, tmp_path):
    both = [rendered(FIGURE, whole, tmp_path / folder) for folder in ("a", "b")]
    for one, other in zip(*both):
        assert one.read_bytes() == other.read_bytes() and one.stat().st_size > 300
    found = coverage.cover(FIGURE, whole)
    assert found.addition and coverage.total([found]) == (0, 0) and found.measured
