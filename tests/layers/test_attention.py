"""Multi-head attention: torch's own module with the same weights; masks; heads that do not divide the width."""

import pytest
import torch
from torch import nn

from relearn.layers.attention import MultiHeadAttention


def pair(dim: int = 12, heads: int = 3) -> tuple[MultiHeadAttention, nn.MultiheadAttention]:
    torch.manual_seed(0)
    ours = MultiHeadAttention(dim, heads).double().eval()
    truth = nn.MultiheadAttention(dim, heads, batch_first=True).double().eval()
    with torch.no_grad():
        truth.in_proj_weight.copy_(torch.cat([ours.q.weight, ours.k.weight, ours.v.weight]))
        truth.in_proj_bias.copy_(torch.cat([ours.q.bias, ours.k.bias, ours.v.bias]))
        truth.out_proj.weight.copy_(ours.out.weight)
        truth.out_proj.bias.copy_(ours.out.bias)
    return ours, truth


@pytest.mark.parametrize("causal", [False, True])
def test_equals_torchs_module(causal: bool) -> None:
    ours, truth = pair()
    x = torch.randn(2, 5, 12, dtype=torch.float64)
    memory = x if causal else torch.randn(2, 7, 12, dtype=torch.float64)
    hidden = torch.ones(5, 5).triu(1).bool() if causal else None
    expected, _ = truth(x, memory, memory, attn_mask=hidden, need_weights=False)
    torch.testing.assert_close(ours(x, memory, causal=causal), expected, rtol=1e-12, atol=1e-12)


def test_a_masked_position_has_no_influence_and_a_seen_one_has() -> None:
    ours, _ = pair()
    x, memory = torch.randn(1, 4, 12, dtype=torch.float64), torch.randn(1, 6, 12, dtype=torch.float64)
    mask = torch.tensor([True, True, False, True, True, False])[None, None, None]
    before = ours(x, memory, mask=mask)
    hidden, seen = memory.clone(), memory.clone()
    hidden[0, [2, 5]] += 1.0
    seen[0, 3] += 1.0
    assert torch.equal(ours(x, hidden, mask=mask), before)
    assert not torch.allclose(ours(x, seen, mask=mask), before)


def test_projected_memory_is_the_same_as_the_memory() -> None:
    ours, _ = pair()
    x, memory = torch.randn(2, 4, 12, dtype=torch.float64), torch.randn(2, 6, 12, dtype=torch.float64)
    assert torch.equal(ours.attend(x, *ours.project(memory)), ours(x, memory))


def test_second_derivative_with_the_mathematical_kernel() -> None:
    """What GradInit and MetaInit need: the gradient of a gradient, here against finite differences."""
    ours, _ = pair(4, 2)
    x = torch.randn(1, 3, 4, dtype=torch.float64, requires_grad=True)
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        assert torch.autograd.gradgradcheck(lambda x: ours(x, x, causal=True), x)


@pytest.mark.parametrize("wrong", [{"heads": 5}, {"heads": 0}, {"heads": 3, "dropout": 1.0}])
def test_what_does_not_fit_is_refused(wrong: dict) -> None:
    with pytest.raises(ValueError, match="allowed"):
        MultiHeadAttention(12, **wrong)
