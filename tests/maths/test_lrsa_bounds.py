"""Bounds of LRSA: above every Jacobian tried, near to some; the printed ones are not."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from relearn.maths.lrsa_bounds import (
    global_probability_bound,
    log_share_bound,
    output_bound,
    probability_bound,
    score_bound,
)

E1, E2 = torch.eye(2, dtype=torch.float64)[:, :1], torch.eye(2, dtype=torch.float64)[:, 1:]


def roots(x: Tensor, wq: Tensor, eps: float = 0.0) -> tuple[Tensor, Tensor]:
    return ((x @ wq).square().sum() + eps**2).sqrt(), (x.square().sum(-1).max() + eps**2).sqrt()


def scores(x: Tensor, wq: Tensor, wk: Tensor, alpha: float, eps: float = 0.0) -> Tensor:
    """Equation 3."""
    q, m = roots(x, wq, eps)
    return -alpha * ((x @ wq)[:, None] - (x @ wk)[None]).square().sum(-1) / (q * m)


def largest(f, x: Tensor) -> float:
    """Largest 2-norm of a derivative of an entry of f by a row of x."""
    return float(torch.func.jacrev(f)(x).norm(dim=-1).max())


def case(seed: int, n: int, dim: int, width: int) -> tuple[Tensor, Tensor, Tensor, float]:
    """Inputs, maps and α over many orders of magnitude."""
    draw = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=draw, dtype=torch.float64)

    x = normal(n, dim) * 10 ** normal(n, dim)
    return (
        x,
        normal(dim, width) * 10 ** normal(1),
        normal(dim, width) * 10 ** normal(1),
        float(10 ** normal(1)),
    )


shapes = st.tuples(st.integers(1, 5), st.integers(1, 3), st.integers(1, 2))


@given(st.integers(0, 100_000), shapes)
@settings(max_examples=60, deadline=None)
def test_no_jacobian_exceeds_a_corrected_form(seed: int, shape: tuple[int, int, int]) -> None:
    x, wq, wk, alpha = case(seed, *shape)
    n = shape[0]
    q, m = roots(x, wq)
    given = dict(alpha=alpha, q=q, m=m)
    near = 1 + 1e-9
    found = largest(lambda z: scores(z, wq, wk, alpha), x)
    assert found <= float(score_bound(wq, wk, **given)) * near
    found = largest(lambda z: scores(z, wq, wk, alpha).softmax(-1), x)
    tight, corrected = (
        float(probability_bound(wq, wk, length=n, form=f, **given)) for f in ("tight", "corrected")
    )
    assert found <= tight * near and tight <= corrected * near
    whole = torch.func.jacrev(lambda z: scores(z, wq, wk, alpha).softmax(-1) @ z)(x).reshape(x.numel(), -1)
    norm = float(torch.linalg.matrix_norm(whole, ord=2))
    assert norm <= float(output_bound(wq, wk, length=n, **given)) * near


@given(st.integers(0, 100_000), st.integers(1, 4), st.floats(-3, 1), st.floats(-3, 2))
@settings(max_examples=40, deadline=None)
def test_with_eps_in_both_roots(seed: int, n: int, eps: float, t: float) -> None:
    """The same forms at the smoothed roots, and one bound for every X."""
    x, wq, wk, alpha = case(seed, n, 3, 2)
    x, eps = 10**t * x, 10**eps
    q, m = roots(x, wq, eps)
    found = largest(lambda z: scores(z, wq, wk, alpha, eps).softmax(-1), x)
    tight = float(probability_bound(wq, wk, alpha=alpha, q=q, m=m, length=n))
    everywhere = float(global_probability_bound(wq, wk, alpha=alpha, eps=eps, length=n))
    assert found <= tight * (1 + 1e-9) and tight <= everywhere * (1 + 1e-9)
    found = largest(lambda z: scores(z, wq, wk, alpha, eps), x)
    assert found <= float(score_bound(wq, wk, alpha=alpha, q=q, m=m)) * (1 + 1e-9)


@pytest.mark.parametrize("t", [1e-2, 1e-3, 1e-5])
def test_the_tight_form_is_near_where_the_printed_one_fails(t: float) -> None:
    """Rows (t, 0), (0, 1) and α = t: the derivative is of order 1/t, the printed bound 24 for every t."""
    x = torch.tensor([[t, 0], [0, 1]], dtype=torch.float64)
    given = dict(alpha=t, q=t, m=1.0, length=2)
    found = largest(lambda z: scores(z, E1, E2, t).softmax(-1), x)
    assert float(probability_bound(E1, E2, form="printed", **given)) == pytest.approx(24)
    assert 0.19 / t < found <= float(probability_bound(E1, E2, **given)) < 1.25 * found + 10


def test_the_score_bound_has_the_right_order_in_q() -> None:
    """Rows (t, 0), (0, 1), α = 1: exactly 1/t², the bound 4/t² + 12/t."""
    for t in (1e-2, 1e-4):
        x = torch.tensor([[t, 0], [0, 1]], dtype=torch.float64)
        assert largest(lambda z: scores(z, E1, E2, 1.0), x) == pytest.approx(1 / t**2, rel=1e-3)
        bound = float(score_bound(E1, E2, alpha=1.0, q=t, m=1.0))
        assert bound == pytest.approx(4 / t**2 + 12 / t)
        assert float(score_bound(E1, E2, alpha=1.0, q=t, m=1.0, form="printed")) == pytest.approx(12 / t)


@pytest.mark.parametrize(
    ("rows", "alpha"),
    [
        (
            [[0, 1], [0, -1], [1e-3, 1]],
            100.0,
        ),  # by the queries and keys: token 0 attends uniformly to keys 1, -1, 1
        ([[1e-3, 0], [0, 1]], 1e-3),  # by the denominator q
    ],
)
def test_no_large_term_of_the_output_bound_can_be_left_out(rows: list[list[float]], alpha: float) -> None:
    x = torch.tensor(rows, dtype=torch.float64)
    q, m = roots(x, E1)
    whole = torch.func.jacrev(lambda z: scores(z, E1, E2, alpha).softmax(-1) @ z)(x).reshape(x.numel(), -1)
    found = float(torch.linalg.matrix_norm(whole, ord=2))
    assert found <= float(output_bound(E1, E2, alpha=alpha, q=q, m=m, length=len(x))) <= 5 * found


def test_one_token() -> None:
    given = dict(alpha=1.0, q=0.5, m=2.0, length=1)
    assert (
        float(probability_bound(E1, E2, **given))
        == 0
        == float(probability_bound(E1, E2, form="corrected", **given))
    )
    assert float(output_bound(E1, E2, **given)) == 1
    assert float(global_probability_bound(E1, E2, alpha=1.0, eps=0.1, length=1)) == 0


@given(st.integers(0, 100_000), st.integers(2, 9), st.floats(0.1, 10))
@settings(max_examples=60, deadline=None)
def test_no_distribution_passes_kappa(seed: int, n: int, size: float) -> None:
    draw = torch.Generator().manual_seed(seed)
    p = (size * torch.randn(n, generator=draw, dtype=torch.float64)).softmax(-1)
    gap = p * (p.log() - (p * p.log()).sum())
    assert float(gap.abs().max()) <= log_share_bound(n)
    assert float(gap.abs().sum()) <= 2 * log_share_bound(n)


@pytest.mark.parametrize("n", [2, 3, 10, 1000])
def test_kappa_is_reached_by_one_against_equal_others(n: int) -> None:
    p = torch.linspace(1e-6, 1 - 1e-6, 200_001, dtype=torch.float64)
    rest = (1 - p) / (n - 1)
    entropy = -(p * p.log() + (1 - p) * rest.log())
    assert log_share_bound(n) == pytest.approx(float((p * (p.log() + entropy)).max()), rel=1e-8)
    assert log_share_bound(n) < (1 + math.log(n)) / 4
    assert log_share_bound(1) == 0 < 0.2238 < log_share_bound(2) < 0.22391


def test_the_last_form_exceeds_none_of_the_printed_ones() -> None:
    """‖X W_Q‖_F <= ‖X‖_F ‖W_Q‖_F: the step to "last" makes the printed bound smaller, never larger."""
    for seed in range(50):
        x, wq, wk, alpha = case(seed, 4, 3, 2)
        given = dict(alpha=alpha, q=roots(x, wq)[0], m=1.0, length=4)
        last = probability_bound(wq, wk, form="last", size=x.norm(), **given)
        printed = probability_bound(wq, wk, form="printed", **given)
        assert float(last) <= float(printed) * (1 + 1e-12)
        factor = float(printed / last)
        assert factor == pytest.approx(float(x.norm() * wq.norm() / (x @ wq).norm()), rel=1e-9)


def test_heads_batches_and_gradients() -> None:
    wq, wk = torch.randn(2, 5, 3, 4, dtype=torch.float64, requires_grad=True).unbind(0)
    q, m = torch.rand(7, 5, dtype=torch.float64) + 1, torch.rand(7, 1, dtype=torch.float64) + 1
    for bound in (score_bound, probability_bound, output_bound):
        more = {} if bound is score_bound else {"length": 6}
        found = bound(wq, wk, alpha=2.0, q=q, m=m, **more)
        assert found.shape == (7, 5)
        alone = bound(wq[3], wk[3], alpha=2.0, q=q[2, 3], m=m[2, 0], **more)
        torch.testing.assert_close(found[2, 3], alone)
        assert torch.isfinite(torch.autograd.grad(found.sum(), wq, retain_graph=True)[0]).all()


def test_refusals() -> None:
    given = dict(alpha=1.0, q=1.0, m=1.0)
    with pytest.raises(ValueError, match="form: 'last'"):
        score_bound(E1, E2, form="last", **given)
    with pytest.raises(ValueError, match="size: None"):
        probability_bound(E1, E2, length=2, form="last", **given)
    with pytest.raises(ValueError, match="wq, wk: shapes"):
        score_bound(E1, E2.T, **given)
    with pytest.raises(ValueError, match="alpha: 0"):
        score_bound(E1, E2, alpha=0, q=1.0, m=1.0)
    with pytest.raises(ValueError, match="length is 0"):
        output_bound(E1, E2, length=0, **given)
    with pytest.raises(ValueError, match="eps: 0"):
        global_probability_bound(E1, E2, alpha=1.0, eps=0, length=2)
