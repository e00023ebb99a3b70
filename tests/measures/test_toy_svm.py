"""The toy's outcome follows from its points: by the SVM, by the hull, and by every other separator."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from relearn.measures import toy_svm
from relearn.measures.hull import separator_exists
from relearn.measures.toy_svm import CLASS_A, CLASS_B, POISONS, TARGET, ends, fit, on_the_right, panels


def line(panel, kind):
    return np.array([[r["x"], r["y"]] for r in panels() if (r["panel"], r["kind"]) == (panel, kind)])


@pytest.mark.parametrize(("panel", "fooled"), [("feature_collision", False), ("convex_polytope", True)])
def test_the_target_goes_with_the_poisons_only_where_it_lies_between_them(panel, fooled):
    after = line(panel, "boundary_after")
    assert all(on_the_right(poison, after) for poison in POISONS[panel])  # the poisons are learned in both
    assert on_the_right(TARGET, after) == fooled
    assert not on_the_right(TARGET, line(panel, "boundary_before"))


@pytest.mark.parametrize(("panel", "inside"), [("feature_collision", False), ("convex_polytope", True)])
def test_the_hull_says_why(panel, inside):
    poisons = torch.from_numpy(POISONS[panel])
    assert separator_exists(poisons, torch.from_numpy(TARGET)) == (not inside)


def test_the_attack_that_fails_collides_better():
    collision = {name: ((poisons - TARGET) ** 2).sum() for name, poisons in POISONS.items()}
    assert collision["feature_collision"] < collision["convex_polytope"]


def test_poisons_that_move_to_one_side_of_the_target_fool_nobody(monkeypatch):
    moved = POISONS["convex_polytope"] + np.array([0.4, 0.0])
    monkeypatch.setattr(toy_svm, "POISONS", {"convex_polytope": moved})
    assert not on_the_right(TARGET, line("convex_polytope", "boundary_after"))


def test_boundaries_are_the_widest_margin():
    weights, offset = fit(CLASS_A, CLASS_B)
    norm = np.linalg.norm(weights)
    margins = np.r_[-(CLASS_A @ weights + offset), CLASS_B @ weights + offset] / norm
    assert margins.min() == pytest.approx(1 / norm, rel=1e-3)  # support vectors lie at 1/|w|
    for angle in np.linspace(0, 2 * np.pi, 720, endpoint=False):  # no other direction has a wider gap
        direction = np.array([np.cos(angle), np.sin(angle)])
        gap = (CLASS_B @ direction).min() - (CLASS_A @ direction).max()
        assert gap / 2 <= margins.min() + 1e-3


def test_ends_lie_on_the_line_and_point_the_stated_way():
    weights, offset = np.array([3.0, -4.0]), 2.0
    found = ends(weights, offset)
    assert found @ weights + offset == pytest.approx([0, 0], abs=1e-12)
    right = found.mean(0) + 0.1 * weights
    assert on_the_right(right, found) and not on_the_right(found.mean(0) - 0.1 * weights, found)
    with pytest.raises(ValueError, match="direction"):
        ends(np.zeros(2), 1.0)


def test_rows_are_whole():
    kinds = {(row["panel"], row["kind"]) for row in panels()}
    wanted = {"class_a", "class_b", "poison", "target", "boundary_before", "boundary_after"}
    assert kinds == {(panel, kind) for panel in POISONS for kind in wanted}
    assert panels() == panels()
