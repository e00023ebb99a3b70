"""Multi-head attention: torch's own module with the same weights; masks; heads that do not divide the width.

Each name builds the corresponding layer.
"""

from contextlib import nullcontext

import pytest
import torch
from torch import nn

from relearn.layers.attention import MultiHeadAttention
from relearn.layers.attention_kinds import KINDS, attention
from relearn.layers.dot_product_attention import DotProductAttention
from relearn.layers.l2_attention import L2Attention


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


def test_each_word_has_its_layer() -> None:
    made = {kind: attention(kind, 12, 3, dropout=0.1, max_length=9, scale=0.5, bound="two") for kind in KINDS}
    assert isinstance(made["dp"], DotProductAttention)
    others = {kind: layer for kind, layer in made.items() if kind != "dp"}
    assert all(isinstance(layer, L2Attention) for layer in others.values())
    assert {kind: layer.tied for kind, layer in others.items()} == {kind: kind != "l2" for kind in others}
    assert all(layer.value_map for layer in others.values())
    assert {
        kind: layer.q.weight.shape[0] for kind, layer in others.items() if kind != "l2_matched"
    } == dict.fromkeys(("l2", "l2_tied", "contractive"), 12)
    assert made["l2_matched"].q.weight.shape == (24, 12)
    last = made["contractive"]
    assert (last.contractive, last.scale, last.max_length) == ("two", 0.5, 9)
    assert all(layer.contractive is None for kind, layer in others.items() if kind != "contractive")
    assert all(layer.dropout == 0.1 and layer.fused for layer in made.values())
    assert attention("contractive", 12, 3).contractive == "inf"


def test_another_word_is_refused() -> None:
    with pytest.raises(
        ValueError, match=r"attention: 'lstm' \(allowed: dp, l2, l2_tied, l2_matched, contractive\)"
    ):
        attention("lstm", 12, 3)


@pytest.mark.parametrize("memory", [5, 7])
def test_a_mask_and_causality_together_with_every_kernel(memory: int) -> None:
    """Some kernels of torch refuse a mask with ``is_causal``."""
    ours, _ = pair()
    x, z = torch.randn(2, 5, 12, dtype=torch.float64), torch.randn(2, memory, 12, dtype=torch.float64)
    mask = torch.rand(2, 1, 1, memory, generator=torch.Generator().manual_seed(0)) < 0.7
    mask[..., 0] = True
    expected = ours(x, z, mask=mask & torch.ones(5, memory).tril().bool())
    assert not torch.allclose(ours(x, z, mask=mask), expected)
    for kernel in (torch.nn.attention.SDPBackend.MATH, None):
        with torch.nn.attention.sdpa_kernel(kernel) if kernel else nullcontext():
            torch.testing.assert_close(ours(x, z, mask=mask, causal=True), expected)
