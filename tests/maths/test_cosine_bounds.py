"""Bounds of cosine attention against exact Jacobians of a slow float64 attention written here."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from relearn.maths.cosine_bounds import cosine_bound, unit_factor
from relearn.maths.network_bounds import centre_norm_constant, gelu_constant, residual_bound

F64 = dict(dtype=torch.float64)
ORDER = {"two": 2, "inf": math.inf}


def hat(u: Tensor, eps: float) -> Tensor:
    return u / (u.square().sum(-1, keepdim=True) + eps).sqrt()


def attention(
    x: Tensor,
    wq: Tensor,
    wk: Tensor,
    wv: Tensor,
    tau: float,
    nu: float,
    eps: float,
    bias: Tensor | None = None,
) -> Tensor:
    """Heads side by side; x (N, D), weights (H, D, d)."""
    heads = []
    for h, (q, k, v) in enumerate(zip(wq, wk, wv)):
        logits = tau * hat(x @ q, eps) @ hat(x @ k, eps).T
        heads.append(nu * (logits + (0 if bias is None else bias[h])).softmax(-1) @ hat(x @ v, eps))
    return torch.cat(heads, -1)


def norm(f, x: Tensor, p: str) -> float:
    return float(torch.linalg.matrix_norm(torch.func.jacrev(f)(x).reshape(-1, x.numel()), ORDER[p]))


def normal(seed: int, *shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), **F64)


def bounds(weights: tuple[Tensor, ...], n: int, **numbers) -> dict[tuple[str, str], float]:
    return {
        (p, form): float(cosine_bound(*weights, n, p=p, form=form, **numbers))
        for p in ORDER
        for form in ("printed", "corrected", "tight")
    }


@given(
    st.integers(0, 1000),
    st.integers(1, 6),
    st.sampled_from([(1, 1, 1), (1, 4, 2), (2, 4, 2), (3, 3, 1), (1, 2, 5)]),
    st.floats(0.05, 20),
    st.floats(0.1, 12),
)
@settings(max_examples=50)
def test_no_jacobian_exceeds_a_valid_form(seed, n, shape, size, tau) -> None:
    heads, dim, width = shape
    weights = tuple(normal(seed + i, heads, dim, width) for i in range(3))
    wo, x, bias = (
        normal(seed + 3, heads * width, 3),
        size * normal(seed + 4, n, dim),
        normal(seed + 5, heads, n, n),
    )
    numbers = dict(tau=tau, nu=0.7, eps=0.3)
    seen = bounds(weights, n, **numbers)
    through = bounds(weights, n, wo=wo, **numbers)
    for b in (None, bias, bias.masked_fill((bias < 0) & (torch.eye(n) == 0), -math.inf)):
        for p in ORDER:
            found = norm(lambda z, b=b: attention(z, *weights, **numbers, bias=b), x, p)
            after = norm(lambda z, b=b: attention(z, *weights, **numbers, bias=b) @ wo, x, p)
            for form in ("corrected", "tight", *(["printed"] if p == "two" else [])):
                assert found <= seen[p, form] * (1 + 1e-9)
                assert after <= through[p, form] * (1 + 1e-9)
    for p in ORDER:
        assert seen[p, "tight"] <= seen[p, "corrected"] * (1 + 1e-12)


def test_the_bounds_move_as_the_attention_does() -> None:
    """x → x/t with W → t W leaves the output as it is and multiplies the Jacobian by t; ε^(-1/2) and ν likewise."""
    weights, x = tuple(normal(i, 2, 4, 2) for i in range(3)), normal(4, 3, 4)
    for p in ORDER:
        one = norm(lambda z: attention(z, *weights, 3.0, 1.0, 0.5), x, p)
        two = norm(lambda z: attention(z, *(2 * w for w in weights), 3.0, 1.0, 0.5), x / 2, p)
        far = norm(lambda z: attention(z, *weights, 3.0, 1.0, 4 * 0.5), 2 * x, p)
        assert two == pytest.approx(2 * one) and far == pytest.approx(one / 2)
        for form in ("printed", "corrected", "tight"):
            plain = float(cosine_bound(*weights, 3, tau=3, nu=1, eps=0.5, p=p, form=form))
            twice = float(cosine_bound(*(2 * w for w in weights), 3, tau=3, nu=1, eps=0.5, p=p, form=form))
            soft = float(cosine_bound(*weights, 3, tau=3, nu=1, eps=2.0, p=p, form=form))
            loud = float(cosine_bound(*weights, 3, tau=3, nu=5, eps=0.5, p=p, form=form))
            assert [twice, soft, loud] == pytest.approx([2 * plain, plain / 2, 5 * plain])


def test_the_printed_bound_for_p_infinity_is_exceeded() -> None:
    """Errata, Q9."""
    column = torch.zeros(36, 1, **F64)
    wk, wq, wv = torch.ones(36, 1, **F64), column.clone(), column.clone()
    wq[0], wv[1] = 0.01, 0.01
    x = torch.zeros(2, 36, **F64)
    x[0, :3], x[1, :2] = torch.tensor([1e4, 1e4, -2e4]), torch.tensor([1e4, -1e4])
    weights, numbers = (wq[None], wk[None], wv[None]), dict(tau=1.0, nu=1.0, eps=1.0)
    seen = bounds(weights, 2, **numbers)
    found = norm(lambda z: attention(z, *weights, **numbers), x, "inf")
    assert found == pytest.approx(35.9964, abs=1e-4) and seen["inf", "printed"] == pytest.approx(24.16)
    assert seen["inf", "tight"] == pytest.approx(36 + 0.01 + 0.01)
    assert seen["inf", "corrected"] == pytest.approx(4 * 6 * 36 + 2 * 6 * 0.01 + 4 * 0.01)


def test_attained_by_values_and_nearly_by_keys() -> None:
    """All queries on one token whose value is at the origin: √N ε^(-1/2) ‖W^V‖. Two keys at 0, values apart: 1/√2 of it."""
    n, eps = 16, 1e-2
    e = torch.eye(3, **F64)
    wq, wk, wv = e[:, :1], e[:, 1:2], e[:, 2:]
    x = torch.zeros(n, 3, **F64)
    x[:, 0], x[:, 1], x[0, 1] = 1e6, -1e6, 1e6  # all queries 1; keys -1, but for one of 1
    weights = (wq[None], wk[None], wv[None])
    found = norm(lambda z: attention(z, *weights, 12.0, 1.0, eps), x, "two")
    only_values = float(cosine_bound(0 * wq[None], 0 * wk[None], wv[None], n, tau=12.0, nu=1, eps=eps))
    assert only_values == pytest.approx(math.sqrt(n / eps)) and found == pytest.approx(only_values, rel=1e-4)
    x[:, 1], x[:, 2] = -1e6, 1e6
    x[:2, 1], x[1, 2] = 0.0, -1e6
    found = norm(lambda z: attention(z, *weights, 12.0, 1.0, eps), x, "two")
    only_keys = float(cosine_bound(0 * wq[None], wk[None], 0 * wv[None], n, tau=12.0, nu=1, eps=eps))
    assert only_keys == pytest.approx(12 * math.sqrt(n / eps)) and found == pytest.approx(
        only_keys / math.sqrt(2), rel=1e-3
    )


def test_one_token_has_no_tau() -> None:
    weights = tuple(normal(i, 1, 3, 3) for i in range(3))
    numbers = dict(tau=12.0, nu=1.0, eps=0.01)
    assert norm(
        lambda z: attention(z, *weights, **numbers), torch.zeros(1, 3, **F64), "two"
    ) == pytest.approx(float(cosine_bound(*weights, 1, **numbers)))


def row_sum(u: Tensor) -> float:
    """∞-norm of the derivative of u ↦ u/√(|u|² + 1) at u."""
    return float(torch.linalg.matrix_norm(torch.func.jacrev(lambda z: hat(z, 1.0))(u), math.inf))


@pytest.mark.parametrize("width", [1, 2, 4, 5, 9, 32, 68, 81])
def test_the_unit_factor_is_the_largest_row_sum(width: int) -> None:
    c = unit_factor(width)
    if width <= 4:
        assert c == 1 == row_sum(torch.zeros(width, **F64))
    else:  # attained: |w_1|² = (1 - d^(-1/2))/2, the others equal, t = |u|²/(|u|² + 1) = (2B - 1)/(3B)
        first, b = math.sqrt((1 - width**-0.5) / 2), (math.sqrt(width) - 1) / 2
        w = torch.full((width,), math.sqrt((1 - first**2) / (width - 1)), **F64)
        w[0] = first
        t = (2 * b - 1) / (3 * b)
        assert row_sum(math.sqrt(t / (1 - t)) * w) == pytest.approx(c, rel=1e-12)
    rng = np.random.default_rng(width)
    for scale in (0.1, 0.5, 1.0, 2.0):
        for _ in range(10):
            u = torch.from_numpy(rng.normal(size=width))
            u[0] *= math.sqrt(width)
            assert row_sum(scale * u / u.norm()) <= c * (1 + 1e-12)


def test_where_the_unit_factor_passes_two() -> None:
    assert unit_factor(67) < 2 < unit_factor(68)
    assert [unit_factor(d) for d in (64, 81, 128, 512)] == pytest.approx(
        [1.9640, 2.1517, 2.5894, 4.7527], abs=5e-5
    )
    none, one = torch.zeros(1, 1, 81, **F64), torch.zeros(1, 1, 81, **F64).index_fill(2, torch.tensor(0), 1)
    more = dict(tau=1, nu=1, eps=1, p="inf", form="corrected")
    assert float(cosine_bound(none, none, one, 3, **more)) == pytest.approx(3 * unit_factor(81))
    ahead = torch.zeros(81, 2, **F64).index_fill(
        0, torch.tensor(0), 1
    )  # x W^O: columns count, and each has one 1
    assert float(cosine_bound(none, none, one, 3, wo=ahead, **more)) == pytest.approx(3 * unit_factor(81))


def test_shapes_and_gradients() -> None:
    weights = tuple(normal(i, 5, 2, 4, 2) for i in range(3))
    whole = cosine_bound(*weights, 3, tau=1, nu=1, eps=1, p="inf")
    assert whole.shape == (5,)
    assert float(whole[2]) == pytest.approx(
        float(cosine_bound(*(w[2] for w in weights), 3, tau=1, nu=1, eps=1, p="inf"))
    )
    one = weights[0][0].requires_grad_()
    cosine_bound(one, *(w[0] for w in weights[1:]), 3, tau=1, nu=1, eps=1).backward()
    assert one.grad is not None and float(one.grad.abs().max()) > 0


def test_wrong_arguments_are_refused() -> None:
    w = normal(0, 1, 3, 2)
    good = dict(tau=1, nu=1, eps=1)
    for change, words in (
        (dict(p="one"), "p is 'one'; allowed: two, inf"),
        (dict(form="best"), "allowed: printed, corrected, tight"),
        (dict(eps=0), "eps is 0: a positive"),
        (dict(wo=normal(0, 3, 3)), r"\(1, 3, 2\), \(3, 3\) do not fit"),
    ):
        with pytest.raises(ValueError, match=words):
            cosine_bound(w, w, w, 2, **(good | change))
    with pytest.raises(ValueError, match="length is 0"):
        cosine_bound(w, w, w, 0, **good)
    with pytest.raises(ValueError, match="do not fit"):
        cosine_bound(w[0], w[0], w[0], 2, **good)


# the parts of a LipsFormer ---------------------------------------------------------------------------------------------

# The pieces of theorem 2: slopes of GELU, norms of CenterNorm, products over branches.


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
@settings(max_examples=20)
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
    assert residual_bound([kappa] * 300, alpha=1 / 100) == pytest.approx(19.8, abs=0.05)


@pytest.mark.parametrize(("dim", "stretch"), [(2, 4.0), (64, 1.0320)])
def test_a_stack_of_small_maps_obeys_the_corrected_bound_and_can_exceed_the_printed_one(dim, stretch) -> None:
    """f constant: κ = 0, so exp(κ) = 1, but each of two CenterNorms stretches by D/(D-1)."""

    def centre(z: Tensor) -> Tensor:
        return dim / (dim - 1) * (z - z.mean())

    jacobian = torch.func.jacrev(lambda z: centre(centre(z + 0.5)))(normal(0, dim))
    found = float(torch.linalg.matrix_norm(jacobian, 2))
    assert found == pytest.approx(stretch, abs=5e-5) and residual_bound([0.0], form="printed") == 1
    both = [float(centre_norm_constant(dim))] * 2
    assert residual_bound([0.0], others=both) == pytest.approx(found)


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


def test_a_residual_bound_is_a_number_or_infinity():
    assert residual_bound([math.inf], alpha=0.0) == 1.0  # x + 0 f(x)
    assert residual_bound([1e308] * 9, alpha=1.0, others=[0.0]) == 0.0  # a constant map is among the factors
    assert residual_bound([1e308] * 9, alpha=1.0) == math.inf
    assert residual_bound([1e200] * 2, alpha=1.0, others=[1e-200, 1e-200]) == pytest.approx(1.0)
    for alpha in (math.nan, math.inf, [1.0, math.nan]):
        with pytest.raises(ValueError, match=r"alpha: .*allowed: finite numbers"):
            residual_bound([1.0, 2.0], alpha=alpha)
