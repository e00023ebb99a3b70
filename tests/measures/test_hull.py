"""Proposition 1 by linear program, its proof's classifier, and the two errata.

The toy's outcome follows from its points: by the SVM, by the hull, and by every other separator.
"""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from relearn.measures import toy_svm
from relearn.measures.hull import check_proposition, nearest_point_classifier, separator_exists
from relearn.measures.toy_svm import CLASS_A, CLASS_B, POISONS, TARGET, ends, fit, on_the_right, panels

TRIANGLE = torch.tensor([[0.0, 0.0], [2.0, 0.0], [0.0, 2.0]])


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ((0.5, 0.5), False),  # inside
        ((1.0, 0.0), False),  # on an edge
        ((2.0, 0.0), False),  # a vertex
        ((1.0, 1.001), True),
        ((-0.001, 1.0), True),
        ((3.0, -1.0), True),  # in line with an edge
    ],
)
def test_a_separator_exists_exactly_outside_of_a_triangle(
    target: tuple[float, float], expected: bool
) -> None:
    assert separator_exists(TRIANGLE, torch.tensor(target)) is expected


@settings(max_examples=60)
@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(1, 6), st.booleans())
def test_separator_exists_exactly_outside_and_reduction_does_not_matter(
    seed: int, k: int, d: int, inside: bool
) -> None:
    generator = torch.Generator().manual_seed(seed)
    poisons = torch.randn(k, d, generator=generator, dtype=torch.float64)
    if inside:
        target = torch.randn(k, generator=generator, dtype=torch.float64).softmax(0) @ poisons
    else:
        direction = torch.randn(d, generator=generator, dtype=torch.float64)
        target = poisons[(poisons @ direction).argmax()] + 0.1 * direction / direction.norm()
    assert separator_exists(poisons, target) is not inside
    assert separator_exists(poisons, target, reduce=False) is not inside


@settings(max_examples=40)
@given(st.integers(0, 10**6), st.floats(1e-3, 1e3))
def test_the_answer_does_not_depend_on_scale_or_place(seed: int, scale: float) -> None:
    generator = torch.Generator().manual_seed(seed)
    poisons, offset = torch.randn(4, 3, generator=generator, dtype=torch.float64), 5.0
    target = torch.randn(3, generator=generator, dtype=torch.float64) / 2
    assert separator_exists(poisons, target) is separator_exists(
        scale * poisons + offset, scale * target + offset
    )


def test_shifted_classifier_separates_and_the_printed_one_does_not() -> None:
    """Erratum Z2: target 0, poisons (1, 0), (2, 0); as printed the first poison scores 0, not > 0."""
    poisons, target = torch.tensor([[1.0, 0.0], [2.0, 0.0]]), torch.zeros(2)
    w, b = nearest_point_classifier(poisons, target, shifted=False)
    assert (poisons.double() @ w + b).tolist() == [0.0, 1.0]
    w, b = nearest_point_classifier(poisons, target)
    assert (poisons.double() @ w + b).tolist() == [0.5, 1.5] and float(target.double() @ w + b) == -0.5


def test_one_sided_derivative_of_the_proof_is_not_zero() -> None:
    """Erratum Z1: g(η) = ½‖u + η(p_2 - u) - t‖² of the same points has slope 1 at 0, not 0."""
    u, p, t = torch.tensor([1.0, 0.0]), torch.tensor([2.0, 0.0]), torch.zeros(2)
    eta = torch.zeros((), requires_grad=True)
    (0.5 * (u + eta * (p - u) - t).square().sum()).backward()
    assert eta.grad == 1


@settings(max_examples=60)
@given(st.integers(0, 10**6), st.integers(1, 5))
def test_the_derivative_at_the_nearest_point_is_never_negative_and_the_shifted_plane_separates(
    seed: int, k: int
) -> None:
    """Errata Z1 and Z2, corrected: g'(0+) = (u - t)(p_j - u) is what the unshifted classifier gives p_j."""
    generator = torch.Generator().manual_seed(seed)
    poisons, target = torch.randn(k + 1, 3, generator=generator, dtype=torch.float64).split([k, 1])
    w, b = nearest_point_classifier(poisons, target[0], shifted=False)
    assert bool((poisons @ w + b >= -1e-6).all())
    if float(w.norm()) > 1e-2:  # else the target lies in the hull and nothing separates it
        w, b = nearest_point_classifier(poisons, target[0])
        assert bool((poisons @ w + b > 0).all()) and float(target[0] @ w + b) < 0


def test_sampled_classifiers_agree_with_the_linear_program() -> None:
    """Inside, no random classifier that accepts all poisons refuses the target; outside, some does."""
    generator = torch.Generator().manual_seed(0)
    w = torch.randn(20_000, 2, generator=generator)
    b = torch.randn(20_000, generator=generator)
    accepts = ((TRIANGLE @ w.T + b) > 0).all(0)
    assert accepts.sum() > 1000
    for target in (torch.tensor([0.5, 0.5]), torch.tensor([1.5, 1.5])):
        refuses = (w @ target + b <= 0)[accepts].any()
        assert bool(refuses) is separator_exists(TRIANGLE, target)


@pytest.mark.parametrize(("dimension", "poisons"), [(2048, 5), (3, 5), (1, 2), (4, 1)])
def test_proposition_holds(dimension: int, poisons: int) -> None:
    found = check_proposition(dimension, poisons, problems=10)
    assert found["inside_count"] == found["outside_count"] == 10
    assert found["inside_separators_count"] == 0
    assert found["outside_separators_count"] == found["outside_constructed_count"] == 10
    assert found["outside_printed_count"] == 0


def test_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="do not fit"):
        separator_exists(TRIANGLE, torch.zeros(3))
    with pytest.raises(ValueError, match="NaN"):
        separator_exists(TRIANGLE, torch.tensor([torch.nan, 0.0]))
    with pytest.raises(ValueError, match="problems 0"):
        check_proposition(problems=0)


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
