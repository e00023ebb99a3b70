"""Bounds of LRSA: above every Jacobian tried, near to some; the printed ones are not."""

import math
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import layer_norm

from relearn.maths.layer_norm_bounds import bound_inf, bound_two, extremal_input, peak, row_sum_constant
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
@settings(max_examples=60)
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
@settings(max_examples=40)
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


def test_one_token_has_constant_probabilities() -> None:
    given = dict(alpha=1.0, q=0.5, m=2.0, length=1)
    assert (
        float(probability_bound(E1, E2, **given))
        == 0
        == float(probability_bound(E1, E2, form="corrected", **given))
    )
    assert float(output_bound(E1, E2, **given)) == 1
    assert float(global_probability_bound(E1, E2, alpha=1.0, eps=0.1, length=1)) == 0
    least = probability_bound(E1, E2, alpha=9.0, q=0.1, m=0.1, length=4)  # both roots at their minimum
    assert float(global_probability_bound(E1, E2, alpha=9.0, eps=0.1, length=4)) == pytest.approx(
        float(least)
    )


@given(st.integers(0, 100_000), st.integers(2, 9), st.floats(0.1, 10))
@settings(max_examples=60)
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


def test_wrong_arguments_are_refused() -> None:
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


# LayerNorm (ye2023, appendix A) ----------------------------------------------------------------------------------------

# LayerNorm's constants: nothing found by search is above them, and inputs are known that reach them.


def jacobian(x: Tensor, gamma: Tensor, eps: float) -> Tensor:
    return torch.func.jacrev(lambda z: layer_norm(z, z.shape, gamma, eps=eps))(x)


def row_sum(matrix: Tensor) -> float:
    return float(matrix.abs().sum(-1).max())


def normal(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@given(st.integers(0, 10_000), st.integers(1, 40), st.floats(-3, 3), st.floats(-4, 1))
@settings(max_examples=60)
def test_no_jacobian_exceeds_any_form(seed: int, n: int, spread: float, eps: float) -> None:
    gamma, eps = normal(seed, n), 10**eps
    found = jacobian(10**spread * normal(seed + 1, n) ** 3, gamma, eps)
    order = [
        row_sum(found),
        *(float(bound_inf(gamma, eps, form=f)) for f in ("exact", "corrected", "printed")),
    ]
    assert all(one <= other * (1 + 1e-9) for one, other in pairwise(order))
    order = [
        float(torch.linalg.matrix_norm(found, ord=2)),
        float(bound_two(gamma, eps)),
        float(bound_two(gamma, eps, form="largest")),
    ]
    assert all(one <= other * (1 + 1e-9) + 1e-12 for one, other in pairwise(order))


@pytest.mark.parametrize("n", [2, 3, 4, 9, 16, 17, 50, 200])
@pytest.mark.parametrize("eps", [1e-5, 1.0])
def test_the_constant_for_p_infinity_is_reached(n: int, eps: float) -> None:
    ones = torch.ones(n, dtype=torch.float64)
    x = extremal_input(n, eps)
    found = jacobian(x, ones, eps)[0].abs().sum()
    assert float(found) == pytest.approx(float(bound_inf(ones, eps)), rel=1e-9)
    for factor in (0.9, 1.1):  # the place along the ray is a maximum, where it is not the origin
        other = float(jacobian(factor * x, ones, eps)[0].abs().sum())
        assert other < float(found) or (not x.any() and other == pytest.approx(float(found)))


def test_ascent_does_not_pass_the_constant_and_comes_near() -> None:
    """Plain ascent on the row sum of the first number, which starts far out, as the origin is a local maximum.

    N = 96: from 58 on the constant is not that of the origin.
    """
    n = 96
    eye, x = torch.eye(n, dtype=torch.float64), normal(3, 10, n)
    x[:, 0] = 6.0
    x.requires_grad_()
    climb = torch.optim.Adam([x], lr=0.02)
    best = 0.0
    for _ in range(400):
        z = x - x.mean(-1, keepdim=True)
        v = z.square().mean(-1, keepdim=True) + 1.0
        row = (eye[0] - 1 / n - z[:, :1] * z / (n * v)) / v.sqrt()
        sums = row.abs().sum(-1)
        best = max(best, float(sums.detach().max()))
        climb.zero_grad()
        (-sums.sum()).backward()
        climb.step()
    assert row_sum_constant(n) > 2 * (n - 1) / n
    assert 0.999 * row_sum_constant(n) < best <= row_sum_constant(n) * (1 + 1e-12)


@pytest.mark.parametrize("n", [2, 5, 16])
def test_the_constant_for_p_2_is_reached_at_constant_inputs(n: int) -> None:
    gamma = normal(n, n)
    found = jacobian(torch.full((n,), 3.0, dtype=torch.float64), gamma, 0.01)
    assert float(torch.linalg.matrix_norm(found, ord=2)) == pytest.approx(
        float(bound_two(gamma, 0.01)), rel=1e-9
    )


def test_when_the_largest_scale_is_the_constant() -> None:
    """Two entries of the largest modulus suffice, of whatever sign; one does not."""
    for gamma, equal in (([1.0, 1, 0, 0], True), ([1.0, -1, 0.2, 0], True), ([1.0, 0, 0, 0], False)):
        one = torch.tensor(gamma, dtype=torch.float64)
        exact, largest = float(bound_two(one, 1.0)), float(bound_two(one, 1.0, form="largest"))
        assert (exact == pytest.approx(largest, rel=1e-12)) == equal
    assert exact == pytest.approx(math.sqrt(3 / 4))  # diag(e_1)(I - 11ᵀ/4) has the row e_1 - 1/4
    sixteen = torch.eye(16, dtype=torch.float64)[0]
    assert float(bound_two(sixteen, 1.0)) == pytest.approx(0.968246, abs=1e-6)


@pytest.mark.parametrize(
    ("n", "constant", "corrected"),
    [
        (1, 0, 0),
        (2, 1, 1),
        (3, 4 / 3, 4 / 3),
        (16, 1.875, 1.948557),
        (64, 2.031559, 2.631154),
        (768, 5.741024, 6.336176),
    ],
)
def test_the_constants_for_p_infinity_are_known(n: int, constant: float, corrected: float) -> None:
    ones = torch.ones(n, dtype=torch.float64)
    assert float(bound_inf(ones, 1.0)) == pytest.approx(constant, abs=1e-6)
    assert float(bound_inf(ones, 1.0, form="corrected")) == pytest.approx(corrected, abs=1e-6)
    assert float(bound_inf(3 * ones, 0.25, form="printed")) == pytest.approx(6 * n)
    assert float(bound_inf(-3 * ones, 0.25)) == pytest.approx(6 * constant, abs=1e-5)


def test_constant_inputs_are_the_worst_up_to_57_numbers() -> None:
    assert all(row_sum_constant(n) == pytest.approx(2 * (n - 1) / n, rel=1e-12) for n in range(2, 58))
    assert row_sum_constant(58) > 2 * 57 / 58 + 5e-4


def test_the_constant_grows_like_the_root_of_n_over_27() -> None:
    assert row_sum_constant(10**5) / math.sqrt(10**5 / 27) == pytest.approx(1, rel=0.02)


@given(st.floats(0, 3), st.floats(0, 3))
@settings(max_examples=40)
def test_the_peak_is_the_largest_on_a_grid(a: float, b: float) -> None:
    t = torch.linspace(0, 1, 20_001, dtype=torch.float64)
    value, place = peak(a, b)
    assert value == pytest.approx(float(((1 - t).sqrt() * (a + t * b)).max()), abs=1e-6)
    assert value == pytest.approx(math.sqrt(1 - place) * (a + place * b), abs=1e-12)


def test_batches_gradients_and_types() -> None:
    gamma = normal(0, 3, 5).requires_grad_()
    both = bound_inf(gamma, 0.1).sum() + bound_two(gamma, 0.1).sum()
    assert bound_two(gamma, 0.1).shape == (3,)
    assert torch.isfinite(torch.autograd.grad(both, gamma)[0]).all()
    torch.testing.assert_close(bound_two(gamma, 0.1)[1], bound_two(gamma[1], 0.1))
    assert bound_inf(gamma.detach().bfloat16(), 0.1).dtype == torch.bfloat16
    assert bound_two(gamma.detach().bfloat16(), 0.1).dtype == torch.bfloat16


@pytest.mark.parametrize("bound", [bound_inf, bound_two])
def test_refusals_layer_norm(bound) -> None:
    ones = torch.ones(4)
    with pytest.raises(ValueError, match="eps: 0"):
        bound(ones, 0)
    with pytest.raises(ValueError, match="form: 'tight'"):
        bound(ones, 1.0, form="tight")
    with pytest.raises(ValueError, match="gamma: shape"):
        bound(torch.ones(2, 0), 1.0)
