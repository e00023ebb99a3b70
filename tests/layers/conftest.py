"""Self-attention token by token and head by head, as the formulas are written: the truth of the tests."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from relearn.layers.dot_product_attention import DotProductAttention
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
