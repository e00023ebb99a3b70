"""Chapter 4 (GradInit): formulas that do not hold as printed, each with its counter-example and its corrected form."""

import math
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from hypothesis import given
from hypothesis import strategies as st

from relearn.measures import batch_norm_gradient as bn

seeds = st.integers(0, 10_000)

# Z4: the first step of SGD


def steps(g: np.ndarray, gamma: float) -> dict[str, np.ndarray]:
    """The readings of A[g] for SGD."""
    unit = g / np.linalg.norm(g)
    return {"plain": g, "gamma": gamma * unit, "unit": unit}


def first_order_change(step: np.ndarray, g: np.ndarray, eta: float) -> float:
    """L(theta - eta A[g]) - L(theta) of a loss that is linear, so that its first order is all of it."""
    theta = np.linspace(-1, 1, len(g))
    return float(g @ (theta - eta * step) - g @ theta)


def test_z4_a_normalised_step_is_not_that_of_equation_4_2():
    eta, gamma = 0.1, 3.0
    for norm, printed, expected in (
        (2.0, -0.4, {"plain": -0.4, "gamma": -0.6, "unit": -0.2}),
        (3.0, -0.9, {"plain": -0.9, "gamma": -0.9, "unit": -0.3}),
    ):
        g = norm * np.array([0.6, 0.8])
        assert printed == pytest.approx(-eta * norm**2)  # equation 4.2
        found = {name: first_order_change(step, g, eta) for name, step in steps(g, gamma).items()}
        assert found == pytest.approx(expected)


@given(seeds, st.floats(0.01, 10), st.floats(0.001, 1), st.floats(0, 1))
def test_z4_the_plain_gradient_gives_equation_4_2_and_its_limit(seed, gamma, eta, share):
    g = np.random.default_rng(seed).normal(size=5)
    g *= gamma * (0.01 + 0.99 * share) / np.linalg.norm(g)  # inside the constraint |g| <= gamma
    norm = np.linalg.norm(g)
    change = first_order_change(steps(g, gamma)["plain"], g, eta)
    assert change == pytest.approx(-eta * norm**2, rel=1e-9, abs=1e-12)
    assert abs(change) <= eta * gamma**2 * (1 + 1e-9) + 1e-12
    gammas = first_order_change(steps(g, gamma)["gamma"], g, eta)
    assert gammas == pytest.approx(
        -eta * gamma * norm, rel=1e-9, abs=1e-12
    )  # equal to 4.2 only at |g| = gamma
    at_the_limit = g * gamma / norm
    for name, limit in (("plain", eta * gamma**2), ("gamma", eta * gamma**2), ("unit", eta * gamma)):
        step = steps(at_the_limit, gamma)[name]
        assert first_order_change(step, at_the_limit, eta) == pytest.approx(-limit, rel=1e-9, abs=1e-12)


# Z5: the rule for gamma

STATED = {  # optimiser, eta, gamma as the text states them, and the largest change that they allow
    "CIFAR-10, SGD": ("sgd", 0.1, 1.0, 0.1),
    "CIFAR-10, Adam": ("adam", 3e-3, 25.0, 0.075),
    "ImageNet, SGD": ("sgd", 0.1, 3.0, 0.9),
    "IWSLT, SGD": ("sgd", 0.15, 1.0, 0.15),
    "IWSLT, Adam": ("adam", 5e-4, 1000.0, 0.5),
}


def largest_change(optimiser: str, eta: float, gamma: float) -> float:
    return eta * gamma**2 if optimiser == "sgd" else eta * gamma


def test_z5_the_rule_is_not_that_of_the_stated_values():
    obeyed = [
        name for name, one in STATED.items() if largest_change(*one[:3]) == pytest.approx(0.1, rel=1e-6)
    ]
    assert obeyed == ["CIFAR-10, SGD"]
    assert largest_change(*STATED["ImageNet, SGD"][:3]) == pytest.approx(0.9)
    assert largest_change(*STATED["IWSLT, Adam"][:3]) == pytest.approx(0.5)


def test_z5_the_published_settings_are_the_stated_values():
    paper = yaml.safe_load((Path(__file__).parents[3] / "params/paper.yaml").read_text(encoding="utf-8"))
    images, translation = paper["gradinit"]["initialise"], paper["gradinit"]["translation"]
    for name, part in {
        "CIFAR-10, SGD": images,
        "CIFAR-10, Adam": images["adam"],
        "IWSLT, SGD": translation["sgd"],
        "IWSLT, Adam": translation["adam"],
    }.items():
        assert (part["eta"], part["gamma"]) == STATED[name][1:3], name


@pytest.mark.parametrize("name", STATED)
@given(seed=seeds, share=st.floats(0, 1))
def test_z5_the_largest_change_is_attained_and_not_exceeded(name, seed, share):
    optimiser, eta, gamma, said = STATED[name]
    order = 2 if optimiser == "sgd" else 1
    g = np.random.default_rng(seed).normal(size=7)
    g *= gamma / np.linalg.norm(g, order)
    for scale in (1.0, share):
        step = scale * g if optimiser == "sgd" else np.sign(scale * g)
        change = first_order_change(step, scale * g, eta)
        assert -said * (1 + 1e-9) <= change <= 1e-12
        if scale == 1.0:
            assert change == pytest.approx(-said, rel=1e-9)


# Z6: the gradient behind batch normalisation


def variances(x: torch.Tensor, scale: float, eps: float) -> torch.Tensor:
    """Var[dL/d(s x_i) | x] / Var[D] of every sample: row sums of squares of autograd's Jacobian; nothing of ours is used."""
    n = len(x)
    scaled = (scale * x).expand(n, n).clone().requires_grad_()
    out = torch.nn.functional.batch_norm(scaled.T, None, None, training=True, eps=max(eps, 1e-300))
    jacobian = torch.autograd.grad(out, scaled, torch.eye(n, dtype=x.dtype))[0]  # row j: gradient of y_j
    return jacobian.square().sum(0)


def test_z6_the_printed_bound_and_its_conclusion_fail():
    two = torch.tensor([0.0, 2.0], dtype=torch.float64)
    assert bn.printed_ratio(2, 1.0) == pytest.approx(0.5)  # printed: at least half of Var[D]
    assert variances(two, 1.0, 0.0).tolist() == pytest.approx([0.0, 0.0], abs=1e-12)

    root = math.sqrt(0.6)
    four = torch.tensor([root, -root, root, -root], dtype=torch.float64)
    variance = float(four.var(correction=0))
    assert variance < 4 * 3 / 16 and bn.printed_ratio(4, variance) == pytest.approx(
        1.25
    )  # 4.7 applies: "> 1"
    assert variances(four, 1.0, 0.0).tolist() == pytest.approx([0.8333333333] * 4)


# Z7: the auxiliary line


def variance_of_product(xs: list[float], ys: list[float], a: float) -> float:
    """Var[(X + a) Y] by counting all pairs; X uniform on ``xs``, Y on ``ys``, independent."""
    products = [(x + a) * y for x, y in product(xs, ys)]
    return float(np.var(products))


def test_z7_no_relation_sign_makes_the_printed_line_true():
    signs = [-1.0, 1.0]
    printed = float(np.var(signs)) + 0.0  # a = 0
    below = variance_of_product(signs, [-0.1, 0.1], 0.0)
    above = variance_of_product(signs, [-10.0, 10.0], 0.0)
    assert (below, printed, above) == pytest.approx((0.01, 1.0, 100.0))


values = st.lists(st.floats(-3, 3), min_size=2, max_size=5)


@given(values, values, st.floats(-3, 3))
def test_z7_the_variance_of_a_shifted_product(xs, ys, a):
    expected = np.var(xs) * np.mean(np.square(ys)) + (np.mean(xs) + a) ** 2 * np.var(ys)
    assert variance_of_product(xs, ys, a) == pytest.approx(float(expected), rel=1e-9, abs=1e-9)
    centred = [x - float(np.mean(xs)) for x in xs]  # with E X = 0: the form without E X
    short = np.var(centred) * np.mean(np.square(ys)) + a**2 * np.var(ys)
    assert variance_of_product(centred, ys, a) == pytest.approx(float(short), rel=1e-9, abs=1e-9)


def test_z7_is_what_breaks_z6():
    """The term (n - 1 - y²) D of 4.6: E[-y²] = -1, so that the dropped cross term lowers the variance below (n - 1)² Var D."""
    y = np.array([1.5, -0.5, -1.0, 0.0, 0.7, -0.7])
    y = (y - y.mean()) / y.std()
    n, upstream = len(y), [-1.0, 1.0]
    found = variance_of_product(list(-(y**2)), upstream, n - 1)
    assert found < (n - 1) ** 2 * np.var(upstream)
    assert np.mean(-(y**2)) == pytest.approx(-1)
