"""kim2020: formulas that do not hold as printed, each with its counter-example and its corrected form.

Slow float64 code: attention by its definition, Jacobians by automatic differentiation, φ⁻¹ by bracketing a root.
Errata whose numbers the tests of ``maths`` and ``measures`` have already are tested there; errata.yaml says where.
"""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.special import lambertw
from torch import Tensor

from relearn.maths.l2_bounds import growth

from ..derivatives import jacobian, norm, normal, seeds

ONE = torch.ones(1, 1, dtype=torch.float64)


def inverse(y: float) -> float:
    """The c of c exp(c + 1) = y."""
    return float(brentq(lambda c: c * math.exp(c + 1) - y, 0, 50, xtol=1e-15)) if y else 0.0


def probabilities(x: Tensor, wq: Tensor, wk: Tensor, s: float, mask: Tensor | None = None) -> Tensor:
    """Equation 10; `mask` is True where a key may be seen."""
    logits = -((x @ wq)[:, None] - (x @ wk)[None]).square().sum(-1) / s
    return (logits if mask is None else logits.masked_fill(~mask, -math.inf)).softmax(-1)


def tied(x: Tensor, wq: Tensor, wv: Tensor, wo: Tensor, mask: Tensor | None = None) -> Tensor:
    """F(X) of theorem 3.2; wq, wv (H, D, D/H)."""
    s = math.sqrt(wv.shape[-1])
    heads = [probabilities(x, q, q, s, mask) @ x @ (q @ q.T / s) @ v for q, v in zip(wq, wv)]
    return torch.cat(heads, -1) @ wo


def bound_2(wq: Tensor, wv: Tensor, wo: Tensor, n: int, power: int) -> float:
    """Theorem 3.2, p = 2, with ‖W^{Q,h}‖ to the power of 2 (printed) or 4."""
    total = sum(norm(q, 2) ** power * norm(v, 2) ** 2 for q, v in zip(wq, wv))
    return math.sqrt(n / wv.shape[-1]) * (4 * inverse(n - 1) + 1) * math.sqrt(total) * norm(wo, 2)


def bound_inf(wq: Tensor, wv: Tensor, wo: Tensor, n: int) -> float:
    """Theorem 3.2, p = ∞, as printed."""
    inf = math.inf
    queries = max(norm(q, inf) * norm(q.T, inf) for q in wq)
    values = max(norm(v.T, inf) for v in wv) * norm(wo.T, inf)
    return (4 * inverse(n - 1) + 1 / math.sqrt(wv.shape[-1])) * queries * values


# K1: theorem 3.2 for p = 2


@given(seeds)
@settings(max_examples=20)
def test_k1_the_printed_form_is_safe_where_no_query_map_exceeds_norm_one(seed: int) -> None:
    wq, wv, wo = normal(seed, 2, 4, 2), normal(seed + 1, 2, 4, 2), normal(seed + 2, 4, 4)
    wq = wq / max(norm(q, 2) for q in wq)
    assert bound_2(wq, wv, wo, 5, power=2) >= bound_2(wq, wv, wo, 5, power=4)


# K2: the inverse of φ


def test_k2_the_printed_number_belongs_to_one_token_more() -> None:
    for n, printed, true in ((1, 0.278465, 0.0), (2, 0.463056, 0.278465), (3, 0.603546, 0.463056)):
        assert float(lambertw(n / math.e).real) == pytest.approx(printed, abs=5e-7)
        assert inverse(n - 1) == pytest.approx(true, abs=5e-7)
        assert inverse(n) == pytest.approx(printed, abs=5e-7)


# K3: the proof of lemma F.8


def test_k3_a_sum_of_vectors_can_be_longer_than_their_squares_together() -> None:
    x = np.ones(3) / math.sqrt(3)  # three blocks, each the number 1
    assert np.sum(1.0 * x) ** 2 == pytest.approx(3.0)
    assert np.sum((1.0 * x) ** 2) == pytest.approx(1.0)


@given(seeds, st.integers(1, 4), st.integers(1, 4))
def test_k3_the_triangle_inequality_and_cauchy_schwarz_give_the_lemma(seed, blocks, rows) -> None:
    a = normal(seed, blocks, rows, 3)
    norms = torch.linalg.matrix_norm(a, ord=2)
    x = normal(seed + 1, blocks, 3)
    x = x / x.norm()
    image = torch.einsum("bij,bj->i", a, x).norm()
    weighted = (x.norm(dim=-1) * norms).sum()
    assert image <= weighted * (1 + 1e-12) and weighted <= norms.norm() * (1 + 1e-12)
    columns, stacked = (
        torch.cat(list(a), dim=1),
        torch.cat(list(a), dim=0),
    )  # F.8, and F.5 which stacks the heads
    assert norm(columns, 2) <= float(norms.norm()) * (1 + 1e-12)
    assert norm(stacked, 2) <= float(norms.norm()) * (1 + 1e-12)


# K4 and K5: lemma F.1


def construction(n: int, wq: Tensor, wk: Tensor, x_i: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """X with token 0 = x_i and all others such that y_j = -y_0; with y_0 and K_01 from its definition."""
    y_i = wq.T @ x_i - wk.T @ x_i
    other = torch.linalg.pinv(wk.T) @ (wq.T @ x_i + y_i)
    x = torch.cat([x_i[None], other.expand(n - 1, -1)])
    p = probabilities(x, wq, wk, math.sqrt(wq.shape[1]))[0]
    torch.testing.assert_close(p, torch.full_like(p, 1 / n))
    k = p[1] * wk.T @ torch.outer(x[1] - p @ x, wq.T @ x[0] - wk.T @ x[1])
    return x, y_i, k


@given(seeds, st.integers(2, 7), st.floats(0.1, 30))
@settings(max_examples=40)
def test_k4_the_coefficient_is_minus_two_over_the_square(seed: int, n: int, size: float) -> None:
    wq, wk = normal(seed, 3, 2), normal(seed + 1, 3, 2)
    x, y, k = construction(n, wq, wk, size * normal(seed + 2, 3))
    expected = -2 / n**2 * torch.outer(y, y)
    torch.testing.assert_close(k, expected, rtol=1e-8, atol=1e-9 * float(expected.abs().max()))

    def head(one: Tensor) -> Tensor:
        return probabilities(one, wq, wk, math.sqrt(2)) @ one

    block = torch.func.jacrev(head)(x)[0, :, 1]  # of token 0 with respect to token 1, (D, D)
    identity = (2 / math.sqrt(2) * k + torch.eye(2, dtype=torch.float64) / n) @ wk.T
    torch.testing.assert_close(wk.T @ block, identity, rtol=1e-7, atol=1e-7 * float(identity.abs().max()))


@given(seeds, st.integers(1, 3), st.integers(1, 3))
@settings(max_examples=30)
def test_k5_full_column_rank_of_the_difference_decides_and_any_difference_is_unbounded(
    seed, width, rank
) -> None:
    rank = min(rank, width)
    wk = normal(seed, 3, width)
    wq = wk + normal(seed + 1, 3, rank) @ normal(seed + 2, rank, width)
    reached = normal(seed + 3, 40, 3) @ (wq - wk)
    assert (int(torch.linalg.matrix_rank(reached)) == width) == (rank == width)
    x_i = (wq - wk) @ normal(seed + 4, width)
    entries = []
    for size in (1.0, 10.0, 100.0):
        entries.append(float(construction(3, wq, wk, size * x_i)[2].abs().max()))
    assert entries[1] == pytest.approx(100 * entries[0], rel=1e-4) and entries[0] > 0
    assert entries[2] == pytest.approx(1e4 * entries[0], rel=1e-4)


# K6: masks


def test_k6_for_p_2_the_root_counts_rows_and_not_visible_keys() -> None:
    """Every token sees itself and token 0, two keys: at X = 0 the norm is above √N / 2."""
    n = 64
    mask = torch.eye(n, dtype=torch.bool)
    mask[:, 0] = True
    x = torch.zeros(n, 1, dtype=torch.float64)
    found = norm(jacobian(lambda one: tied(one, ONE[None], ONE[None], ONE, mask), x), 2)
    assert (
        found >= math.sqrt(n) / 2 > math.sqrt(2) * (4 * inverse(1) + 1)
    )  # N → 2 everywhere would be too small
    assert found <= math.sqrt(n) * (4 * inverse(1) + 1)  # N → 2 inside φ⁻¹ alone is right


# K7: dropout


def test_k7_dropout_that_rescales_expands_in_training() -> None:
    keep, n = 0.75, 4000
    out = torch.nn.functional.dropout(torch.ones(n, dtype=torch.float64), p=1 - keep, training=True)
    assert set(out.tolist()) == {0.0, 1 / keep}  # a diagonal map, here on the vector of ones
    assert float(out.max()) == pytest.approx(1.3333, abs=1e-4)
    still = torch.nn.functional.dropout(torch.ones(n), p=1 - keep, training=False)
    assert set(still.tolist()) == {1.0}  # and not the constant keep


# K8: Glorot's interval and the peak of the schedule


def rate(t: float, gamma: float, dim: int, warmup: int) -> float:
    """The schedule of appendix I."""
    return gamma / math.sqrt(dim) * min(t**-0.5, t * warmup**-1.5)


def test_k8_the_printed_interval_and_peak_are_not_those_of_the_names() -> None:
    drawn = torch.nn.init.xavier_uniform_(torch.empty(300, 500, dtype=torch.float64))
    assert float(drawn.abs().max()) == pytest.approx(math.sqrt(6 / 800), rel=1e-3)
    assert float(drawn.abs().max()) > 2.4 * math.sqrt(1 / 800)
    assert rate(1, gamma=2.0, dim=1, warmup=1) == 2.0 != (1 * 1) ** -0.5


@given(st.floats(0.1, 3), st.integers(1, 1024), st.integers(1, 8000), st.integers(1, 1000))
def test_k8_the_interval_of_glorots_variance_and_the_true_peak(gamma, dim, warmup, fan) -> None:
    limit = math.sqrt(6 / (dim + fan))
    assert limit**2 / 3 == pytest.approx(
        2 / (dim + fan)
    )  # the variance of U[-a, a] is a²/3; Glorot's is 2/(in + out)
    assert math.sqrt(1 / (dim + fan)) == pytest.approx(
        limit / math.sqrt(6)
    )  # printed: a sixth of that variance
    peak = gamma * (dim * warmup) ** -0.5
    assert rate(warmup, gamma, dim, warmup) == pytest.approx(peak)
    assert rate(warmup + 1, gamma, dim, warmup) < peak * (1 + 1e-12)
    if warmup > 1:
        assert rate(warmup - 1, gamma, dim, warmup) < peak


# K9: slips of the pen


def differences(seed: int):
    wq, wk, x = normal(seed, 4, 2), normal(seed + 1, 4, 2), normal(seed + 2, 3, 4)
    return wq, wk, x, math.sqrt(2)


def equation_16(x: Tensor, wq: Tensor, wk: Tensor, s: float, last: Tensor) -> Tensor:
    squares = (x @ wq).square().sum(-1, keepdim=True)
    return (-(squares - 2 * (x @ wq) @ (x @ wk).T + last) / s).softmax(-1)


def block(x: Tensor, wq: Tensor, wk: Tensor, s: float, one_at: tuple[int, int]) -> Tensor:
    """Equation 22 for i = 0, j = 2, with its binary matrix at `one_at`."""
    p = probabilities(x, wq, wk, s)[0]
    own = torch.diag(p) - torch.outer(p, p)
    binary, corner = torch.zeros(2, 3, 3, dtype=torch.float64)
    binary[one_at], corner[2, 2] = 1, 1
    return 2 / s * x.T @ own @ (binary @ x @ wq - corner @ x @ wk) @ wk.T + p[2] * torch.eye(
        4, dtype=torch.float64
    )


def slope(z: np.ndarray, j: int, factor: float) -> float:
    """Equation 32 with `factor` in the place of y_j or z_j."""
    h = np.exp(-np.square(z))
    return float(2 * factor * h[j] / h.sum() ** 2 * ((1 - z[j] ** 2) * h.sum() + (h * z**2).sum()))


def test_k9_the_printed_intermediate_formulas_are_not_those_of_the_attention() -> None:
    wq, wk, x, s = differences(0)
    true = probabilities(x, wq, wk, s)
    column = (x @ wk).square().sum(-1, keepdim=True)
    with pytest.raises(RuntimeError):  # (16): the product of two columns does not exist
        torch.ones(3, 1, dtype=torch.float64) @ column
    assert not torch.allclose(
        equation_16(x, wq, wk, s, column), true
    )  # nor does a column do that is spread out
    assert not torch.allclose(probabilities(x, wq, wk, 1.0), true)  # after (19): s is missing
    jac = torch.func.jacrev(lambda one: probabilities(one, wq, wk, s) @ one)(x)[0, :, 2]
    assert not torch.allclose(block(x, wq, wk, s, (0, 2)), jac)  # (22): e_ij
    y = np.array([0.0, -0.5])  # (32), D = 1: y_j may be negative where the distance z_j is not
    assert slope(np.abs(y), 1, y[1]) < 0 < slope(np.abs(y), 1, abs(y[1]))
    c = inverse(1)  # F.4, N = 2: with the 1-norm the sum of d_j² exceeds the bound
    key = math.sqrt((1 + c) / 2) * np.ones(2)
    p = math.exp(-key @ key) / (1 + math.exp(-key @ key))
    assert p * np.abs(key).sum() ** 2 == pytest.approx(2 * c) and p * key @ key == pytest.approx(c)


@given(seeds)
@settings(max_examples=20)
def test_k9_the_corrected_intermediate_formulas_are(seed: int) -> None:
    wq, wk, x, s = differences(seed)
    true = probabilities(x, wq, wk, s)
    torch.testing.assert_close(equation_16(x, wq, wk, s, (x @ wk).square().sum(-1)[None]), true)
    jac = torch.func.jacrev(lambda one: probabilities(one, wq, wk, s) @ one)(x)[0, :, 2]
    torch.testing.assert_close(block(x, wq, wk, s, (2, 0)), jac)
    z = np.abs(np.random.default_rng(seed).normal(size=4))
    z[0] = 0

    def weighted(one: np.ndarray) -> float:
        return float((one**2 * np.exp(-(one**2))).sum() / np.exp(-(one**2)).sum())

    step = np.array([0, 1e-6, 0, 0])
    assert slope(z, 1, z[1]) == pytest.approx((weighted(z + step) - weighted(z - step)) / 2e-6, abs=1e-8)
    y = normal(seed, 5, 3)
    distances = (y[1:] - y[0]).square().sum(-1)
    p = torch.cat([torch.zeros(1, dtype=torch.float64), -distances]).softmax(0)[1:]
    assert float((p * distances).sum()) <= inverse(4) * (1 + 1e-12)


# K11: the order in N for p = 2


def test_k11_the_order_of_the_theorem_is_not_that_of_the_constant() -> None:
    ratios = [growth(10**k, form="unmasked") / (10 ** (k / 2) * k * math.log(10)) for k in (3, 6, 9, 12)]
    assert ratios[3] < 0.01 and ratios == sorted(ratios, reverse=True)  # O(√N log N) is more than is needed


def unit_jacobian(y: Tensor) -> Tensor:
    """Of Y ↦ P Y: one head with W^Q the identity and s = 1."""
    eye = torch.eye(y.shape[1], dtype=torch.float64)
    return jacobian(lambda one: probabilities(one, eye, eye, 1.0) @ one, y)


def test_k11_for_wide_tokens_the_constant_grows_as_the_fourth_root() -> None:
    """m tokens at 0 and m² at r e_k with exp(-r²) = 1/m: P alone, in a direction that no distance notices, has √m/3."""
    for m in (4, 9, 16):
        n = m + m * m
        between = torch.full(
            (n, n), 1 / m**2, dtype=torch.float64
        )  # the kernel of two far tokens: 2 r² apart
        between[:m, :], between[:, :m], between[:m, :m] = 1 / m, 1 / m, 1
        between.fill_diagonal_(1)
        p = between / between.sum(1, keepdim=True)
        assert math.sqrt(m) / 3 * 0.9 < norm(p, 2) <= 2 * n**0.25
        if m == 4:  # the same from tokens: the last coordinate is the direction that all tokens lack
            y = torch.zeros(n, m * m + 1, dtype=torch.float64)
            y[m:, :-1] = math.sqrt(math.log(m)) * torch.eye(m * m, dtype=torch.float64)
            push = torch.zeros_like(y)
            push[:m, -1] = 1 / math.sqrt(m)
            moved = (unit_jacobian(y) @ push.flatten()).reshape(push.shape)
            torch.testing.assert_close(moved, p @ push)
            assert float(moved.norm()) >= math.sqrt(m) / 3 * 0.9
    assert norm(p, 2) == pytest.approx(1.575, abs=1e-3)  # m = 16


def test_k11_a_mask_takes_the_fourth_root_away() -> None:
    """Every token sees itself and token 0: at X = 0 column 0 of P is 1/2, so that the norm is above √N / 2."""
    n = 1024
    p = 0.5 * torch.eye(n, dtype=torch.float64)
    p[:, 0] += 0.5
    assert math.sqrt(n) / 2 <= float(p[:, 0].norm()) and math.sqrt(n) / 2 > 2 * n**0.25
    assert math.sqrt(10**8) / 2 > growth(10**8, form="unmasked")  # the whole of the unmasked form fails too
    assert all(math.sqrt(n) / 2 < growth(n, form="tight") for n in (2, 100, 10**8))


# K12: the assumptions of theorem 3.1


def dot_product(x: Tensor, wq: Tensor, wk: Tensor, wv: Tensor, wo: Tensor) -> Tensor:
    """Equations 4 and 5."""
    s = math.sqrt(wq.shape[-1])
    heads = [((x @ q) @ (x @ k).T / s).softmax(-1) @ x @ v for q, k, v in zip(wq, wk, wv)]
    return torch.cat(heads, -1) @ wo


def dot_product_norm(weights: tuple[Tensor, ...], x: Tensor) -> float:
    return norm(jacobian(lambda one: dot_product(one, *weights), x), 2)


def spread_out(size: float, dim: int) -> Tensor:
    """Token 0 at the origin, four others far away."""
    x = size * normal(7, 5, dim)
    x[0] = 0
    return x


def test_k12_nonzero_maps_can_make_a_linear_attention_or_none() -> None:
    e = torch.eye(2, dtype=torch.float64)
    first, second = torch.outer(e[0], e[0])[None], torch.outer(e[0], e[1])[None]
    cases = {  # wq, wk, wv, wo: none is zero
        "W^K W^Q^T = 0": (first, second, e[None], e),
        "W^V W^O = 0": (e[None], e[None], first, torch.outer(e[1], e[1])),
        "heads that cancel": (
            *3 * [torch.ones(2, 2, 1, dtype=torch.float64)],
            torch.tensor([[1.0, 1], [-1, -1]]).double(),
        ),
    }
    for name, w in cases.items():
        norms = [dot_product_norm(w, spread_out(size, 2)) for size in (1.0, 10.0, 100.0)]
        assert all(float(one.abs().max()) > 0 for one in w), name
        assert max(norms) <= 1 + 1e-9 and norms[0] == pytest.approx(norms[2], abs=1e-9), name


# K13: dividing by the bound


def test_k13_a_residual_map_divided_by_its_bound_can_lose_everything() -> None:
    w = ONE[None], -ONE[None], ONE
    assert bound_inf(*w, 1) == bound_2(*w, 1, power=4) == 1
    for value in (-2.0, 0.5, 7.0):
        x = value * ONE
        assert float(x + tied(x, *w) / bound_inf(*w, 1)) == 0.0


@given(st.floats(0.01, 0.99), st.floats(-5, 5))
def test_k13_a_factor_below_one_gives_the_inverse_back(c: float, value: float) -> None:
    w, x = (ONE[None], -ONE[None], ONE), value * ONE
    y = x + c * tied(x, *w) / bound_inf(*w, 1)
    guess = y
    steps = math.ceil(math.log(1e-9) / math.log(c))
    for _ in range(steps):
        guess = y - c * tied(guess, *w) / bound_inf(*w, 1)
    assert float(guess) == pytest.approx(value, abs=1e-8 * (1 + abs(value)))
