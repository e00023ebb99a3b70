"""Inversion of linear maps with known inverse and rate, of functions and modules of any shape; what does not invert; erratum K1."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from relearn.maths.l2_bounds import bound_two
from relearn.measures.inversion import invert


def matrix(n: int, seed: int, lipschitz: float, norm: str) -> torch.Tensor:
    """A random (n, n) matrix with exactly this operator norm."""
    w = torch.randn(n, n, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    size = {"inf": w.abs().sum(1).max(), "one": w.abs().sum(0).max(), "two": torch.linalg.matrix_norm(w, 2)}
    return w * (lipschitz / size[norm])


@given(
    st.integers(1, 6),
    st.integers(0, 1000),
    st.floats(0.05, 1.2),
    st.floats(0.1, 0.95),
    st.sampled_from(["inf", "two", "one"]),
)
@settings(max_examples=40)
def test_a_linear_map_obeys_its_rate_in_its_norm(n, seed, lipschitz, rate, norm):
    w, c = matrix(n, seed, lipschitz, norm), rate / lipschitz
    x = torch.randn(3, n, generator=torch.Generator().manual_seed(seed + 1), dtype=torch.float64)
    y = x + c * x @ w.T
    found = invert(lambda z: z @ w.T, y, c=c, iterations=25, lipschitz=lipschitz, truth=x, norm=norm)
    assert found.rate == pytest.approx(rate) and found.iterations <= 25
    powers = rate ** torch.arange(len(found.errors), dtype=torch.float64)[:, None]
    slack = 1e-13 * float(y.abs().max() + 1)
    assert (found.errors <= powers * found.errors[0] * (1 + 1e-9) + slack).all()
    assert (found.errors <= found.error_bounds * (1 + 1e-9) + slack / (1 - rate)).all()
    assert torch.allclose(
        found.x, torch.linalg.solve(torch.eye(n) + c * w, y.T).T, atol=2 * rate**25 * 60 + 1e-9
    )


def test_a_multiple_of_the_identity_attains_the_rate():
    x = torch.tensor([[1.0, -2.0]], dtype=torch.float64)
    found = invert(lambda z: 0.7 * z, 1.7 * x, iterations=20, lipschitz=0.7, truth=x)
    ratios = found.errors[1:] / found.errors[:-1]
    torch.testing.assert_close(ratios, torch.full_like(ratios, 0.7), rtol=1e-9, atol=0)
    torch.testing.assert_close(found.error_bounds / found.errors, torch.full_like(found.errors, 1.7 / 0.3))


def test_an_expansive_map_runs_away_and_a_guarantee_for_it_is_refused():
    """x -> -2x: g(x) = -x has an inverse, but the iteration does not find it: errors 2^k."""
    y = torch.tensor([[1.0]], dtype=torch.float64)
    found = invert(lambda z: -2 * z, y, iterations=10, truth=-y)
    assert found.errors[:, 0].tolist() == [2.0 * 2**k for k in range(11)]
    assert not found.converged.any() and found.error_bounds is None
    with pytest.raises(ValueError, match=r"c times the Lipschitz constant: 2 \(allowed"):
        invert(lambda z: -2 * z, y, lipschitz=2.0)
    half = invert(lambda z: -2 * z, y, c=0.45, lipschitz=2.0, iterations=300, tolerance=1e-12)
    assert half.converged.all() and float(half.x) == pytest.approx(10)
    with pytest.raises(ValueError, match="constant: 1 "):
        invert(lambda z: -2 * z, y, c=-0.5, lipschitz=2.0)


def test_a_small_residual_without_a_rate_is_no_proof():
    """g(x) = x - 2 tanh(2x) folds the line: the iteration settles on a preimage that is not the one sought."""

    def f(x: torch.Tensor) -> torch.Tensor:
        return -2 * torch.tanh(2 * x)

    x = torch.tensor([[0.9]], dtype=torch.float64)  # on the rising branch
    low = torch.tensor([[-0.02]], dtype=torch.float64)
    y = low + f(low)
    found = invert(f, y, iterations=500, tolerance=1e-12, truth=low)
    assert found.converged.all() and float(found.errors[-1]) > 0.5
    torch.testing.assert_close(found.x + f(found.x), y, atol=1e-11, rtol=0)
    assert invert(f, x + f(x), start=x, iterations=5).residuals[0].max() < 1e-15


@pytest.mark.parametrize("shape", [(5,), (1, 4), (2, 3, 4), (2, 3, 5, 5)])
def test_any_shape_and_any_callable(shape):
    """Functions, modules, convolutions; a vector of scalars is a batch of samples."""
    torch.manual_seed(0)
    x = torch.randn(shape, dtype=torch.float64)
    branch = nn.Conv2d(3, 3, 3, padding=1).double() if len(shape) == 4 else nn.Tanh()
    c = 0.05 if len(shape) == 4 else 0.6
    with torch.no_grad():
        y = x + c * branch(x)
    found = invert(branch, y, c=c, iterations=200, tolerance=1e-13, truth=x)
    assert found.x.shape == shape and found.residuals.shape == (found.iterations + 1, shape[0])
    assert found.converged.all() and float(found.errors[-1].max()) < 1e-11
    assert not found.x.requires_grad
    whole = invert(branch, y, c=c, iterations=200, tolerance=1e-13, truth=x, batched=False)
    assert whole.residuals.shape == (whole.iterations + 1,)
    assert torch.equal(whole.residuals[0], found.residuals[0].max())


def test_one_scalar_and_one_token():
    y = torch.tensor(3.0, dtype=torch.float64)
    assert float(invert(lambda x: x / 2, y, batched=False, iterations=80).x) == pytest.approx(2)


def test_histories_stop_with_the_slowest_sample():
    rates = torch.tensor([[0.1], [0.8]], dtype=torch.float64)
    found = invert(
        lambda x: rates * x, torch.ones(2, 1, dtype=torch.float64), iterations=1000, tolerance=1e-8
    )
    assert found.iterations == int(found.updates.max()) == int(found.updates[1]) < 1000
    assert found.updates[0] < 10 and found.converged.all()
    after = found.residuals[int(found.updates[0]) :, 0]
    assert (after == after[0]).all() and float(after[0]) <= 1e-8


def test_the_printed_two_norm_value_is_no_lipschitz_constant():
    """Erratum K1 in numbers: one token, W^Q = 2: F(x) = 4x, printed 2, corrected 4."""
    wq, one = torch.full((1, 1, 1), 2.0, dtype=torch.float64), torch.ones(1, 1, 1, dtype=torch.float64)
    printed, corrected = (
        float(bound_two(wq, one, one[0], 1, form=form)) for form in ("printed", "corrected")
    )
    assert (printed, corrected) == (2, 4)
    y = torch.tensor([[1.0]], dtype=torch.float64)

    def attention(x: torch.Tensor) -> torch.Tensor:
        return 4 * x  # softmax over one token is 1: X W^Q W^QT W^V W^O

    seen = [float(invert(lambda x: attention(x) / printed, y, iterations=k).x) for k in range(6)]
    assert seen == [1, -1, 3, -5, 11, -21]
    with pytest.raises(ValueError, match="constant: 1 "):  # normalised with the true constant: the very edge
        invert(lambda x: attention(x) / corrected, y, lipschitz=1.0)
    found = invert(
        lambda x: attention(x) / corrected, y, c=0.9, lipschitz=1.0, iterations=400, tolerance=1e-12
    )
    assert float(found.x) == pytest.approx(1 / 1.9)


def test_wrong_arguments_are_refused():
    y = torch.ones(2, 2)
    with pytest.raises(ValueError, match="y: holds NaN"):
        invert(torch.tanh, y * math.nan)
    with pytest.raises(ValueError, match="constant: nan"):
        invert(torch.tanh, y, lipschitz=math.nan)
    with pytest.raises(ValueError, match="truth: shape"):
        invert(torch.tanh, y, truth=y[0])
