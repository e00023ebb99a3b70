"""Attention to a memory of another width: the formula token by token, precision, masks, and why there is no constant."""

import pytest
import torch
from torch import Tensor

from relearn.layers.cross_attention import CrossAttention


def slow(layer: CrossAttention, x: Tensor, y: Tensor, z: Tensor, mask: Tensor | None = None) -> Tensor:
    width = layer.dim // layer.heads
    heads = []
    for h in range(layer.heads):
        rows = slice(h * width, (h + 1) * width)
        q, k, v = (f(one)[..., rows] for f, one in ((layer.q, x), (layer.k, y), (layer.v, z)))
        out = []
        for i in range(len(x)):
            logits = (
                torch.stack(
                    [q[i] @ one if layer.logits == "dot_product" else -((q[i] - one) ** 2).sum() for one in k]
                )
                / width**0.5
            )
            if mask is not None:
                logits = logits.masked_fill(~mask[i], -torch.inf)
            out.append(logits.softmax(0) @ v)
        heads.append(torch.stack(out))
    return layer.out(torch.cat(heads, -1))


@pytest.mark.parametrize("logits", ["dot_product", "l2"])
@pytest.mark.parametrize("bias", [False, True])
def test_equals_the_formula(logits: str, bias: bool) -> None:
    torch.manual_seed(0)
    layer = CrossAttention(6, 2, logits=logits, kdim=3, vdim=5, bias=bias).double()
    if bias:
        for one in (layer.q, layer.k, layer.v):
            torch.nn.init.normal_(one.bias)
    x, y, z = (torch.randn(2, n, d, dtype=torch.float64) for n, d in ((3, 6), (4, 3), (4, 5)))
    mask = torch.rand(2, 1, 3, 4) < 0.6
    mask[..., 1] = True
    for seen in (None, mask):
        found = layer(x, y, z, mask=seen)
        for b in range(2):
            expected = slow(layer, x[b], y[b], z[b], None if seen is None else seen[b, 0])
            torch.testing.assert_close(found[b], expected, rtol=1e-12, atol=1e-12)
        weights = layer.probabilities(x, y, mask=seen)
        torch.testing.assert_close(weights.sum(-1), torch.ones(2, 2, 3, dtype=torch.float64))
        if seen is not None:
            assert (weights[~seen.expand(2, 2, 3, 4)] == 0).all()


def test_values_default_to_the_keys() -> None:
    layer = CrossAttention(6, 2, kdim=3, vdim=3)
    x, y = torch.randn(1, 2, 6), torch.randn(1, 4, 3)
    assert torch.equal(layer(x, y), layer(x, y, y))


def test_far_from_the_origin_distances_keep_their_precision() -> None:
    torch.manual_seed(0)
    layer = CrossAttention(6, 2, logits="l2")
    with torch.no_grad():
        layer.q.weight.copy_(layer.k.weight)
    x, y = 1000 + torch.randn(1, 3, 6), 1000 + torch.randn(1, 4, 6)
    exact = layer.double().probabilities(x.double(), y.double())
    torch.testing.assert_close(layer.float().probabilities(x, y).double(), exact, rtol=1e-2, atol=2e-3)


def test_the_derivative_grows_with_the_square_of_the_distance_of_two_keys() -> None:
    """Hence no Lipschitz constant, in whatever form."""
    layer = CrossAttention(1, 1, logits="l2").double()
    with torch.no_grad():
        for one in layer.parameters():
            one.fill_(1.0)
    x = torch.zeros(1, 1, 1, dtype=torch.float64, requires_grad=True)
    for r in (1.0, 10.0, 100.0):
        y = torch.tensor([[[-r / 2], [r / 2]]], dtype=torch.float64)
        (slope,) = torch.autograd.grad(layer(x, y).sum(), x)
        assert slope.item() == pytest.approx(r * r / 2)


def test_wrong_arguments_are_refused() -> None:
    for given, said in (
        (dict(dim=6, heads=4), "heads: 4 of width 6"),
        (dict(dim=6, heads=2, logits="cosine"), "logits: 'cosine' .allowed: dot_product, l2"),
        (dict(dim=6, heads=2, kdim=0), "kdim, vdim: 0, 6"),
        (dict(dim=6, heads=2, dropout=1.0), "dropout: 1.0"),
    ):
        with pytest.raises(ValueError, match=said):
            CrossAttention(**given)
    layer, x = CrossAttention(6, 2, kdim=3), torch.randn(1, 2, 6)
    for given, said in (
        ((x, torch.randn(1, 4, 6)), r"keys: shape \(1, 4, 6\)"),
        ((x, torch.randn(1, 4, 3), torch.randn(1, 4, 3)), r"values: shape \(1, 4, 3\)"),
        ((x, torch.randn(1, 4, 3), torch.randn(1, 5, 6)), "values: 5 tokens"),
        ((x[:, :0], torch.randn(1, 4, 3), torch.randn(1, 4, 6)), "x: shape"),
    ):
        with pytest.raises(ValueError, match=said):
            layer(*given)
    with pytest.raises(ValueError, match="sees nothing"):
        layer(x, torch.randn(1, 4, 3), torch.randn(1, 4, 6), mask=torch.zeros(2, 4, dtype=torch.bool))


@pytest.mark.parametrize("logits", ["dot_product", "l2"])
def test_autocast_leaves_logits_and_softmax_in_float32(logits: str) -> None:
    torch.manual_seed(0)
    layer, x, y = CrossAttention(6, 2, logits=logits), 4 * torch.randn(1, 3, 6), 4 * torch.randn(1, 9, 6)
    with torch.autocast("cpu", torch.bfloat16):
        found = layer.probabilities(x, y)
        q, k, bias, _ = layer._logits(x, y, None, None)
    expected = (layer.beta * (q.float() @ k.float().mT + (0.0 if bias is None else bias))).softmax(-1)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-7)
