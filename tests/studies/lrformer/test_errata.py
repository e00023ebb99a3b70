"""ye2023: formulas that do not hold as printed, each with its counter-example and its corrected form.

Slow float64 code that uses nothing of ours: formulas by their definition, Jacobians by automatic differentiation.
Errata whose numbers the tests of ``maths`` and ``measures`` have already are tested there; errata.yaml says where.
"""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from ..derivatives import norm, normal, seeds

E1, E2 = torch.eye(2, dtype=torch.float64)[:, :1], torch.eye(2, dtype=torch.float64)[:, 1:]


def rows(*rows: tuple[float, float]) -> Tensor:
    return torch.tensor(rows, dtype=torch.float64)


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
    return alpha * (norm(wq) + norm(wk)) ** 2


def wild(seed: int, n: int) -> tuple[Tensor, Tensor, Tensor, float]:
    """Inputs (n, 3), maps (3, 2) and α over many orders of magnitude."""
    sizes = 10 ** normal(seed + 4, 3)
    x = normal(seed, n, 3) * 10 ** normal(seed + 1, n, 3)
    return x, sizes[0] * normal(seed + 2, 3, 2), sizes[1] * normal(seed + 3, 3, 2), float(sizes[2])


# Y1: LayerNorm


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


# Y3: the bounds before it


@given(seeds, st.integers(1, 5))
@settings(max_examples=40)
def test_y3_the_printed_bounds_hold_where_the_norm_of_q_is_taken_as_a_constant(seed: int, n: int) -> None:
    x, wq, wk, alpha = wild(seed, n)
    slope = scale(wq, wk, alpha) / float((x @ wq).norm()) * (1 + 1e-9)
    assert largest(lambda one: scores(one, wq, wk, alpha, detached=True), x) <= 3 * slope
    assert largest(lambda one: probabilities(one, wq, wk, alpha, detached=True), x) <= 6 * slope


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
@settings(max_examples=20)
def test_y4_with_the_root_of_the_width_the_corrected_bound_is_one_for_the_row_sum(seed: int, n: int) -> None:
    x, wq, wk, alpha = wild(seed, n)
    q, m = float((x @ wq).norm()), float(x.norm(dim=1).max())
    bound = scale(wq, wk, alpha) / (2 * q) * (3 + norm(wq) * m / q)
    assert largest(lambda one: probabilities(one, wq, wk, alpha), x, 1) <= math.sqrt(3) * bound * (1 + 1e-9)


# Y5: there is no Lipschitz constant


def test_y5_with_eps_the_scores_and_the_output_still_have_no_constant() -> None:
    """Tokens far along what W_Q does not see: m grows, ‖Q‖_F stays. The probabilities keep theirs."""
    found = []
    for m in (1e2, 1e4):
        single, pair = rows((0.01, 0), (0, m)), rows((0, m), (0, -m))
        score = largest(lambda one: scores(one, E1, E2, 1.0, eps=0.01), single)
        jacobian = torch.func.jacrev(lambda one: probabilities(one, E1, E2, 1.0, eps=0.01) @ one)(pair)
        found.append((score, norm(jacobian.reshape(4, 4))))
        share = largest(lambda one: probabilities(one, E1, E2, 1.0, eps=0.01), pair)
        assert share == pytest.approx(math.sqrt(100**2 + 50**2))  # 1/eps by the query, 1/(2 eps) by the key
    assert found[1] == pytest.approx([100 * one for one in found[0]], rel=0.1)
