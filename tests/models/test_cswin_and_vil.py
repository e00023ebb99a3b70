"""CSWin: counts by arithmetic, the block by its formula, the stem at other patches.

ViL and ViL-LS: parameter counts by arithmetic, the kind of attention in each stage, and the mean over the last grid.
"""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from relearn.models import timm_names
from relearn.models.cross_windows import CrossShapedAttention
from relearn.models.cswin import CSwin, CSwinBlock, OverlappingStem
from relearn.models.vil import ViL


def count_of_cswin(dim, depths):
    total = 49 * 3 * dim + dim + 2 * dim
    for stage, depth in enumerate(depths):
        if stage:
            total += 9 * dim * 2 * dim + 2 * dim + 2 * 2 * dim
            dim *= 2
        attention = 4 * (dim * dim + dim) + 9 * dim + dim
        total += depth * (attention + 8 * dim * dim + 5 * dim + 2 * 2 * dim)
    return total + 2 * dim + 1000 * dim + 1000


@pytest.mark.parametrize(
    ("name", "dim", "depths", "expected"),
    [
        ("cswin_tiny", 64, (1, 2, 21, 1), 22_320_552),
        ("cswin_small", 64, (2, 4, 32, 2), 34_643_304),
        ("cswin_base", 96, (2, 4, 32, 2), 77_382_184),
    ],
)
def test_cswin_published_sizes_have_their_parameters(parameters, name, dim, depths, expected):
    with torch.device("meta"):
        assert parameters(CSwin(**timm_names.NAMES[name][1])) == expected == count_of_cswin(dim, depths)


def test_the_block_is_its_formula():
    torch.manual_seed(0)
    attention = CrossShapedAttention(8, 2, (4, 3), 2, similarity="dot_product")
    block = CSwinBlock(8, attention, 4.0, 0.0).double()
    for parameter in block.parameters():
        parameter.data.normal_()
    x = torch.randn(2, 4, 3, 8, dtype=torch.double)
    y = x + attention(F.layer_norm(x, (8,), block.norm1.weight, block.norm1.bias))
    hidden = block.mlp.fc1(F.layer_norm(y, (8,), block.norm2.weight, block.norm2.bias))
    torch.testing.assert_close(block(x), y + block.mlp.fc2(F.gelu(hidden)))
    dropped = CSwinBlock(8, attention, 4.0, 1 - 1e-12).double().train()
    assert torch.equal(dropped(x), x)


@pytest.mark.parametrize("patch", [1, 2, 3, 4, 8])
def test_the_stem_keeps_the_grid_at_any_patch(patch):
    with torch.device("meta"):
        stem = OverlappingStem(3, 5, patch)
        assert stem(torch.empty(2, 3, 3 * patch, 5 * patch)).shape == (2, 3, 5, 5)
    assert stem.conv.kernel_size == (2 * patch - 1,) * 2  # 7 at the published patch of 4


def test_cswin_a_small_one_is_its_parts_in_order():
    torch.manual_seed(0)
    size = dict(embed_dim=8, depths=(1, 2, 1), num_heads=(2, 4, 4), split=(1, 2, 7))
    net = CSwin(img_size=32, num_classes=3, **size).double()
    attentions = [one for one in net.modules() if isinstance(one, CrossShapedAttention)]
    assert [one.stripes for one in attentions] == [
        [(8, 1), (1, 8)],
        [(4, 2), (2, 4)],
        [(4, 2), (2, 4)],
        [(2, 2)],
    ]
    assert {one.similarity for one in attentions} == {"dot_product"}
    x = torch.randn(2, 3, 32, 32, dtype=torch.double)
    h = F.conv2d(x, net.patch_embed.conv.weight, net.patch_embed.conv.bias, 4, 2).permute(0, 2, 3, 1)
    h = net.patch_embed.norm(h)
    for index, stage in enumerate(net.layers):
        if index:
            conv = stage[0].conv
            h = F.conv2d(h.permute(0, 3, 1, 2), conv.weight, conv.bias, 2, 1).permute(0, 2, 3, 1)
            h = stage[0].norm(h)
        for block in list(stage)[1:]:
            h = block(h)
    torch.testing.assert_close(net(x), net.head.fc(net.norm(h).mean((1, 2))))
    for one in net.modules():
        if isinstance(one, nn.Linear):
            assert one.weight.std().item() == pytest.approx(0.02, rel=0.3) and not one.bias.any()
    with pytest.raises(ValueError, match="split"):
        CSwin(split=(1, 2))


TINY_VIL = dict(img_size=24, patch_size=2, num_classes=3, embed_dim=4, depths=(1, 1, 2), num_heads=(1, 2, 2))


def count_of_vil(depths: tuple[int, ...], *, long_short: bool) -> int:
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
def test_vil_published_sizes_have_their_parameters(parameters, depths, attention, expected):
    with torch.device("meta"):
        assert parameters(ViL(depths=depths, attention=attention)) == expected
    assert count_of_vil(depths, long_short=attention == "long_short") == expected


@pytest.mark.parametrize("attention", ["local", "long_short"])
def test_vil_a_small_one_is_its_parts_in_order(attention):
    torch.manual_seed(0)
    net = ViL(attention=attention, window=3, rank=2, **TINY_VIL).double().eval()
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
        ViL(attention="full", **TINY_VIL)
    with pytest.raises(ValueError, match=r"global_pool: 'token' \(allowed: avg"):
        ViL(global_pool="token", **TINY_VIL)
