"""The pieces of theorem 2: slopes of GELU, norms of CenterNorm, products over branches."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from relearn.maths.network_bounds import centre_norm_constant, gelu_constant, residual_bound

F64 = dict(dtype=torch.float64)


def gelu(x: Tensor, form: str) -> Tensor:
    if form == "sigmoid":
        return x * torch.sigmoid(1.702 * x)
    return torch.nn.functional.gelu(x, approximate="tanh" if form == "tanh" else "none")


@pytest.mark.parametrize(("form", "value"), [("erf", 1.128904), ("sigmoid", 1.099839), ("tanh", 1.128993)])
def test_the_largest_slope_of_gelu(form: str, value: float) -> None:
    x = torch.linspace(-8, 8, 400_001, **F64).requires_grad_()
    slopes = torch.autograd.grad(gelu(x, form).sum(), x)[0].abs()
    assert gelu_constant(form) == pytest.approx(float(slopes.max()), abs=1e-8)
    assert gelu_constant(form) == pytest.approx(value, abs=5e-7)


@given(st.integers(2, 12), st.integers(0, 100))
@settings(max_examples=20, deadline=None)
def test_the_norm_of_center_norm(dim: int, seed: int) -> None:
    gamma = torch.randn(dim, generator=torch.Generator().manual_seed(seed), **F64)
    for weight in (None, gamma):
        diagonal = torch.ones(dim, **F64) if weight is None else weight
        matrix = diagonal.diag() @ (torch.eye(dim, **F64) - 1 / dim) * dim / (dim - 1)
        for p, order in (("two", 2), ("inf", math.inf)):
            found = float(torch.linalg.matrix_norm(matrix, order))
            assert float(centre_norm_constant(dim, weight, p)) == pytest.approx(found, rel=1e-12)
            assert found <= float(diagonal.abs().max() * centre_norm_constant(dim, None, p)) * (1 + 1e-12)
    assert float(centre_norm_constant(dim)) == pytest.approx(dim / (dim - 1))
    assert float(centre_norm_constant(dim, p="inf")) == 2


def test_the_product_and_what_the_paper_prints() -> None:
    assert residual_bound([0.5, 2.0, 1.0], form="printed") == pytest.approx(math.exp(2))
    product = (1 + 0.5 / 3) * (1 + 2 / 3) * (1 + 1 / 3)
    assert residual_bound([0.5, 2.0, 1.0]) == pytest.approx(product)
    assert residual_bound([0.5, 2.0, 1.0], others=[2.0, 1.5]) == pytest.approx(3 * product)
    assert residual_bound([0.5, 2.0], alpha=[-1.0, 0.5]) == pytest.approx(1.5 * 2)
    assert residual_bound([2.0] * 3, alpha=1.0, others=[0.0]) == 0
    assert residual_bound([0.0] * 4, others=[2.0, 2.0], form="printed") == 1


@given(st.lists(st.floats(0, 50), min_size=1, max_size=30))
def test_one_over_the_number_of_branches_keeps_the_product_below_the_exponential(
    branches: list[float],
) -> None:
    assert residual_bound(branches) <= residual_bound(branches, form="printed") * (1 + 1e-12)
    assert residual_bound(branches) <= residual_bound([max(branches)] * len(branches)) * (1 + 1e-12)


def test_three_branches_a_block_reach_the_third_power() -> None:
    kappa, blocks = 1.0, 10_000
    found = residual_bound([kappa] * (3 * blocks), alpha=1 / blocks)
    assert found == pytest.approx(math.exp(3 * kappa), rel=1e-3) and found > 5 * math.exp(kappa)


def test_a_stack_of_small_maps_obeys_the_corrected_bound_and_can_exceed_the_printed_one() -> None:
    """f constant: κ = 0, so exp(κ) = 1, but two CenterNorms of width 2 stretch by 2 each."""
    x = torch.tensor([1.0, -1.0], **F64)

    def centre(z: Tensor) -> Tensor:
        return 2 * (z - z.mean())

    jacobian = torch.func.jacrev(lambda z: centre(centre(z + 0.5 * torch.ones(2, **F64))))(x)
    found = float(torch.linalg.matrix_norm(jacobian, 2))
    assert found == pytest.approx(4) and residual_bound([0.0], form="printed") == 1
    both = [float(centre_norm_constant(2))] * 2
    assert residual_bound([0.0], others=both) == pytest.approx(4)


def test_too_large_numbers_and_refusals() -> None:
    assert residual_bound([5.8e7], form="printed") == math.inf
    assert residual_bound([1e300] * 300) == math.inf
    for call, words in (
        (lambda: residual_bound([]), "branches: none"),
        (lambda: residual_bound([1.0, math.nan]), "branches: .*at least 0"),
        (lambda: residual_bound([1.0], others=[-1.0]), "others: .*at least 0"),
        (lambda: residual_bound([1.0, 2.0], alpha=[1.0]), "alpha: 1 numbers .*2, one per branch"),
        (lambda: residual_bound([1.0], form="tight"), "allowed: printed, corrected"),
        (lambda: gelu_constant("quick"), "allowed: erf, sigmoid, tanh"),
        (lambda: centre_norm_constant(1), "dim is 1"),
        (lambda: centre_norm_constant(3, torch.ones(2)), r"\(3,\) is needed"),
        (lambda: centre_norm_constant(3, p="one"), "allowed: two, inf"),
    ):
        with pytest.raises(ValueError, match=words):
            call()
