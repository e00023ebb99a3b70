"""Pathfinder: curves keep their distance and their bends, discs lie where the label says, images are what the formula draws."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relearn.data.lra import pathfinder
from relearn.data.lra.pathfinder import Form, Scenes, distance_shortcut, draw, make, render, scenes

SMALL = Form(
    size=16, dashes=6, distractors=1, distractor_dashes=2, dash=1.0, gap=1.0, clearance=1.7, radius=1.1
)
FORMS = [Form(), SMALL, Form(size=24, dashes=5, distractors=2, turn=0.3)]


def to_segment(p: np.ndarray, a: np.ndarray, b: np.ndarray) -> float:
    """Distance of a point from a segment."""
    squared = float((b - a) @ (b - a))
    u = 0.0 if squared == 0 else min(1.0, max(0.0, float((p - a) @ (b - a)) / squared))
    return float(np.linalg.norm(p - (a + u * (b - a))))


@pytest.fixture(scope="module", params=range(len(FORMS)))
def made(request: pytest.FixtureRequest) -> tuple[Form, Scenes]:
    form = FORMS[request.param]
    return form, scenes(60, np.random.default_rng(request.param), form)


def test_curves_have_even_steps_and_bounded_bends(made: tuple[Form, Scenes]) -> None:
    form, found = made
    assert [curve.shape[1] - 1 for curve in found.curves] == [form.dashes] * 2 + [
        form.distractor_dashes
    ] * form.distractors
    bends = []
    for curve in found.curves:
        move = np.diff(curve.astype(float), axis=1)
        np.testing.assert_allclose(np.linalg.norm(move, axis=-1), form.dash + form.gap, rtol=1e-4)
        angle = np.arctan2(move[..., 1], move[..., 0])
        bends.append(np.abs((np.diff(angle, axis=1) + np.pi) % (2 * np.pi) - np.pi).ravel())
    assert np.concatenate(bends).max() <= form.turn + 1e-3
    assert np.concatenate(bends).max() > 0.9 * form.turn
    assert min(curve.min() for curve in found.curves) >= form.clearance - 1e-4
    assert max(curve.max() for curve in found.curves) <= form.size - form.clearance + 1e-4


def test_curves_keep_their_distance(made: tuple[Form, Scenes]) -> None:
    """From points and middles of a curve to all earlier ones: the clearance less half a pixel's diagonal, by which a raster errs."""
    form, found = made
    least = math.inf
    for scene in range(15):
        placed = [curve[scene].astype(float) for curve in found.curves]
        for number, curve in enumerate(placed):
            points = np.concatenate([curve, (curve[1:] + curve[:-1]) / 2])
            for other in placed[:number]:
                for point in points:
                    least = min(least, *(to_segment(point, a, b) for a, b in pairwise(other)))
            for place in range(2, len(curve)):
                own = np.linalg.norm(curve[: place - 1] - curve[place], axis=-1)
                assert own.min() >= form.dash + form.gap - 1e-3
    assert least >= form.clearance - math.sqrt(0.5)


def test_discs_lie_where_the_label_says(made: tuple[Form, Scenes]) -> None:
    _, found = made
    assert found.labels.tolist() == [0, 1] * 30
    ends = [{tuple(curve[s, e]) for e in (0, -1)} for s in range(60) for curve in found.curves[:2]]
    for scene, label in enumerate(found.labels):
        first, second = ends[2 * scene], ends[2 * scene + 1]
        one, two = map(tuple, found.discs[scene])
        if label:
            assert {one, two} == first
        else:
            assert one in first and two in second


def test_counterparts_have_their_discs_and_the_dashes_there_in_common(made: tuple[Form, Scenes]) -> None:
    """So a place or a direction has label 0 as often as label 1; what follows the first dash differs."""
    _, found = made
    first, second = found.curves[:2]
    assert (found.discs[0::2] == found.discs[1::2]).all()
    for scene in range(0, 60, 2):
        joined = first[scene + 1]
        for curve, way in ((first[scene], joined), (second[scene], joined[::-1])):
            assert (curve[:2] == way[:2]).all() and not (curve[2] == way[2]).all()
    other = [tuple(map(tuple, discs)) for discs in found.discs[0::2].tolist()]
    assert len(set(other)) == 30


def test_an_image_is_what_the_formula_says() -> None:
    form = Form(size=20, dashes=3, distractors=1, distractor_dashes=1)
    found = scenes(2, np.random.default_rng(4), form)
    images = render(found, form)
    for scene in range(2):
        for i in range(form.size):
            for j in range(form.size):
                centre, value = np.array([j + 0.5, i + 0.5]), 0.0
                for curve in found.curves:
                    points = curve[scene].astype(float)
                    for a, b in pairwise(points):
                        middle, along = (a + b) / 2, (b - a) / np.linalg.norm(b - a)
                        near = to_segment(
                            centre, middle - form.dash / 2 * along, middle + form.dash / 2 * along
                        )
                        value = max(value, form.thickness / 2 + 0.5 - near)
                for disc in found.discs[scene].astype(float):
                    value = max(value, form.radius + 0.5 - float(np.linalg.norm(centre - disc)))
                assert abs(int(images[scene, i, j]) - 255 * min(1.0, value)) <= 0.51


def test_dashes_can_be_distinguished() -> None:
    """Along a curve of the default form the image is bright on dashes and darker between them."""
    form = Form()
    found = scenes(40, np.random.default_rng(0), form)
    images = render(found, form)
    points = found.curves[1][:, 1:-1]
    between = [images[s, int(y), int(x)] for s in range(40) for x, y in points[s]]
    middles = (found.curves[1][:, 1:] + found.curves[1][:, :-1]) / 2
    on = [images[s, int(y), int(x)] for s in range(40) for x, y in middles[s]]
    assert np.mean(on) > np.mean(between) + 60


def shortcut_slowly(found: Scenes) -> float:
    distance = np.linalg.norm(found.discs[:, 0] - found.discs[:, 1], axis=-1)
    cuts = [-1.0, *distance]
    return max(float(np.mean((distance <= cut) == (found.labels == near))) for cut in cuts for near in (0, 1))


def test_the_distance_of_the_discs_tells_nothing() -> None:
    found = scenes(400, np.random.default_rng(1), Form())
    assert distance_shortcut(found) == pytest.approx(shortcut_slowly(found), abs=1e-12) == 0.5
    # The control: with ends that the first scene's curve does not have the distance tells more.
    first, second = found.curves[:2]
    discs = found.discs.copy()
    negative = found.labels == 0
    discs[negative] = np.stack([first[:, -1], second[:, -1]], 1)[negative]
    plain = Scenes(found.curves, discs, found.labels)
    assert distance_shortcut(plain) > 0.6
    assert distance_shortcut(plain) == pytest.approx(shortcut_slowly(plain), abs=1e-12)


@settings(max_examples=20)
@given(labels=st.lists(st.integers(0, 1), min_size=1, max_size=12), data=st.data())
def test_the_shortcut_is_the_best_threshold(labels: list[int], data: st.DataObject) -> None:
    apart = data.draw(st.lists(st.integers(1, 20), min_size=len(labels), max_size=len(labels)))
    discs = np.zeros((len(labels), 2, 2))
    discs[:, 1, 0] = apart
    found = Scenes([], discs, np.array(labels))
    assert distance_shortcut(found) == pytest.approx(shortcut_slowly(found), abs=1e-12)


def test_a_seed_fixes_the_images() -> None:
    images, labels = draw(20, form=SMALL)
    again, same = draw(300, form=SMALL)
    assert (again[:20] == images).all() and (same[:20] == labels).all()
    assert images.dtype == np.uint8 and images.shape == (20, 16, 16)
    other, _ = draw(20, seed=1, form=SMALL)
    assert not any((one == two).all() for one in images for two in other)
    assert len({image.tobytes() for image in again}) == 300
    assert same.mean() == 0.5


def test_parts_follow_one_another() -> None:
    made = make({"train": 8, "valid": 3, "test": 5}, form=SMALL)
    images, labels = draw(16, form=SMALL)
    rows = made.train.rows + made.valid.rows + made.test.rows
    assert rows == [image.tobytes() for image in images]
    assert made.train.labels + made.valid.labels + made.test.labels == labels.tolist()
    assert (made.values, made.classes, made.pairs, made.written) == (256, 2, False, False)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"size": 7}, "size is 7"),
        ({"dashes": 1}, "dashes is 1"),
        ({"distractors": -1}, "distractors is -1"),
        ({"dash": 0.0}, "dash is 0.0"),
        ({"clearance": math.nan}, "clearance is nan"),
        ({"gap": -1.0}, "gap, turn"),
        ({"turn": 4.0}, "gap, turn"),
    ],
)
def test_impossible_settings_are_refused(changes: dict, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Form(**changes)


def test_curves_that_do_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pathfinder, "ROUNDS", 3)
    with pytest.raises(ValueError, match="as many as fit"):
        scenes(4, np.random.default_rng(0), Form(size=16, dashes=40))
    with pytest.raises(ValueError, match="samples is -2"):
        make({"train": -2, "valid": 1, "test": 1})
