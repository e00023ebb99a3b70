"""Bounds of L2 attention against exact Jacobian norms of a slow float64 attention written here."""

import math

import numpy as np
import pytest
import scipy.optimize
import scipy.special
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from relearn.maths.l2_bounds import bound_inf, bound_two, growth
from relearn.maths.lambert import covariance_bound, phi, phi_inverse

VALID = ("corrected", "tight", "tightest")


def attention(x: Tensor, wq: Tensor, wv: Tensor, wo: Tensor, mask: Tensor | None = None) -> Tensor:
    """F(X) as section 3.2 of kim2020 writes it: head by head, every distance formed; x (N, D)."""
    s = math.sqrt(wv.shape[-1])
    heads = []
    for q, v in zip(wq, wv):
        y = x @ q
        logits = -(y[:, None] - y[None]).square().sum(-1) / s
        if mask is not None:
            logits = logits.masked_fill(~mask, -math.inf)
        heads.append(logits.softmax(-1) @ x @ (q @ q.T / s) @ v)
    return torch.cat(heads, -1) @ wo


def jacobian(x: Tensor, *weights: Tensor, mask: Tensor | None = None) -> Tensor:
    """(N D, N D)."""
    whole = torch.func.jacrev(lambda one: attention(one, *weights, mask=mask))(x)
    return whole.reshape(x.numel(), -1)


def norm_inf(j: Tensor) -> float:
    return float(j.abs().sum(1).max())


def norm_two(j: Tensor) -> float:
    return float(torch.linalg.svdvals(j)[0])


def weights(
    seed: int, dim: int, heads: int, width: int | None = None, size: float = 1.0
) -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return size * torch.randn(shape, generator=generator, dtype=torch.float64)

    d = dim // heads
    return normal(heads, dim, width or d), normal(heads, dim, d), normal(dim, dim)


def unit() -> tuple[Tensor, Tensor, Tensor]:
    """D = H = 1, every weight 1: the setting of figures 2 and 7."""
    one = torch.ones(1, 1, 1, dtype=torch.float64)
    return one, one, one[0]


# --- numbers ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("length", "value"), [(1, 1.0), (100, 11.515), (300, 14.837), (1000, 18.682)])
def test_the_bound_of_figure_2(length: int, value: float) -> None:
    assert float(bound_inf(*unit(), length)) == pytest.approx(value, abs=6e-4)
    assert float(bound_inf(*unit(), length)) == pytest.approx(4 * covariance_bound(length) + 1, rel=1e-14)


@pytest.mark.parametrize(
    ("form", "value"), [("corrected", 590.8), ("tight", 110.6), ("unmasked", 83.2), ("tightest", 83.2)]
)
def test_unit_weights_and_a_thousand_tokens(form: str, value: float) -> None:
    assert float(bound_two(*unit(), 1000, form=form)) == pytest.approx(value, abs=0.05)


def test_the_tight_form_is_a_fifth_of_the_corrected_one() -> None:
    corrected, tight = (float(bound_two(*unit(), 1000, form=form)) for form in ("corrected", "tight"))
    assert tight <= 0.20 * corrected
    assert float(bound_two(*unit(), 1000)) <= 0.15 * corrected


@given(st.integers(1, 10**6))
def test_every_form_is_the_formula_and_the_order_of_the_forms(n: int) -> None:
    c, root = covariance_bound(n), math.sqrt(n)
    corrected, tight = growth(n, form="corrected"), growth(n, form="tight")
    assert corrected == growth(n, form="printed") == pytest.approx(root * (4 * c + 1), rel=1e-14)
    assert tight == pytest.approx(root + 2 * c + 2 * math.sqrt(c * 0.2784645427610738 * (n - 1)), rel=1e-12)
    assert tight <= corrected * (1 + 1e-15)
    assert growth(n, masked=True) == tight
    if n >= 3:
        unmasked = growth(n, form="unmasked")
        terms = 2 * n ** (1 / 4), 2 * c, 2 * math.sqrt(c * (root + 1) * math.log(n))
        assert unmasked == pytest.approx(sum(terms), rel=1e-12)
        assert growth(n) == min(tight, unmasked)
    else:
        assert growth(n) == tight


def test_the_unmasked_form_wins_for_long_sequences_alone() -> None:
    wins = [growth(n, form="unmasked") < growth(n, form="tight") for n in range(3, 1000)]
    first = wins.index(True) + 3
    assert 100 < first < 200 and all(wins[first - 3 :])


# --- validity -----------------------------------------------------------------------------------------

shapes = st.sampled_from(
    [(1, 1, None), (2, 1, None), (2, 2, None), (4, 2, None), (6, 3, None), (4, 2, 4), (3, 1, 1)]
)
spreads = st.sampled_from([0.1, 1.0, 3.0, 10.0])


@given(st.integers(0, 10**6), shapes, st.integers(1, 7), spreads, st.floats(0.05, 5))
@settings(max_examples=120)
def test_no_jacobian_exceeds_the_bounds(seed, shape, length, spread, size) -> None:
    w = weights(seed, *shape, size=size)
    generator = torch.Generator().manual_seed(seed + 1)
    x = spread * torch.randn(length, shape[0], generator=generator, dtype=torch.float64)
    seen = torch.rand(length, length, generator=generator) < 0.5
    causal = torch.ones(length, length, dtype=torch.bool).tril()
    for mask in (None, causal, seen | torch.eye(length, dtype=torch.bool)):
        j = jacobian(x, *w, mask=mask)
        assert norm_inf(j) <= float(bound_inf(*w, length)) * (1 + 1e-12)
        forms = VALID + (("unmasked",) if mask is None and length >= 3 else ())
        for form in forms:
            assert norm_two(j) <= float(bound_two(*w, length, form=form, masked=mask is not None)) * (
                1 + 1e-12
            )
        if mask is not None:
            visible = int(mask.sum(-1).max())
            assert norm_inf(j) <= float(bound_inf(*w, length, visible=visible)) * (1 + 1e-12)


def ascend(w: tuple[Tensor, ...], length: int, norm, steps: int = 60, starts: int = 4) -> float:
    """The largest norm that ascent on the input finds."""
    best = 0.0
    for seed in range(starts):
        generator = torch.Generator().manual_seed(seed)
        x = torch.randn(length, w[0].shape[1], generator=generator, dtype=torch.float64) * (1 + seed)
        x.requires_grad_()
        optimiser = torch.optim.Adam([x], lr=0.1)
        for _ in range(steps):
            value = norm(jacobian(x, *w))
            best = max(best, float(value.detach()))
            optimiser.zero_grad()
            (-value).backward()
            optimiser.step()
    return best


def smooth_inf(j: Tensor) -> Tensor:
    return j.abs().sum(1).max()


def smooth_two(j: Tensor) -> Tensor:
    return torch.linalg.matrix_norm(j, ord=2)


@pytest.mark.parametrize(
    ("dim", "heads", "width", "length"),
    [(1, 1, None, 8), (2, 1, None, 3), (4, 2, 4, 4), (2, 2, 2, 3), (2, 1, 1, 4)],
)
def test_ascent_on_the_input_stays_below_the_bounds(dim, heads, width, length) -> None:
    """width 4 with D/H = 2 is the matched parameter count of appendix M."""
    w = weights(3, dim, heads, width)
    found = ascend(w, length, smooth_inf)
    assert 0.02 * float(bound_inf(*w, length)) < found <= float(bound_inf(*w, length))
    found = ascend(w, length, smooth_two, steps=40, starts=2)
    for form in VALID:
        assert (
            0.02 * float(bound_two(*w, length, form=form)) < found <= float(bound_two(*w, length, form=form))
        )


def clusters(length: int, dim: int, direction: Tensor) -> Tensor:
    """One token at 0, half of the others at +r and half at -r along a direction, r² = 1 + c in the keys' units."""
    r = math.sqrt(1 + covariance_bound(length)) * dim**0.25
    signs = torch.ones(length, dtype=torch.float64)
    signs[0], signs[2::2] = 0, -1
    return r * signs[:, None] * direction


@pytest.mark.parametrize("length", [3, 65, 401])
def test_the_factor_four_cannot_be_smaller(length: int) -> None:
    """D = H = 1: a row sum of 4c + 1 - 2c/(1 + c), so that bound less constant is below 2 for every N."""
    c, x = covariance_bound(length), clusters(length, 1, torch.ones(1, dtype=torch.float64))
    row = torch.func.jacrev(lambda one: attention(one, *unit())[0])(x).abs().sum()
    assert float(row) == pytest.approx(4 * c + 1 - 2 * c / (1 + c), rel=1e-12)
    assert float(row) <= float(bound_inf(*unit(), length)) <= float(row) + 2


def test_the_root_of_the_width_is_needed() -> None:
    """D = w = 4, H = 1, all maps the identity: one row sum exceeds what the bound would be with √w left out."""
    eye = torch.eye(4, dtype=torch.float64)
    w, length = (eye[None], eye[None], eye), 201
    share = (1 - 4**-0.5) / 2  # of the other three coordinates together
    direction = torch.tensor([1 - share, share / 3, share / 3, share / 3], dtype=torch.float64).sqrt()
    x = clusters(length, 4, direction)
    row = torch.func.jacrev(lambda one: attention(one, *w)[0, 0])(x).abs().sum()
    without = (4 * covariance_bound(length) + 1) / 2
    assert without < float(row) <= float(bound_inf(*w, length))


def test_one_token_attains_the_bounds() -> None:
    """N = 1: F(X) = X A W^V W^O is linear, and for D = H = 1 every norm in the bounds is a number."""
    for q, v, o in ((1.0, 1.0, 1.0), (2.0, -0.5, 3.0)):
        w = tuple(
            torch.full(shape, value, dtype=torch.float64)
            for shape, value in (((1, 1, 1), q), ((1, 1, 1), v), ((1, 1), o))
        )
        j = jacobian(torch.randn(1, 1, dtype=torch.float64), *w)
        assert float(bound_inf(*w, 1)) == pytest.approx(norm_inf(j), rel=1e-14) == q**2 * abs(v * o)
        for form in VALID:
            assert float(bound_two(*w, 1, form=form)) == pytest.approx(norm_two(j), rel=1e-14)


def test_the_form_for_width_d_is_that_of_the_paper() -> None:
    wq, wv, wo = weights(0, 6, 2)
    c, s, n = covariance_bound(5), math.sqrt(3), range(2)

    def inf(m: Tensor) -> float:
        return norm_inf(m)

    expected = (
        (4 * c + 1 / s) * max(inf(wq[h]) * inf(wq[h].T) for h in n) * max(inf(wv[h].T) for h in n) * inf(wo.T)
    )
    assert float(bound_inf(wq, wv, wo, 5)) == pytest.approx(expected, rel=1e-12)
    total = math.sqrt(sum(norm_two(wq[h]) ** 4 * norm_two(wv[h]) ** 2 for h in n)) * norm_two(wo)
    assert float(bound_two(wq, wv, wo, 5, form="corrected")) == pytest.approx(
        math.sqrt(5) / s * (4 * c + 1) * total, rel=1e-12
    )
    printed = math.sqrt(sum(norm_two(wq[h]) ** 2 * norm_two(wv[h]) ** 2 for h in n)) * norm_two(wo)
    assert float(bound_two(wq, wv, wo, 5, form="printed")) == pytest.approx(
        math.sqrt(5) / s * (4 * c + 1) * printed, rel=1e-12
    )


def test_another_width_takes_its_root_and_keeps_the_scale() -> None:
    wq, wv, wo = weights(0, 4, 2, width=4)
    norms = [float(bound_inf(wq, wv, wo, n)) for n in (1, 6)]
    assert norms[1] / norms[0] == pytest.approx(4 * 2 * covariance_bound(6) + 1, rel=1e-12)
    assert float(bound_inf(wq, wv, wo, 6, scale=1.0)) == pytest.approx(math.sqrt(2) * norms[1], rel=1e-12)
    two = float(bound_two(wq, wv, wo, 6))
    assert float(bound_two(wq, wv, wo, 6, scale=1.0)) == pytest.approx(math.sqrt(2) * two, rel=1e-12)


def test_the_printed_form_is_violated() -> None:
    """K1: powers 2 and 4 of ‖W^Q‖ part at 1."""
    for n, size, printed, found in ((1, 2.0, 2.0, 4.0), (4, 10.0, 68.2837, 100.0)):
        w = (size * unit()[0], *unit()[1:])
        j = jacobian(torch.zeros(n, 1, dtype=torch.float64), *w)
        assert norm_two(j) == pytest.approx(found)
        assert float(bound_two(*w, n, form="printed")) == pytest.approx(printed, rel=1e-6)
        assert all(float(bound_two(*w, n, form=form)) >= found * (1 - 1e-12) for form in VALID)
    assert float(bound_two(10 * unit()[0], *unit()[1:], 4, form="corrected")) == pytest.approx(
        682.837, abs=1e-3
    )


@given(st.integers(0, 10**6), st.floats(0.1, 10), st.integers(1, 6))
@settings(max_examples=30)
def test_bounds_scale_as_the_map_does(seed: int, factor: float, length: int) -> None:
    """X → X/t with W^Q → t W^Q leaves P as it was and takes J to t² J."""
    wq, wv, wo = weights(seed, 4, 2)
    x = torch.randn(length, 4, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    before, after = jacobian(x, wq, wv, wo), jacobian(x / factor, factor * wq, wv, wo)
    torch.testing.assert_close(after, factor**2 * before, rtol=1e-8, atol=1e-8)
    for bound in (bound_inf, bound_two):
        one = float(bound(wq, wv, wo, length))
        assert float(bound(factor * wq, wv, wo, length)) == pytest.approx(factor**2 * one, rel=1e-10)
        assert float(bound(wq, factor * wv, wo, length)) == pytest.approx(factor * one, rel=1e-10)
        assert float(bound(wq, wv, factor * wo, length)) == pytest.approx(factor * one, rel=1e-10)
    printed = [float(bound_two(w, wv, wo, length, form="printed")) for w in (wq, factor * wq)]
    assert printed[1] == pytest.approx(factor * printed[0], rel=1e-10)  # the wrong power


def test_more_visible_keys_than_stated_break_the_bound() -> None:
    """The control of `visible`: a row that sees all 65 keys exceeds the bound for 8."""
    x = clusters(65, 1, torch.ones(1, dtype=torch.float64))
    j = jacobian(x, *unit())
    assert norm_inf(j) > float(bound_inf(*unit(), 65, visible=8))
    assert float(bound_inf(*unit(), 65, visible=65)) == float(bound_inf(*unit(), 65))
    assert float(bound_inf(*unit(), 65, visible=8)) == float(bound_inf(*unit(), 8))


def test_a_row_that_does_not_see_itself_breaks_the_bound() -> None:
    """The control of the mask: K6."""
    x = torch.tensor([[0.0], [10.0], [-10.0]], dtype=torch.float64)
    j = jacobian(x, *unit(), mask=~torch.eye(3, dtype=torch.bool))
    assert norm_inf(j) == pytest.approx(399) and norm_inf(j) > float(bound_inf(*unit(), 3))


# --- tensors ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bound", [bound_inf, bound_two])
def test_bounds_are_differentiable_in_every_weight(bound) -> None:
    w = tuple(one.requires_grad_() for one in weights(1, 4, 2, width=3))
    assert torch.autograd.gradcheck(lambda *some: bound(*some, 5), w)


@pytest.mark.parametrize("bound", [bound_inf, bound_two])
def test_bounds_of_a_batch_of_layers(bound) -> None:
    some = [weights(seed, 4, 2) for seed in range(3)]
    together = bound(*(torch.stack(parts) for parts in zip(*some)), 7)
    assert together.shape == (3,)
    torch.testing.assert_close(together, torch.stack([bound(*w, 7) for w in some]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_bounds_in_other_precisions(dtype: torch.dtype) -> None:
    w = weights(2, 4, 2)
    for bound in (bound_inf, bound_two):
        low = bound(*(one.to(dtype) for one in w), 5)
        assert low.dtype == dtype and float(low) == pytest.approx(
            float(bound(*w, 5)), rel=16 * torch.finfo(dtype).eps
        )


def test_what_has_no_bound_is_refused() -> None:
    w = weights(0, 4, 2)
    for bound in (bound_inf, bound_two):
        for length in (0, -3, 2.5):
            with pytest.raises(ValueError, match=f"length is {length}: a whole number"):
                bound(*w, length)
        with pytest.raises(ValueError, match="scale is 0"):
            bound(*w, 3, scale=0.0)
        for wrong in ((w[0][0], *w[1:]), (w[0][:1], *w[1:]), (w[0], w[1][:, :3], w[2]), (*w[:2], w[2][:3])):
            with pytest.raises(ValueError, match=r"do not fit: \(\.\.\., H, D, w\)"):
                bound(*wrong, 3)
        for position in range(3):
            bad = [one.clone() for one in w]
            bad[position].view(-1)[5] = math.nan
            with pytest.raises(ValueError, match="holds nan"):
                bound(*bad, 3)
        assert bound(w[0] * math.nan, *w[1:], 3, check_finite=False).isnan()
        assert bound(*w, 3, check_finite=False) == bound(*w, 3)
    with pytest.raises(ValueError, match="visible is 9: at most length = 8"):
        bound_inf(*w, 8, visible=9)
    with pytest.raises(ValueError, match="visible is 0"):
        bound_inf(*w, 8, visible=0)
    with pytest.raises(ValueError, match="'best'; allowed: printed, corrected"):
        bound_two(*w, 8, form="best")
    for length, masked in ((2, False), (8, True)):
        with pytest.raises(ValueError, match="form is 'unmasked': it holds for length ≥ 3 without a mask"):
            bound_two(*w, length, form="unmasked", masked=masked)


# Lambert's function ----------------------------------------------------------------------------------------------------

# Lambert's W inside the bounds of L2 attention: the inverse, analytic values, and the optimum that it gives.


@given(st.floats(0, 1e12))
def test_phi_undoes_its_inverse(y: float) -> None:
    assert phi(phi_inverse(y)) == pytest.approx(y, rel=1e-12, abs=1e-300)


@given(st.floats(0, 600))
def test_the_inverse_undoes_phi(c: float) -> None:
    assert phi_inverse(phi(c)) == pytest.approx(c, rel=1e-12, abs=1e-300)


@given(st.floats(0, 1e6))
def test_the_inverse_is_the_root_that_bisection_finds(y: float) -> None:
    root = scipy.optimize.brentq(lambda c: c * math.exp(c) * math.e - y, 0, 20, xtol=1e-13)
    assert phi_inverse(y) == pytest.approx(root, abs=1e-11)


@given(st.integers(1, 10**12))
def test_the_inverse_is_lamberts_function_of_scipy(y: int) -> None:
    assert phi_inverse(y) == pytest.approx(scipy.special.lambertw(y / math.e).real, rel=1e-15, abs=0)


@pytest.mark.parametrize(
    ("length", "value"), [(1, 0.0), (2, 0.278465), (3, 0.463056), (10, 1.101003), (100, 2.628650)]
)
def test_covariance_bounds_of_short_sequences_are_known(length: int, value: float) -> None:
    assert covariance_bound(length) == pytest.approx(value, abs=5e-7)
    assert phi_inverse(length - 1) == covariance_bound(length)


def test_omega_and_other_closed_forms() -> None:
    assert phi_inverse(math.e) == pytest.approx(0.5671432904097838, abs=1e-15)  # the omega constant, W(1)
    assert phi_inverse(math.e**2) == pytest.approx(1.0, abs=1e-15)  # φ(1) = e²
    assert phi(1.0) == pytest.approx(math.e**2) and phi(0.0) == 0.0


@given(st.integers(1, 10**9))
def test_never_above_the_logarithm_and_growing(length: int) -> None:
    c = covariance_bound(length)
    assert 0 <= c <= math.log(length)
    assert covariance_bound(length + 1) > c


def weighted_square(z: np.ndarray) -> float:
    """Σ P_j z_j² of a row that sees itself, where z = 0, and keys at distances z."""
    weights = np.exp(-np.square(z))
    return float((np.square(z) * weights).sum() / (1 + weights.sum()))


@pytest.mark.parametrize("length", [2, 3, 10, 30])
def test_it_is_the_maximum_over_all_distances(length: int) -> None:
    c = covariance_bound(length)
    assert weighted_square(np.full(length - 1, math.sqrt(1 + c))) == pytest.approx(c, rel=1e-12)
    best = 0.0
    for seed in range(8):
        start = np.random.default_rng(seed).uniform(0, 3, length - 1)
        found = scipy.optimize.minimize(lambda z: -weighted_square(z), start, method="BFGS")
        best = max(best, -found.fun)
        assert -found.fun <= c + 1e-12
    assert best == pytest.approx(c, rel=1e-6)


def test_a_row_that_does_not_see_itself_has_no_maximum() -> None:
    """Control: without the term 1 of its own key, one far key alone contributes its own square."""
    far = np.array([20.0])
    assert weighted_square(far) < 1e-150
    assert float((far**2 * np.exp(-(far**2))).sum() / np.exp(-(far**2)).sum()) == pytest.approx(400)


@pytest.mark.parametrize("length", [0, -1, 1.5, True])
def test_a_length_that_is_none_is_refused(length) -> None:
    with pytest.raises(ValueError, match=f"length is {length}: a whole number of tokens"):
        covariance_bound(length)


@pytest.mark.parametrize("value", [-1e-9, math.nan, math.inf])
def test_only_finite_numbers_from_zero_have_an_inverse(value: float) -> None:
    with pytest.raises(ValueError, match="y is "):
        phi_inverse(value)
    with pytest.raises(ValueError, match="c is "):
        phi(value)
