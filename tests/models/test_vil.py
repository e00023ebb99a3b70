"""ViL and ViL-LS: parameter counts by arithmetic, the kind of attention in each stage, and the mean over the last grid."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from relearn.models.vil import ViL

TINY = dict(img_size=24, patch_size=2, num_classes=3, embed_dim=4, depths=(1, 1, 2), num_heads=(1, 2, 2))


def count(depths: tuple[int, ...], *, long_short: bool) -> int:
    total, channels, side = 0, 3, 224
    for stage, (depth, heads, patch) in enumerate(zip(depths, (3, 3, 6, 12), (4, 2, 2, 2))):
        dim, side = 96 * 2**stage, side // patch
        token = int(stage < 3)
        total += patch * patch * channels * dim + dim + 2 * dim + token * dim
        block = 12 * dim * dim + 9 * dim + 4 * dim
        if stage < 2 and long_short:
            block += dim * 8 * heads + 8 * heads + 4 * dim + 19 * 19 * heads
        elif stage < 2:
            block += 27 * 27 * heads + 3 * heads
        else:
            block += (2 * side - 1) ** 2 * heads + 3 * heads * token
        total += depth * block
        channels = dim
    return total + 2 * channels + 1000 * channels + 1000


@pytest.mark.parametrize(
    ("depths", "attention", "expected"),
    [
        ((1, 2, 8, 1), "local", 24_657_328),
        ((1, 4, 16, 1), "local", 39_782_296),
        ((1, 8, 24, 1), "local", 55_801_384),
        ((1, 4, 16, 1), "long_short", 39_801_043),
        ((1, 8, 24, 1), "long_short", 55_837_279),
    ],
)
def test_published_sizes_have_their_parameters(parameters, depths, attention, expected):
    with torch.device("meta"):
        assert parameters(ViL(depths=depths, attention=attention)) == expected
    assert count(depths, long_short=attention == "long_short") == expected


@pytest.mark.parametrize("attention", ["local", "long_short"])
def test_a_small_one_is_its_parts_in_order(attention):
    torch.manual_seed(0)
    net = ViL(attention=attention, window=3, rank=2, **TINY).double().eval()
    for parameter in net.parameters():
        parameter.data.normal_(0, 0.3)
    windows = [stage.blocks[0].attention for stage in net.stages]
    assert [(one.window, one.reach) for one in windows] == (
        [(3, 3), (3, 3), (3, 0)] if attention == "local" else [(3, 1), (3, 1), (3, 0)]
    )
    assert [one.rank for one in windows] == ([0, 0, 0] if attention == "local" else [2, 2, 0])
    assert all(one.relative_position_bias_table is not None for one in windows)
    assert [one.class_bias is not None for one in windows] == [attention == "local"] * 2 + [False]
    x = torch.randn(2, 3, 24, 24).double()
    h = x
    for index, stage in enumerate(net.stages):
        conv, norm = stage.embed.conv, stage.embed.norm
        assert conv.kernel_size == conv.stride == (2, 2)
        h = F.conv2d(h, conv.weight, conv.bias, 2)
        grid = tuple(h.shape[2:])
        h = F.layer_norm(h.flatten(2).mT, norm.normalized_shape, norm.weight, norm.bias)
        if index < 2:
            h = torch.cat([stage.cls_token.expand(2, -1, -1), h], 1)
        for block in stage.blocks:
            h = block(h, grid)
        if index < 2:
            h = h[:, 1:].mT.unflatten(2, grid)
    torch.testing.assert_close(net(x), net.head(net.norm(h).mean(1)))


def test_what_is_not_allowed():
    with pytest.raises(ValueError, match="attention: 'full'"):
        ViL(attention="full", **TINY)
    with pytest.raises(ValueError, match=r"global_pool: 'token' \(allowed: avg"):
        ViL(global_pool="token", **TINY)
