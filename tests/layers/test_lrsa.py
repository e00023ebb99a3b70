"""LRSA: equation 3 entry by entry, its invariance, and Jacobians below the bound at the inputs."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from relearn.layers.lrsa import LRSA
from relearn.layers.multihead import AsMultiheadAttention


def slow(layer: LRSA, x: Tensor) -> tuple[Tensor, Tensor]:
    """S (H, N, N) and the output (N, D) of one sequence, by loops."""
    length, dim = x.shape
    d = dim // layer.heads
    longest = math.sqrt(max(float(row @ row) for row in x) + layer.eps**2)
    scores = torch.zeros(layer.heads, length, length, dtype=x.dtype)
    mixed = torch.zeros(length, dim, dtype=x.dtype)
    for h in range(layer.heads):
        wq, wk, wv = (one.weight[h * d : (h + 1) * d].T for one in (layer.q, layer.k, layer.v))
        size = math.sqrt(sum(float((row @ wq) @ (row @ wq)) for row in x) + layer.eps**2)
        for i in range(length):
            for j in range(length):
                gap = x[i] @ wq - x[j] @ wk
                scores[h, i, j] = -layer.alpha * (gap @ gap) / (size * longest)
            weights = [math.exp(float(one)) for one in scores[h, i]]
            mixed[i, h * d : (h + 1) * d] = sum(p * (x[j] @ wv) for j, p in enumerate(weights)) / sum(weights)
    return scores, mixed @ layer.out.weight.T


def double(dim: int, heads: int, **given) -> LRSA:
    torch.manual_seed(0)
    return LRSA(dim, heads, **{"alpha": 3.0, "fused": False} | given).double().requires_grad_(False)


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("eps", [0.0, 0.5])
def test_equals_the_formula(fused: bool, eps: float) -> None:
    layer = double(6, 2, eps=eps, fused=fused)
    x = torch.randn(3, 5, 6, dtype=torch.float64) * torch.tensor([0.1, 1, 10])[:, None, None]
    for one, found, scores, weights in zip(x, layer(x), layer.scores(x), layer.probabilities(x)):
        expected, output = slow(layer, one)
        torch.testing.assert_close(scores, expected, rtol=1e-11, atol=1e-12)
        torch.testing.assert_close(weights, expected.softmax(-1), rtol=1e-11, atol=1e-12)
        torch.testing.assert_close(found, output, rtol=1e-11, atol=1e-12)
    torch.testing.assert_close(layer.row(x, 2), layer(x)[:, 2], rtol=1e-11, atol=1e-12)
    torch.testing.assert_close(layer(x[1]), layer(x)[1], rtol=1e-11, atol=1e-12)


def test_denominators_are_those_of_the_head_and_of_the_sequence() -> None:
    layer = double(6, 2, eps=0.0)
    x = torch.randn(2, 4, 6, dtype=torch.float64)
    size, longest = layer.denominators(x)
    torch.testing.assert_close(longest, x.norm(dim=-1).amax(-1))
    for h in range(2):
        queries = x @ layer.q.weight[3 * h : 3 * h + 3].T
        torch.testing.assert_close(size[:, h], torch.linalg.matrix_norm(queries))


@pytest.mark.parametrize("t", [1e-4, 7.0, 1e5])
def test_scale_of_the_input_without_eps(t: float) -> None:
    """F(tX) = t F(X); controls: with eps, and plain squared distances do not."""
    layer, smoothed = double(6, 2, eps=0.0), double(6, 2, eps=0.3)
    x = torch.randn(1, 5, 6, dtype=torch.float64)
    torch.testing.assert_close(layer(t * x), t * layer(x), rtol=1e-9, atol=1e-12 * t)
    assert not torch.allclose(smoothed(t * x), t * smoothed(x), rtol=1e-4, atol=1e-4 * t) or t > 1e4
    torch.testing.assert_close(layer.scores(-t * x), layer.scores(x), rtol=1e-9, atol=1e-12)


@given(st.integers(0, 10_000), st.integers(1, 4), st.sampled_from([1, 2]), st.floats(-3, 3), st.floats(-1, 2))
@settings(max_examples=25)
def test_jacobians_stay_below_the_bound(
    seed: int, length: int, heads: int, size: float, alpha: float
) -> None:
    torch.manual_seed(seed)
    layer = LRSA(4, heads, alpha=10**alpha, eps=0.01, fused=False).double().requires_grad_(False)
    for one in layer.parameters():
        one.mul_(10 ** (0.5 * torch.randn(())))
    x = 10**size * torch.randn(length, 4, dtype=torch.float64) ** 3
    found = torch.func.jacrev(layer)(x).reshape(4 * length, 4 * length)
    assert float(torch.linalg.matrix_norm(found, ord=2)) <= float(layer.output_bound(x)) * (1 + 1e-9)


def test_the_bound_of_one_token_is_the_norm_of_its_linear_map_where_heads_agree() -> None:
    layer = double(4, 1)
    x = torch.randn(2, 1, 4, dtype=torch.float64)
    product = torch.linalg.matrix_norm(layer.out.weight, 2) * torch.linalg.matrix_norm(layer.v.weight, 2)
    torch.testing.assert_close(layer.output_bound(x), product.expand(2))
    with torch.no_grad():
        nn.init.eye_(layer.out.weight)
    found = torch.func.jacrev(layer)(x[0]).reshape(4, 4)
    assert float(layer.output_bound(x[0])) == pytest.approx(float(torch.linalg.matrix_norm(found, 2)))


def test_the_bound_is_of_each_sequence_and_of_the_heads_together() -> None:
    from relearn.maths.lrsa_bounds import output_bound

    layer = double(4, 2)
    x = torch.randn(3, 5, 4, dtype=torch.float64)
    size, longest = layer.denominators(x)
    total = torch.zeros(3, dtype=torch.float64)
    for h in range(2):
        wq, wk, wv = (one.weight[2 * h : 2 * h + 2].T for one in (layer.q, layer.k, layer.v))
        each = output_bound(wq, wk, alpha=3.0, q=size[:, h], m=longest, length=5)
        total += (each * torch.linalg.matrix_norm(wv, 2)) ** 2
    expected = total.sqrt() * torch.linalg.matrix_norm(layer.out.weight, 2)
    torch.testing.assert_close(layer.output_bound(x), expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("size", [0.0, 1e-20, 1e-4, 1.0, 1e4])
def test_finite_at_every_size(dtype: torch.dtype, fused: bool, size: float) -> None:
    torch.manual_seed(0)
    layer = LRSA(8, 2, alpha=10.0, fused=fused).to(dtype)
    x = (size * torch.randn(2, 5, 8)).to(dtype).requires_grad_()
    y = layer(x)
    y.float().square().sum().backward()
    assert y.dtype == dtype and torch.isfinite(y).all() and torch.isfinite(x.grad).all()
    if size >= 1e-4:
        exact = layer.double()(x.detach().double())
        near = 2e-5 if dtype == torch.float32 else 0.05
        torch.testing.assert_close(
            y.detach().double(), exact.detach(), rtol=0, atol=near * float(exact.detach().abs().max())
        )


def test_all_zero_tokens_attend_uniformly_with_eps() -> None:
    x = torch.zeros(1, 4, 6, dtype=torch.float64)
    torch.testing.assert_close(
        double(6, 2).probabilities(x), torch.full((1, 2, 4, 4), 0.25, dtype=torch.float64)
    )
    assert torch.isnan(double(6, 2, eps=0.0)(x)).all()


def test_gradients_are_those_of_the_formula() -> None:
    layer = double(4, 2, eps=0.1).requires_grad_()
    x = torch.randn(1, 3, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(layer, (x,))
    fused = double(4, 2, eps=0.1, fused=True).requires_grad_()
    for one in (layer, fused):
        one(x).square().sum().backward()
    for one, other in zip(layer.parameters(), fused.parameters()):
        torch.testing.assert_close(one.grad, other.grad, rtol=1e-9, atol=1e-11)


def test_in_the_place_of_torchs_attention() -> None:
    x = torch.randn(2, 5, 8)
    torch.manual_seed(0)
    encoder = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    encoder.self_attn = AsMultiheadAttention(LRSA(8, 2, alpha=3.0), batch_first=True)
    assert encoder(x).shape == x.shape


def test_wrong_arguments_are_refused() -> None:
    layer = LRSA(8, 2, alpha=1.0)
    x = torch.randn(2, 5, 8)
    with pytest.raises(ValueError, match="mask: a tensor"):
        layer(x, mask=torch.ones(5, 5, dtype=torch.bool))
    with pytest.raises(ValueError, match="causal: True"):
        layer(x, causal=True)
    with pytest.raises(ValueError, match="alpha: 0"):
        LRSA(8, 2, alpha=0.0)
    with pytest.raises(ValueError, match="eps: -1"):
        LRSA(8, 2, alpha=1.0, eps=-1)
    with pytest.raises(ValueError, match="heads: 3"):
        LRSA(8, 3, alpha=1.0)
