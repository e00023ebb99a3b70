"""Scaled cosine similarity attention against a slow truth: heads, bias, masks of windows, gradients, bounds."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from relearn.layers.cosine_attention import CosineAttention


def layer(dim: int, heads: int, seed: int = 0, **kw) -> CosineAttention:
    torch.manual_seed(seed)
    one = CosineAttention(dim, heads, **kw).double()
    for parameter in one.parameters():
        nn.init.normal_(parameter, std=0.7)
    return one


def hat(u: Tensor, eps: float) -> Tensor:
    return u / math.sqrt(float(u @ u) + eps)


def slow(one: CosineAttention, x: Tensor, bias: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
    """One sequence (N, D), token by token and head by head; mask (N, N)."""
    length, dim = x.shape
    d = dim // one.heads
    weight, shift = one.qkv.weight, one.qkv.bias
    done = torch.zeros(length, dim, dtype=x.dtype)
    for h in range(one.heads):
        rows = [slice(part * dim + h * d, part * dim + (h + 1) * d) for part in range(3)]
        q, k, v = ([weight[r] @ token + (0 if shift is None else shift[r]) for token in x] for r in rows)
        for i in range(length):
            seen = [j for j in range(length) if mask is None or mask[i, j]]
            logits = [float(one.tau * hat(q[i], one.eps) @ hat(k[j], one.eps)) for j in seen]
            if bias is not None:
                logits = [logit + float(bias[h, i, j]) for logit, j in zip(logits, seen)]
            weights = [math.exp(logit) for logit in logits]
            for w, j in zip(weights, seen):
                value = hat(v[j], one.eps) if one.normalise_values else v[j]
                done[i, h * d : (h + 1) * d] += w / sum(weights) * value
    done = done * one.nu / (one.heads if one.average_heads else 1)
    return one.proj(done)


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize(
    ("dim", "heads", "length", "kw"),
    [
        (4, 2, 5, {}),
        (6, 1, 3, dict(tau=10.0, normalise_values=False, average_heads=False)),
        (6, 3, 1, dict(nu=0.5, eps=0.3, qkv_bias=False)),
        (4, 1, 4, dict(eps=2.0, project=False, average_heads=False)),
    ],
)
def test_it_is_its_formula(dim: int, heads: int, length: int, kw: dict, fused: bool) -> None:
    one = layer(dim, heads, fused=fused, **kw).requires_grad_(False)
    x = torch.randn(2, length, dim, dtype=torch.float64)
    bias = torch.randn(heads, length, length, dtype=torch.float64)
    mask = torch.rand(length, length) < 0.5
    mask.fill_diagonal_(True)
    for call in ({}, dict(bias=bias), dict(mask=mask), dict(bias=bias, mask=mask)):
        expected = torch.stack([slow(one, each, **call) for each in x])
        torch.testing.assert_close(one(x, **call), expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("fused", [True, False])
def test_every_window_has_its_own_mask_and_all_images_the_same(fused: bool) -> None:
    one = layer(4, 2, fused=fused).requires_grad_(False)
    x = torch.randn(6, 3, 4, dtype=torch.float64)  # two images of three windows
    masks = torch.rand(3, 3, 3) < 0.6
    masks |= torch.eye(3, dtype=torch.bool)
    bias = torch.randn(2, 3, 3, dtype=torch.float64)
    expected = torch.stack([slow(one, each, bias, masks[b % 3]) for b, each in enumerate(x)])
    torch.testing.assert_close(one(x, bias=bias, mask=masks), expected, rtol=1e-10, atol=1e-10)
    weights = one.probabilities(x, bias=bias, mask=masks)
    assert bool((weights[4, :, ~masks[1]] == 0).all()) and bool((weights[3, :, masks[0]] > 0).all())
    mixed = (weights @ one._hats(one._rows(x))[2]).transpose(1, 2).flatten(2) * one.gain
    torch.testing.assert_close(one.proj(mixed), expected, rtol=1e-10, atol=1e-10)


def test_fused_and_plain_have_the_same_gradients() -> None:
    one, x = layer(4, 2), torch.randn(4, 3, 4, dtype=torch.float64, requires_grad=True)
    bias = torch.randn(2, 3, 3, dtype=torch.float64, requires_grad=True)
    masks = torch.stack([torch.ones(3, 3).tril(), torch.ones(3, 3)]).bool()
    found = []
    for fused in (True, False):
        one.fused = fused
        y = one(x, bias=bias, mask=masks)
        found.append(torch.autograd.grad(y.square().sum(), [x, bias, *one.parameters()]))
    for a, b in zip(*found):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-12)
    assert float(found[0][1].abs().max()) > 0  # the bias learns


def test_a_learned_bias_keeps_the_fused_kernel() -> None:
    layer, x = CosineAttention(8, 2), torch.randn(2, 5, 8)
    bias = torch.randn(2, 5, 5, requires_grad=True)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as seen:
        layer(x, bias=bias)
    names = {event.key for event in seen.key_averages()}
    assert "aten::_scaled_dot_product_flash_attention_for_cpu" in names
    assert "aten::_safe_softmax" not in names


@given(st.integers(0, 1000), st.integers(1, 5), st.sampled_from([(2, 1), (4, 2), (6, 3)]), st.floats(0.1, 10))
@settings(max_examples=25)
def test_no_jacobian_exceeds_the_bounds(seed: int, length: int, shape: tuple[int, int], size: float) -> None:
    """eps is large enough that random tokens come near the worst case; a bias and a mask change nothing."""
    one = layer(*shape, seed, eps=0.5, tau=3.0, nu=2.0, fused=False).requires_grad_(False)
    x = size * torch.randn(1, length, shape[0], dtype=torch.float64)
    bias = torch.randn(shape[1], length, length, dtype=torch.float64)
    mask = (torch.rand(length, length) < 0.5) | torch.eye(length, dtype=torch.bool)
    for call in ({}, dict(bias=bias, mask=mask)):
        jacobian = torch.func.jacrev(lambda z, call=call: one(z, **call))(x).reshape(x.numel(), -1)
        for p, order in (("two", 2), ("inf", math.inf)):
            norm = float(torch.linalg.matrix_norm(jacobian, order))
            for form in ("corrected", "tight"):
                assert norm <= float(one.lipschitz_bound(length, p, form)) * (1 + 1e-9)


def test_the_bound_of_one_token_at_the_origin_is_attained() -> None:
    one = layer(4, 1, eps=0.01, qkv_bias=False, project=False, fused=False).requires_grad_(False)
    jacobian = torch.func.jacrev(lambda z: layer_at(one, z))(torch.zeros(4, dtype=torch.float64))
    assert float(torch.linalg.matrix_norm(jacobian, 2)) == pytest.approx(
        float(one.lipschitz_bound(1)), rel=1e-9
    )


def layer_at(one: CosineAttention, token: Tensor) -> Tensor:
    return one(token[None, None])[0, 0]


def test_without_normalised_values_there_is_no_constant() -> None:
    released = dict(normalise_values=False, tau=10.0, average_heads=False)
    one = layer(4, 1, fused=False, eps=1.0, **released).requires_grad_(False)
    base = torch.randn(1, 2, 4, dtype=torch.float64)
    other = base - base.mean(1, keepdim=True)

    def norm(size: float) -> float:
        """A token at the origin between two that move apart: its query has slope, and the values differ ever more."""
        x = torch.cat([torch.zeros(1, 1, 4, dtype=torch.float64), size * other], 1)
        return float(torch.func.jacrev(one)(x).norm())

    with torch.no_grad():
        one.qkv.bias.zero_()
    assert norm(1000.0) > 9 * norm(100.0) > 80 * norm(10.0)
    with pytest.raises(ValueError, match="no Lipschitz constant"):
        one.lipschitz_bound(3)


def test_a_zero_token_and_half_precision() -> None:
    zero = torch.zeros(1, 2, 4)
    one = CosineAttention(4, 2, qkv_bias=False)
    x = zero.requires_grad_()
    one(x).sum().backward()
    assert bool(x.grad.isfinite().all())
    for dtype in (torch.float16, torch.bfloat16):
        half = CosineAttention(4, 2).to(dtype)
        large = 300 * torch.ones(1, 2, 4, dtype=dtype)  # squares beyond what fp16 holds
        assert half(large).dtype == dtype and bool(half(large).isfinite().all())


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match=r"heads: 3 of width 4"):
        CosineAttention(4, 3)
    with pytest.raises(ValueError, match=r"eps: 0\.0 \(allowed: a positive number\)"):
        CosineAttention(4, 2, eps=0.0)
    one, x = CosineAttention(4, 2), torch.zeros(4, 3, 4)
    for call, words in (
        (dict(bias=torch.zeros(3, 3)), r"bias: shape \(3, 3\)"),
        (dict(mask=torch.zeros(3, 3)), "dtype torch.float32"),
        (dict(mask=torch.ones(3, 3, 3, dtype=torch.bool)), "a divisor of 4"),
        (dict(mask=torch.ones(2, 2, dtype=torch.bool)), r"mask: shape \(2, 2\)"),
    ):
        with pytest.raises(ValueError, match=words):
            one(x, **call)
    with pytest.raises(ValueError, match="N >= 1"):
        one(torch.zeros(1, 0, 4))


def test_a_row_that_sees_nothing_is_refused():
    layer, mask = CosineAttention(4, 2), torch.ones(2, 3, 3, dtype=torch.bool)
    mask[1, 2] = False
    for call in (layer, layer.probabilities):
        with pytest.raises(ValueError, match="mask: row 2 of sequence 1, head 0, sees nothing"):
            call(torch.randn(4, 3, 4), mask=mask)
    counted = layer.to("meta")(torch.empty(4, 3, 4, device="meta"), mask=mask.to("meta"))
    assert counted.shape == (4, 3, 4)
