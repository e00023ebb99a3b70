"""Norms of keys and values of windows and of compressed ones, with cases known by hand."""

import math

import pytest
import torch
from torch import nn

from relearn.measures.window_norms import norm_ratios
from relearn.models.long_short_lm import create

SIZES = dict(vocabulary=40, layers=3, dim=32, heads=2, ffn=48, window=8, segment=4, rank=1)


def test_dual_norm_aligns_at_the_start_and_without_it_means_are_shorter() -> None:
    torch.manual_seed(0)
    tokens = torch.randint(40, (4, 64))
    aligned = norm_ratios(create(**SIZES), tokens)
    assert [row["layer"] for row in aligned] == [1, 2, 3]
    assert all(abs(row[key] - 1) < 0.01 for row in aligned for key in ("ratio", "value_ratio"))
    apart = norm_ratios(create(**SIZES, dual_norm=False), tokens)
    # weights of a start are nearly even: the mean of four independent vectors is half as long
    assert 1.6 < apart[0]["ratio"] < 2.3 and 1.6 < apart[0]["value_ratio"] < 2.3
    assert all(row["ratio"] > 1.02 and row["value_ratio"] > 1.02 for row in apart)


def test_two_opposite_pairs_of_orthogonal_keys() -> None:
    """Even weights on two orthogonal vectors of length a: their mean has length a/√2."""
    net = create(**{**SIZES, "layers": 1, "segment": 2, "vocabulary": 2}, dual_norm=False).double()
    block = net.blocks[0]
    with torch.no_grad():
        block.attention.projection.weight.zero_()
        block.attention.kv.weight.copy_(
            torch.eye(32).repeat(2, 1) * torch.tensor([3.0] * 32 + [5.0] * 32)[:, None]
        )
        signs = torch.tensor([1.0, 1.0, -1.0, -1.0] * 8), torch.tensor([1.0, -1.0] * 16)  # mean 0, orthogonal
        net.embedding.weight.copy_(torch.stack(signs))
    (row,) = norm_ratios(net, torch.tensor([[0, 1] * 8]))
    assert row["ratio"] == pytest.approx(math.sqrt(2), rel=1e-6)
    assert row["value_ratio"] == pytest.approx(math.sqrt(2), rel=1e-6)
    (same,) = norm_ratios(net, torch.zeros(1, 16, dtype=torch.int64))  # a mean of equals is as long as they
    assert same["ratio"] == pytest.approx(1, rel=1e-6)


def test_modes_and_hooks_are_found_again() -> None:
    net = create(**SIZES, dropout=0.5).train()
    net.norm.eval()
    norm_ratios(net, torch.randint(40, (1, 12)))
    assert net.training and not net.norm.training
    assert all(not layer._forward_pre_hooks for layer in net.attention_layers())


def test_what_cannot_be_measured_is_reported() -> None:
    with pytest.raises(ValueError, match="no layer"):
        norm_ratios(create(**SIZES, attention="full"), torch.zeros(1, 9, dtype=torch.int64))
    for net, length in ((create(**SIZES), 4), (create(**{**SIZES, "rank": 0}), 30)):
        with pytest.raises(ValueError, match="more than a segment"):
            norm_ratios(net, torch.zeros(1, length, dtype=torch.int64))
    assert isinstance(net, nn.Module)
