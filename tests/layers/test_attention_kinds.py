"""Each name builds the corresponding layer."""

from __future__ import annotations

import pytest

from relearn.layers.attention_kinds import KINDS, attention
from relearn.layers.dot_product_attention import DotProductAttention
from relearn.layers.l2_attention import L2Attention


def test_each_word_has_its_layer() -> None:
    made = {kind: attention(kind, 12, 3, dropout=0.1, max_length=9, scale=0.5, bound="two") for kind in KINDS}
    assert isinstance(made["dp"], DotProductAttention)
    others = {kind: layer for kind, layer in made.items() if kind != "dp"}
    assert all(isinstance(layer, L2Attention) for layer in others.values())
    assert {kind: layer.tied for kind, layer in others.items()} == {kind: kind != "l2" for kind in others}
    assert {kind: layer.value_map for kind, layer in others.items()} == {
        kind: kind != "l2" for kind in others
    }
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
