"""Softmax attention one query at a time: the truth of the sparse patterns."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from relearn.layers.efficient.token_attention import TokenAttention


def dense_attention(q: Tensor, k: Tensor, v: Tensor, sees: Callable[[int, int], bool]) -> Tensor:
    """(n, w) of one head and one sequence; ``sees(i, j)`` says whether token i sees token j."""
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
