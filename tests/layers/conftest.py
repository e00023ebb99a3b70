"""Attention token by token and head by head, as the formulas are written: the truth of the tests."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from relearn.layers.dot_product_attention import DotProductAttention
from relearn.layers.efficient.token_attention import TokenAttention
from relearn.layers.l2_attention import L2Attention


def slow_attention(layer: DotProductAttention | L2Attention, x: Tensor, mask: Tensor | None = None) -> Tensor:
    """Output (N, D) for one sequence; ``mask`` (H, N, N), True = may be seen. Any bias of the layer is 0."""
    length, dim = x.shape
    d = dim // layer.heads
    s = (dim / layer.heads) ** 0.5
    done = torch.zeros(length, dim, dtype=x.dtype)
    for h in range(layer.heads):
        w = layer.q.weight.shape[0] // layer.heads
        wq = layer.q.weight[h * w : (h + 1) * w].T
        keys = layer.q if isinstance(layer, L2Attention) and layer.tied else layer.k
        wk = keys.weight[h * w : (h + 1) * w].T
        wv = layer.v.weight[h * d : (h + 1) * d].T
        for i in range(length):
            seen = [j for j in range(length) if mask is None or mask[h, i, j]]
            if isinstance(layer, L2Attention):
                logits = [-(((x[i] @ wq - x[j] @ wk) ** 2).sum()) / s for j in seen]
            else:
                logits = [(x[i] @ wq) @ (x[j] @ wk) / s for j in seen]
            weights = [torch.exp(one - max(logits)) for one in logits]
            mean = sum(p * x[j] for p, j in zip(weights, seen)) / sum(weights)
            if isinstance(layer, L2Attention) and layer.value_map:
                mean = mean @ (wq @ wq.T / s)
            done[i, h * d : (h + 1) * d] = mean @ wv
    return done @ layer.out.weight.T


@pytest.fixture
def slow() -> Callable[..., Tensor]:
    return slow_attention


def dense_attention(q: Tensor, k: Tensor, v: Tensor, sees: Callable[[int, int], bool]) -> Tensor:
    """Softmax attention (n, w) of one head and one sequence; ``sees(i, j)`` says whether token i sees token j."""
    rows = []
    for i in range(len(q)):
        js = [j for j in range(len(k)) if sees(i, j)]
        weights = torch.stack([torch.exp(q[i] @ k[j] / q.shape[1] ** 0.5) for j in js])
        rows.append(sum(p * v[j] for p, j in zip(weights, js)) / weights.sum())
    return torch.stack(rows)


def head_tensors(net: TokenAttention, row: Tensor, maps: str = "qkv", prefix: str = "") -> list[list[Tensor]]:
    """For each head its queries, keys and values (n, w) of one sequence (n, D), product by product."""
    width = net.dim // net.heads
    found = []
    for h in range(net.heads):
        own = slice(h * width, (h + 1) * width)
        one = [net.get_submodule(prefix + name) for name in maps]
        found.append([row @ m.weight[own].T + m.bias[own] for m in one])
    return found


@pytest.fixture
def dense() -> Callable[..., Tensor]:
    return dense_attention


@pytest.fixture
def heads_of() -> Callable[..., list[list[Tensor]]]:
    return head_tensors


@pytest.fixture
def woken() -> Callable[[TokenAttention], TokenAttention]:
    """Parameters as after training, in float64: a bias of 0 hides mistakes."""

    def wake(net: TokenAttention) -> TokenAttention:
        generator = torch.Generator().manual_seed(5)
        net = net.double().eval()
        with torch.no_grad():
            for one in net.parameters():
                one += 0.3 * torch.randn(one.shape, generator=generator, dtype=one.dtype)
        return net

    return wake


@pytest.fixture
def tokens() -> Callable[..., Tensor]:
    def draw(*shape: int, seed: int = 1) -> Tensor:
        return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)

    return draw
