"""zhu2022, chapter 3: what does not hold as printed, each with its counter-example and its corrected form.

Z12 by hand on a plane, Z13 from the published table; nothing of ours is used.
"""

from collections.abc import Callable

import numpy as np
import pytest

from ...report.conftest import printed_rows

EASY, CHALLENGE = 570, 299  # questions of ARC's two dev sets
Ascent = Callable[[np.ndarray], np.ndarray]


def inner_loop(start: np.ndarray, slope: Ascent, step: float, inner: int, radius: float) -> np.ndarray:
    """n steps of an adversary through its first layer alone, each brought back to the ball."""
    place = start
    for _ in range(inner):
        gradient = slope(place)
        place = place + step * gradient / np.linalg.norm(gradient)
        place = place * min(1.0, radius / np.linalg.norm(place))
    return place


def linear(place: np.ndarray) -> np.ndarray:
    """The gradient of a constant times a linear first layer: the same everywhere."""
    return np.array([3.0, 4.0])


def test_z12_with_divided_steps_it_is_one_step_and_not_a_larger_one():
    start, inner, step = np.zeros(2), 2, 1.0
    divided = inner_loop(start, linear, step / inner, inner, 9.0)
    assert divided == pytest.approx([0.6, 0.8])  # one step of size 1
    assert np.linalg.norm(divided - inner * step * np.array([0.6, 0.8])) == pytest.approx(1.0)
    # and whole steps do not add up where the ball stops the first of them
    behind = np.array([0.8, 0.0])
    assert inner_loop(behind, linear, step, inner, 1.0) != pytest.approx(
        inner_loop(behind, linear, inner * step, 1, 1.0), abs=1e-3
    )


@pytest.mark.parametrize("inner", [1, 2, 3, 5])
def test_z12_n_steps_of_a_linear_layer_are_one_of_their_sum(inner: int):
    start, step = np.array([0.2, -0.1]), 0.3
    whole = inner_loop(start, linear, step, inner, 99.0)
    assert whole == pytest.approx(inner_loop(start, linear, inner * step, 1, 99.0))
    divided = inner_loop(start, linear, step / inner, inner, 99.0)
    assert divided == pytest.approx(inner_loop(start, linear, step, 1, 99.0))


def merged() -> dict[str, tuple[float, float]]:
    """Model → (printed ARC-Merge dev, the mean of its two sets by their sizes)."""
    cells: dict[str, dict[str, float]] = {}
    for row in printed_rows("zhu2022.table3.3"):
        if row["value"] and row["column"].endswith(" dev"):
            cells.setdefault(row["row"], {})[row["column"]] = float(row["value"])
    return {
        name: (
            own["ARC-Merge dev"],
            (EASY * own["ARC-Easy dev"] + CHALLENGE * own["ARC-Challenge dev"]) / (EASY + CHALLENGE),
        )
        for name, own in cells.items()
        if {"ARC-Merge dev", "ARC-Easy dev", "ARC-Challenge dev"} <= set(own)
    }


def test_z13_the_printed_mean_is_not_that_of_its_parts():
    printed, mean = merged()["RoBERTa (ReImp)"]
    assert printed == 77.83 and mean == pytest.approx(77.56, abs=0.005)


def test_z13_the_other_rows_are_means_of_their_parts():
    others = {name: pair for name, pair in merged().items() if name != "RoBERTa (ReImp)"}
    assert len(others) == 2
    for printed, mean in others.values():
        assert printed == pytest.approx(mean, abs=0.01)
