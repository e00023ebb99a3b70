"""Dot-product attention: torch's own module with the same weights, with and without biases; no Lipschitz constant."""

import pytest
import torch
from torch import Tensor, nn

from relearn.layers.dot_product_attention import DotProductAttention
from relearn.layers.l2_attention import L2Attention


def pair(bias: bool) -> tuple[DotProductAttention, nn.MultiheadAttention]:
    torch.manual_seed(0)
    ours = DotProductAttention(12, 3, bias=bias).double()
    truth = nn.MultiheadAttention(12, 3, bias=bias, batch_first=True).double()
    with torch.no_grad():
        for name, one in ours.named_parameters():
            if name.endswith("bias"):
                one.normal_()
        truth.in_proj_weight.copy_(torch.cat([ours.q.weight, ours.k.weight, ours.v.weight]))
        truth.out_proj.weight.copy_(ours.out.weight)
        if bias:
            truth.in_proj_bias.copy_(torch.cat([ours.q.bias, ours.k.bias, ours.v.bias]))
            truth.out_proj.bias.copy_(ours.out.bias)
    return ours, truth


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("causal", [False, True])
def test_equals_torchs_module(bias: bool, fused: bool, causal: bool) -> None:
    ours, truth = pair(bias)
    ours.fused = fused
    x = torch.randn(2, 7, 12, dtype=torch.float64)
    hidden = torch.ones(7, 7).triu(1).bool() if causal else None
    y, weights = truth(x, x, x, attn_mask=hidden, average_attn_weights=False)
    torch.testing.assert_close(ours(x, causal=causal), y, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(ours.probabilities(x, causal=causal), weights, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(ours.row(x, 4, causal=causal), y[:, 4], rtol=1e-12, atol=1e-12)


def test_maps_are_those_of_the_formula() -> None:
    """softmax((X W^Q)(X W^K)^T / s) X W^V of the heads, concatenated, times W^O (equations 4 and 5)."""
    layer, _ = pair(bias=False)
    x = torch.randn(5, 12, dtype=torch.float64)
    wq, wk, wv, wo = layer.maps()
    heads = [torch.softmax((x @ q) @ (x @ k).T / 2, -1) @ x @ v for q, k, v in zip(wq, wk, wv)]
    torch.testing.assert_close(torch.cat(heads, -1) @ wo, layer(x), rtol=1e-12, atol=1e-12)
    wq.sum().backward()
    assert torch.equal(layer.q.weight.grad, torch.ones(12, 12))


def test_its_derivative_grows_with_the_spread_of_the_others() -> None:
    """Theorem 3.1: at a token 0 without limit, as their covariance; with biases as well; not so in tied L2 attention."""
    torch.manual_seed(0)
    others = torch.randn(6, 4, dtype=torch.float64)

    def norms(layer: nn.Module) -> list[float]:
        found = []
        for spread in (1.0, 10.0, 100.0):
            x = torch.cat([torch.zeros(1, 4, dtype=torch.float64), spread * others])
            jacobian: Tensor = torch.autograd.functional.jacobian(layer, x).flatten(2).flatten(0, 1)
            found.append(jacobian.abs().sum(-1).max().item())
        return found

    plain = norms(DotProductAttention(4, 1, fused=False).double())
    assert plain[1] > 20 * plain[0] and plain[2] > 50 * plain[1]
    shifted = DotProductAttention(4, 1, bias=True, fused=False).double()
    nn.init.normal_(shifted.k.bias)
    # A bias b^Q on the query moves the point of slow saturation from 0 to the x with W^Q x = -b^Q: there it is the same.
    origin = torch.linalg.solve(shifted.q.weight, -nn.init.normal_(shifted.q.bias)).detach()
    grown = norms(nn.Sequential(Moved(origin), shifted))
    assert grown[1] > 20 * grown[0] and grown[2] > 50 * grown[1]
    tied = L2Attention(4, 1, fused=False).double()
    assert max(norms(tied)) < tied.lipschitz_bound(7)


class Moved(nn.Module):
    def __init__(self, by: Tensor) -> None:
        super().__init__()
        self.by = by

    def forward(self, x: Tensor) -> Tensor:
        return x + self.by


def test_biases_start_at_zero() -> None:
    layer = DotProductAttention(12, 3, bias=True)
    assert all((one == 0).all() for name, one in layer.named_parameters() if name.endswith("bias"))
    assert all(one.bias is None for one in DotProductAttention(12, 3).children())
