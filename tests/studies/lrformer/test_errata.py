"""ye2023: formulas that do not hold as printed, each with its counter-example and its corrected form.

Slow float64 code that uses nothing of ours: formulas by their definition, Jacobians by automatic differentiation.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

seeds = st.integers(0, 10_000)
E1, E2 = torch.eye(2, dtype=torch.float64)[:, :1], torch.eye(2, dtype=torch.float64)[:, 1:]


def normal(seed: int, *shape: int) -> Tensor:
    return torch.from_numpy(np.random.default_rng(seed).normal(size=shape))


def rows(*rows: tuple[float, float]) -> Tensor:
    return torch.tensor(rows, dtype=torch.float64)


def spectral(matrix: Tensor) -> float:
    return float(torch.linalg.matrix_norm(matrix, ord=2))


def layer_norm(x: Tensor, gamma: Tensor, eps: float) -> Tensor:
    return gamma * (x - x.mean()) / (x.var(correction=0) + eps).sqrt()


def peak(a: float, b: float) -> float:
    """Largest √(1 - t) (a + t b) on [0, 1]."""
    return a if 2 * b <= a else 2 / 3 * (a + b) ** 1.5 / math.sqrt(3 * b)


def scores(
    x: Tensor, wq: Tensor, wk: Tensor, alpha: float, *, detached: bool = False, eps: float = 0.0
) -> Tensor:
    """Equation 3; `detached` takes ‖Q‖_F as a constant."""
    q = ((x @ wq).square().sum() + eps**2).sqrt()
    m = (x.square().sum(1).max() + eps**2).sqrt()
    return (
        -alpha * ((x @ wq)[:, None] - (x @ wk)[None]).square().sum(-1) / ((q.detach() if detached else q) * m)
    )


def probabilities(x: Tensor, wq: Tensor, wk: Tensor, alpha: float, **given) -> Tensor:
    return scores(x, wq, wk, alpha, **given).softmax(-1)


def largest(f, x: Tensor, p: float = 2) -> float:
    """Largest p-norm of the derivative of an entry of f by a row of x."""
    return float(torch.linalg.vector_norm(torch.func.jacrev(f)(x), ord=p, dim=-1).max())


def scale(wq: Tensor, wk: Tensor, alpha: float) -> float:
    """α (‖W_Q‖_2 + ‖W_K‖_2)²."""
    return alpha * (spectral(wq) + spectral(wk)) ** 2


def wild(seed: int, n: int) -> tuple[Tensor, Tensor, Tensor, float]:
    """Inputs (n, 3), maps (3, 2) and α over many orders of magnitude."""
    sizes = 10 ** normal(seed + 4, 3)
    x = normal(seed, n, 3) * 10 ** normal(seed + 1, n, 3)
    return x, sizes[0] * normal(seed + 2, 3, 2), sizes[1] * normal(seed + 3, 3, 2), float(sizes[2])


# Y1: LayerNorm


def test_y1_the_rank_one_term_exceeds_its_printed_bound_at_three_numbers() -> None:
    z = torch.tensor([2.0, -1.0, -1.0], dtype=torch.float64)
    term = torch.outer(z, z) / z.square().sum()  # the limit eps → 0 of (1/N)(σ² + eps)⁻¹ z zᵀ
    assert float(term.abs().sum(1).max()) == pytest.approx(4 / 3) and 3 - 2 == 1
    eps = 1e-12
    jacobian = torch.func.jacrev(lambda x: layer_norm(x, torch.ones_like(x), eps))(z)
    left = (torch.eye(3, dtype=torch.float64) - 1 / 3) - jacobian * (z.var(correction=0) + eps).sqrt()
    torch.testing.assert_close(left, term, rtol=1e-9, atol=1e-9)


@given(seeds, st.integers(2, 30), st.floats(-2, 2))
@settings(max_examples=40, deadline=None)
def test_y1_the_corrected_term_the_final_bound_and_the_constants(seed: int, n: int, spread: float) -> None:
    gamma, x, near = normal(seed, n), 10**spread * normal(seed + 1, n) ** 3, 1 + 1e-9
    z = x - x.mean()
    term = float(z.abs().max() * z.abs().sum() / z.square().sum())
    assert term <= (1 + math.sqrt(n)) / 2 * near
    assert n < 4 or (1 + math.sqrt(n)) / 2 <= n - 2
    jacobian = torch.func.jacrev(lambda one: layer_norm(one, gamma, 0.01))(x)
    largest_gamma = float(gamma.abs().max()) / 0.1
    found = float(jacobian.abs().sum(1).max())
    smooth = peak(2 * (n - 1) / n, (math.sqrt(n) - 1) / 2)
    exact = max(
        peak(2 * r, math.sqrt((1 - 1 / n) * s * r) - r) for s, r in ((s, 1 - s / n) for s in range(1, n + 1))
    )
    assert found <= exact * largest_gamma * near and exact <= smooth * near and smooth <= n
    two = spectral(torch.diag(gamma) - gamma[:, None] / n) / 0.1
    assert spectral(jacobian) <= two * near and two <= largest_gamma * near


@pytest.mark.parametrize("n", [4, 9, 16, 25])
def test_y1_the_corrected_term_is_reached_at_perfect_squares(n: int) -> None:
    """(N - √N)/2 numbers of one value and the others of another, such that the sum is 0."""
    s = (n - math.isqrt(n)) // 2
    z = torch.tensor([1.0 / s] * s + [-1.0 / (n - s)] * (n - s), dtype=torch.float64)
    best = float(z[0].abs() * z.abs().sum() / z.square().sum())
    assert s >= 1 and float(z.sum()) == pytest.approx(0, abs=1e-12)
    # the first number weighs more than the other s - 1: the top vector of e fᵀ + f eᵀ, e and f of sum 0
    e, f = torch.eye(n, dtype=torch.float64)[0] - 1 / n, torch.sign(z) - torch.sign(z).mean()
    w = e / e.norm() + f / f.norm()
    assert float(w[0].abs() * w.abs().sum() / w.square().sum()) == pytest.approx((1 + math.sqrt(n)) / 2)
    assert best <= (1 + math.sqrt(n)) / 2 + 1e-12


# Y2: the last line of appendix B


def test_y2_a_derivative_exceeds_the_last_expression() -> None:
    x = rows((0.01, 1), (0.01, -1), (0, 2))
    found = torch.func.jacrev(lambda one: probabilities(one, E1, E2, 1.0))(x).abs().max()
    last = 6 * scale(E1, E2, 1.0) / float(x.norm() * E1.norm())
    assert last == pytest.approx(9.7978, abs=1e-4) and float(found) == pytest.approx(35.3553, abs=1e-4)
    assert float(found) <= 6 * scale(E1, E2, 1.0) / float((x @ E1).norm())  # the bound before it


@given(seeds, st.integers(1, 5))
@settings(max_examples=30, deadline=None)
def test_y2_the_product_is_never_larger_than_the_norms(seed: int, n: int) -> None:
    x, wq, _, _ = wild(seed, n)
    product = float((x @ wq).norm())
    assert product <= float(x.norm()) * spectral(wq) * (1 + 1e-12)
    assert product <= float(x.norm() * wq.norm()) * (1 + 1e-12)
    parallel = normal(seed, n, 1) @ normal(
        seed + 1, 1, 3
    )  # equality: rows along the one direction that W_Q sees
    assert float((parallel @ parallel[:1].T).norm()) == pytest.approx(
        float(parallel.norm() * parallel[0].norm())
    )


# Y3: the bounds before it


def test_y3_derivatives_exceed_the_middle_bound_and_that_of_the_scores() -> None:
    for size, alpha in ((1.0, 0.001), (0.001, 1.0)):  # the same P: α and the maps matter as α W
        x, wq, wk = rows((0.001, 0), (0, 1)), size * E1, size * E2
        printed = 6 * scale(wq, wk, alpha) / float((x @ wq).norm())
        assert printed == pytest.approx(24)
        assert largest(lambda one: probabilities(one, wq, wk, alpha), x) == pytest.approx(196.79, abs=0.01)  # noqa: B023
    x = rows((0.01, 0), (0, 1))
    assert 3 * scale(E1, E2, 1.0) / 0.01 == pytest.approx(1200)
    assert largest(lambda one: scores(one, E1, E2, 1.0), x) == pytest.approx(10000, rel=1e-6)


@given(seeds, st.integers(1, 5))
@settings(max_examples=40, deadline=None)
def test_y3_with_the_omitted_term_the_bounds_hold(seed: int, n: int) -> None:
    x, wq, wk, alpha = wild(seed, n)
    a, c, near = spectral(wq), scale(wq, wk, alpha), 1 + 1e-9
    q, m = float((x @ wq).norm()), float(x.norm(dim=1).max())
    assert largest(lambda one: scores(one, wq, wk, alpha), x) <= c / q * (3 + a * m / q) * near
    found = largest(lambda one: probabilities(one, wq, wk, alpha), x)
    assert found <= c / (2 * q) * (3 + a * m / q) * near
    p = np.linspace(1e-9, 1 - 1e-9, 100_001)
    kappa = (p * (1 - p) * np.log((n - 1) * p / (1 - p))).max() * (1 + 1e-6) if n > 1 else 0.0
    assert found <= (c / q + kappa * (a / q + 1 / m)) * near
    # printed: right where ‖Q‖_F is taken as a constant
    assert largest(lambda one: scores(one, wq, wk, alpha, detached=True), x) <= 3 * c / q * near
    assert largest(lambda one: probabilities(one, wq, wk, alpha, detached=True), x) <= 6 * c / q * near


# Y4: norms


def test_y4_the_infinity_norm_of_a_row_exceeds_the_bound() -> None:
    w = torch.full((900, 1), 1 / 30, dtype=torch.float64)
    x = torch.cat([w.T, -1.01 * w.T])

    def found(p: float) -> float:
        return largest(lambda one: probabilities(one, w, -w, 0.5), x, p)

    assert 6 * scale(w, -w, 0.5) / float((x @ w).norm()) == pytest.approx(8.443, abs=1e-3)
    assert found(1) == pytest.approx(10.056, abs=1e-3)  # ‖·‖_∞ of a 1 x D matrix: its row sum
    assert found(2) == pytest.approx(0.335, abs=1e-3) and found(math.inf) < 0.012


@given(seeds, st.integers(2, 5))
@settings(max_examples=20, deadline=None)
def test_y4_with_the_root_of_the_width_the_corrected_bound_is_one_for_the_row_sum(seed: int, n: int) -> None:
    x, wq, wk, alpha = wild(seed, n)
    q, m = float((x @ wq).norm()), float(x.norm(dim=1).max())
    bound = scale(wq, wk, alpha) / (2 * q) * (3 + spectral(wq) * m / q)
    assert largest(lambda one: probabilities(one, wq, wk, alpha), x, 1) <= math.sqrt(3) * bound * (1 + 1e-9)


# Y5: there is no Lipschitz constant


def test_y5_derivatives_grow_without_limit() -> None:
    x, wq, wk = normal(0, 4, 3), normal(1, 3, 2), normal(2, 3, 2)
    first = largest(lambda one: probabilities(one, wq, wk, 1.0), x)
    for t in (1e-2, 1e-4, 1e-8):
        assert largest(lambda one: probabilities(one, wq, wk, 1.0), t * x) == pytest.approx(
            first / t, rel=1e-6
        )
    found = []
    for t in (1, 1e-1, 1e-2, 1e-3):
        x = rows((t, 1), (2 * t, -1), (0, 2))
        found.append(
            spectral(torch.func.jacrev(lambda one: probabilities(one, E1, E2, 1.0) @ one)(x).reshape(6, 6))
        )
    assert found == pytest.approx([1.084, 5.284, 58.30, 589.5], rel=1e-3)


@given(seeds, st.integers(1, 5), st.floats(-4, 4))
@settings(max_examples=30, deadline=None)
def test_y5_what_bounds_the_output_and_what_eps_gives(seed: int, n: int, t: float) -> None:
    x, wq, wk, alpha = wild(seed, n)
    x = 10**t * x
    a, b, c, near, root = spectral(wq), spectral(wk), scale(wq, wk, alpha), 1 + 1e-9, math.sqrt(n)
    p = np.linspace(1e-9, 1 - 1e-9, 100_001)
    kappa = (p * (1 - p) * np.log((n - 1) * p / (1 - p))).max() * (1 + 1e-6) if n > 1 else 0.0
    rho = float(x.norm(dim=1).max() / (x @ wq).norm())
    jacobian = torch.func.jacrev(lambda one: probabilities(one, wq, wk, alpha) @ one)(x).reshape(3 * n, 3 * n)
    bound = root + 2 * alpha * rho * b * (a + root * (a + b)) + 2 * root * kappa * (a * rho + 1)
    assert spectral(jacobian) <= bound * near
    for eps in (1e-3, 0.1):
        found = largest(lambda one: probabilities(one, wq, wk, alpha, eps=eps), x)  # noqa: B023
        assert found <= (c + kappa * (a + 1)) / eps * near


def test_y5_with_eps_the_scores_and_the_output_still_have_no_constant() -> None:
    """Tokens far along what W_Q does not see: m grows, ‖Q‖_F stays. The probabilities keep theirs."""
    found = []
    for m in (1e2, 1e4):
        single, pair = rows((0.01, 0), (0, m)), rows((0, m), (0, -m))
        score = largest(lambda one: scores(one, E1, E2, 1.0, eps=0.01), single)
        jacobian = torch.func.jacrev(lambda one: probabilities(one, E1, E2, 1.0, eps=0.01) @ one)(pair)
        found.append((score, spectral(jacobian.reshape(4, 4))))
        share = largest(lambda one: probabilities(one, E1, E2, 1.0, eps=0.01), pair)
        assert share == pytest.approx(math.sqrt(100**2 + 50**2))  # 1/eps by the query, 1/(2 eps) by the key
    assert found[1] == pytest.approx([100 * one for one in found[0]], rel=0.1)
