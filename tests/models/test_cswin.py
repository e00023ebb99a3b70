"""CSWin: counts by arithmetic, the block by its formula, the stem at other patches."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from relearn.models import timm_names
from relearn.models.cross_windows import CrossShapedAttention
from relearn.models.cswin import CSwin, CSwinBlock, OverlappingStem


def count(dim, depths):
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
def test_published_sizes_have_their_parameters(parameters, name, dim, depths, expected):
    with torch.device("meta"):
        assert parameters(CSwin(**timm_names.NAMES[name][1])) == expected == count(dim, depths)


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


def test_a_small_one_is_its_parts_in_order():
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
