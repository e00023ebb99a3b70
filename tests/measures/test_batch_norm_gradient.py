"""Equation 4.5 against autograd, the exact variances against the Jacobian, the printed bound against its counter-example."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from relearn.measures import batch_norm_gradient as bn

seeds = st.integers(0, 10_000)
sizes = st.integers(2, 9)
eps_values = st.sampled_from([0.0, 1e-5, 0.3, 50.0])


def batch(n: int, seed: int, d: int = 3) -> torch.Tensor:
    x = torch.randn(n, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return x + torch.linspace(0, 1, n, dtype=torch.float64)[:, None]  # never constant


def jacobian(x: torch.Tensor, scale: float, eps: float) -> torch.Tensor:
    """d y / d (s x) of one feature, (n, n), by autograd through torch's own batch normalisation."""
    n = len(x)
    rows = bn.autograd_gradient(
        x.expand(n, n), torch.eye(n, dtype=torch.float64), scale=scale, eps=eps
    )  # feature j has the upstream gradient e_j
    return rows.T


@given(sizes, seeds, st.floats(0.05, 20), st.floats(-3, 3), eps_values)
def test_equation_4_5_is_autograds(n, seed, scale, gamma, eps):
    x, upstream = batch(n, seed), batch(n, seed + 1)
    found = bn.input_gradient(x, upstream, gamma=gamma, scale=scale, eps=eps)
    slow = bn.autograd_gradient(x, upstream, gamma=gamma, scale=scale, eps=eps)
    rounding = 1e-13 / (scale * float(x.std(0, correction=0).min()))  # as below
    assert torch.allclose(found, slow, rtol=1e-7, atol=1e-9 * float(slow.abs().max()) + 1e-12 + rounding)


def test_equation_4_5_is_the_slope_of_the_loss():
    """Finite differences in float64, which know neither the formula nor autograd."""
    x, weights, scale, eps = batch(5, 3), batch(5, 4), 0.7, 0.1

    def loss(z: torch.Tensor) -> float:
        y = (z - z.mean(0)) / (z.var(0, correction=0) + eps).sqrt()
        return float((2 * y * weights).sum())

    found = bn.input_gradient(x, weights, gamma=2.0, scale=scale, eps=eps)
    step = 1e-5
    for i in range(5):
        for j in range(3):
            shift = torch.zeros_like(x)
            shift[i, j] = step
            slope = (loss(scale * x + shift) - loss(scale * x - shift)) / (2 * step)
            assert float(found[i, j]) == pytest.approx(slope, abs=1e-8)


@given(sizes, seeds, st.floats(0.05, 20), eps_values)
def test_the_law_is_the_second_moment_of_the_jacobian(n, seed, scale, eps):
    """Var of sum_j J_ji D_j with independent D is sum_j J_ji²: no draws, for every sample and for the mean."""
    x = batch(n, seed, 1)
    slow = jacobian(x, scale, eps).square().sum(0)
    found = bn.sample_ratio(x, scale=scale, eps=eps)[:, 0]
    variance = scale**2 * float(x.var(correction=0))
    rounding = (
        1e-13 / variance
    )  # where eps is 0 and n is 2, terms of this size over the variance cancel to nothing
    assert torch.allclose(found, slow, rtol=1e-6, atol=1e-8 * float(slow.max()) + 1e-10 + rounding)
    assert bn.exact_ratio(n, variance, eps=eps) == pytest.approx(
        float(slow.mean()), rel=1e-6, abs=1e-8 + rounding
    )


@given(sizes, seeds, eps_values)
def test_the_mean_of_the_upstream_gradient_plays_no_part(n, seed, eps):
    x = batch(n, seed)
    nothing = bn.input_gradient(x, torch.full_like(x, 7.0), eps=eps)
    assert float(nothing.abs().max()) < 1e-9


@given(sizes, seeds, st.floats(0.05, 20), eps_values)
def test_the_printed_bound_bounds_from_above(n, seed, scale, eps):
    x = batch(n, seed, 1)
    variance = scale**2 * float(x.var(correction=0))
    printed = bn.printed_ratio(n, variance, eps=eps)
    assert bool((bn.sample_ratio(x, scale=scale, eps=eps) <= printed * (1 + 1e-12)).all())
    assert bn.exact_ratio(n, variance, eps=eps) <= printed * (1 + 1e-12)


@pytest.mark.parametrize("n", [2, 5, 64])
def test_the_printed_bound_is_reached_only_where_eps_drowns_the_variance(n):
    assert bn.exact_ratio(n, 1e-12, eps=1.0) == pytest.approx(bn.printed_ratio(n, 1e-12, eps=1.0), rel=1e-9)
    assert bn.exact_ratio(n, 1.0) == pytest.approx(bn.printed_ratio(n, 1.0) - 1 / n)


def test_a_batch_of_two_passes_nothing_and_a_lone_outlier_receives_nothing():
    two = bn.autograd_gradient(batch(2, 5), batch(2, 6))
    assert float(two.abs().max()) < 1e-12
    lone = torch.tensor([[5.0], [0.0], [0.0], [0.0], [0.0]], dtype=torch.float64)
    ratio = bn.sample_ratio(lone)[:, 0]
    assert float(ratio[0]) == pytest.approx(0, abs=1e-12) and bool((ratio[1:] > 0.1).all())
    assert abs(float(bn.autograd_gradient(lone, batch(5, 7, 1))[0])) < 1e-12


def test_the_layer_magnifies_where_the_corrected_threshold_says():
    for n in (3, 4, 16, 1000):
        threshold = (n - 2) / n
        assert bn.exact_ratio(n, threshold) == pytest.approx(1)
        assert bn.exact_ratio(n, threshold * 0.999) > 1 > bn.exact_ratio(n, threshold * 1.001)


def test_cases_measure_what_the_law_says_and_not_what_is_printed():
    rows = bn.cases(draws=3000, seed=1)
    assert [tuple(row) for row in rows] == [bn.COLUMNS] * (len(bn.SIZES) * len(bn.VARIANCES))
    for row in rows:
        assert row["holds"], row
        assert row["formula_error"] < 1e-9
        assert row["measured"] == pytest.approx(row["exact"], abs=4 * row["standard_error"] + 1e-9)
        assert row["printed_holds"] == (row["measured"] >= row["printed"] - 4 * row["standard_error"] - 1e-9)
        assert row["magnified"] == (row["n"] - 2 > row["n"] * row["variance"])
        assert row["printed_says_magnified"] == (row["printed"] > 1)
    small = [row for row in rows if row["n"] <= 16]
    assert not any(row["printed_holds"] for row in small)  # the gap 1/(n v) is seen with these draws
    between = [row for row in rows if row["printed_says_magnified"] and not row["magnified"]]
    assert {(row["n"], row["variance"]) for row in between} >= {(2, 0.25), (3, 0.6), (4, 0.6)}
    for row in between:  # equation 4.7 promises more than the variance of D: measured less
        assert row["measured"] < 1


def test_cases_with_eps_follow_the_general_law():
    for row in bn.cases(sizes=(2, 4, 16), variances=(0.01, 0.5), eps=0.1, draws=3000, seed=2):
        assert row["holds"]
        v = row["variance"] + 0.1
        without_eps_term = (row["n"] - 2) / (row["n"] * v)
        if row["variance"] < 0.1:  # there the form for eps = 0 is visibly off: the term (1 - r)² is needed
            assert abs(row["measured"] - without_eps_term) > 8 * row["standard_error"]


def test_cases_are_those_of_their_seed():
    one = dict(sizes=(3,), variances=(0.5,), draws=50)
    assert bn.cases(**one, seed=4) == bn.cases(**one, seed=4)
    assert bn.cases(**one, seed=4)[0]["measured"] != bn.cases(**one, seed=5)[0]["measured"]


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: bn.exact_ratio(1, 1.0), "n: 1"),
        (lambda: bn.printed_ratio(4, 0.0), "variance: 0.0"),
        (lambda: bn.exact_ratio(4, math.nan), "variance: nan"),
        (lambda: bn.exact_ratio(4, 1.0, eps=-1), "eps: -1"),
        (lambda: bn.cases(draws=1), "draws: 1"),
        (lambda: bn.sample_ratio(torch.ones(4, 2)), "constant"),
        (lambda: bn.sample_ratio(torch.ones(4)), "shape"),
        (lambda: bn.sample_ratio(torch.rand(4, 2), scale=0.0), "scale: 0.0"),
        (lambda: bn.sample_ratio(torch.rand(4, 2), eps=-0.1), "eps: -0.1"),
        (lambda: bn.input_gradient(torch.rand(4, 2), torch.rand(4, 3)), "upstream"),
    ],
)
def test_wrong_arguments_are_refused(call, match):
    with pytest.raises(ValueError, match=match):
        call()
