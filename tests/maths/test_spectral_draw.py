"""Weights divided by their largest singular value, found without a decomposition."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from relearn.maths.spectral_draw import largest_singular_value, spectral_normal_


def exact(matrix: Tensor) -> float:
    return float(torch.linalg.svdvals(matrix.double())[0])


@given(
    st.integers(0, 1000),
    st.integers(1, 90),
    st.integers(1, 90),
    st.sampled_from([torch.float32, torch.float64]),
)
@settings(max_examples=40)
def test_of_random_matrices(seed: int, rows: int, columns: int, dtype: torch.dtype) -> None:
    matrix = torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed), dtype=dtype)
    assert largest_singular_value(matrix) == pytest.approx(exact(matrix), rel=2e-5)


def test_of_a_large_random_matrix() -> None:
    matrix = torch.randn(1536, 384, generator=torch.Generator().manual_seed(0))
    assert largest_singular_value(matrix) == pytest.approx(exact(matrix), rel=1e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_where_the_search_ends_early(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(0)
    a, b = (torch.randn(n, generator=generator, dtype=dtype) for n in (50, 60))
    assert largest_singular_value(torch.zeros(50, 60, dtype=dtype)) == 0
    assert largest_singular_value(2 * torch.eye(50, dtype=dtype)) == pytest.approx(2, rel=1e-6)
    rank_one = torch.outer(a, b)
    assert largest_singular_value(rank_one) == pytest.approx(float(a.norm() * b.norm()), rel=1e-5)
    both = rank_one / (a.norm() * b.norm()) + 0.5 * torch.eye(50, 60, dtype=dtype)
    assert largest_singular_value(both) == pytest.approx(exact(both), rel=1e-4)
    spread = torch.diag(
        torch.linspace(0, 1, 200, dtype=dtype)
    )  # neighbours 0.5 % apart: the tail of the search
    assert largest_singular_value(spread) == pytest.approx(1, rel=1e-3)


@pytest.mark.parametrize("shape", [(7, 5), (64, 40), (6, 4, 2, 2), (64, 1, 7, 7), (8, 3, 5)])
def test_a_drawn_weight_is_normal_and_has_norm_one(shape: tuple[int, ...]) -> None:
    weight = spectral_normal_(torch.empty(shape), torch.Generator().manual_seed(3))
    assert exact(weight.flatten(1)) == pytest.approx(1, rel=1e-4)
    plain = torch.empty(shape).normal_(generator=torch.Generator().manual_seed(3))
    torch.testing.assert_close(weight / weight.norm(), plain / plain.norm())


def test_precisions_meta_and_refusals() -> None:
    first = spectral_normal_(torch.empty(40, 50), torch.Generator().manual_seed(0))
    for dtype in (torch.float16, torch.bfloat16):
        half = spectral_normal_(torch.empty(40, 50, dtype=dtype), torch.Generator().manual_seed(0))
        torch.testing.assert_close(half, first.to(dtype))
    parameter = torch.nn.Parameter(torch.empty(3, 4))
    assert spectral_normal_(parameter) is parameter and parameter.requires_grad
    state = torch.get_rng_state()
    assert spectral_normal_(torch.empty(3, 4, device="meta")).is_meta
    largest_singular_value(first)
    assert torch.equal(torch.get_rng_state(), state)
    with pytest.raises(ValueError, match=r"shape \(3,\)"):
        spectral_normal_(torch.empty(3))
    with pytest.raises(ValueError, match=r"shape \(3, 0\)"):
        largest_singular_value(torch.empty(3, 0))


@pytest.mark.parametrize("seed", [92, 127])
def test_the_second_singular_value_is_not_taken_for_the_first(seed: int) -> None:
    """A loose residual is met by the second one of these two draws, 1.3% and 2.3% below the first."""
    matrix = torch.randn(192, 96, generator=torch.Generator().manual_seed(seed))
    assert largest_singular_value(matrix) == pytest.approx(exact(matrix), rel=1e-5)
    assert largest_singular_value(matrix, tolerance=3e-3) < 0.99 * exact(matrix)


@pytest.mark.parametrize("size", [3, 40])
def test_what_has_no_singular_values_here_is_refused(size):
    with pytest.raises(ValueError, match=r"matrix has dtype torch.bfloat16: float32 or float64"):
        largest_singular_value(torch.ones(size, size, dtype=torch.bfloat16))
    for bad in (torch.nan, torch.inf):
        with pytest.raises(ValueError, match="matrix holds NaN or infinity"):
            largest_singular_value(torch.eye(size).fill_diagonal_(bad))
        for row, column in ((0, 0), (size, 1)):
            one = torch.ones(size + 1, size)
            one[row, column] = bad
            with pytest.raises(ValueError, match="matrix holds NaN or infinity"):
                largest_singular_value(one)


@pytest.mark.parametrize("scale", [1e-25, 1e-12, 1e12, 1e25])
def test_of_a_matrix_whose_square_is_out_of_range(scale: float) -> None:
    matrix = torch.randn(60, 50, generator=torch.Generator().manual_seed(0))
    assert largest_singular_value(scale * matrix) == pytest.approx(scale * exact(matrix), rel=1e-4)
