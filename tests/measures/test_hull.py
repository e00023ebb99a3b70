"""Proposition 1 by linear program, its proof's classifier, and the two errata."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from relearn.measures.hull import check_proposition, nearest_point_classifier, separator_exists

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
def test_a_triangle(target: tuple[float, float], expected: bool) -> None:
    assert separator_exists(TRIANGLE, torch.tensor(target)) is expected


@settings(max_examples=60, deadline=None)
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


@settings(max_examples=40, deadline=None)
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
