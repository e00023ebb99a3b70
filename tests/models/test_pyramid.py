"""Stages that halve: grids, rates, refused sizes, and the convolution between stages."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from relearn.models.pyramid import Downsample, Pyramid


class Noted(nn.Module):
    """A block that keeps what it was asked for."""

    def __init__(self, *asked):
        super().__init__()
        self.asked = asked

    def forward(self, x):
        assert tuple(x.shape[1:]) == (*self.asked[2], self.asked[0])
        return x


def made(**size):
    defaults = dict(
        img_size=24, patch_size=4, num_classes=3, embed_dim=2, depths=(1, 2, 3), num_heads=(1, 2, 4)
    )
    return Pyramid(
        stem=lambda channels, dim, sides, patch: nn.Sequential(
            nn.Conv2d(channels, dim, patch, patch), Last()
        ),
        halving=lambda dim: Downsample(dim, nn.Identity(), 2),
        block=Noted,
        last_norm=nn.LayerNorm,
        **(defaults | size),
    )


class Last(nn.Module):
    def forward(self, x):
        return x.permute(0, 2, 3, 1)


def test_each_stage_halves_the_grid_and_doubles_the_width():
    net = made(img_size=(24, 40), drop_path_rate=0.5)
    asked = [block.asked for block in net.modules() if isinstance(block, Noted)]
    grids = {0: (6, 10), 1: (3, 5), 2: (2, 3)}
    stages = [(0, 0), (1, 0), (1, 1), (2, 0), (2, 1), (2, 2)]
    assert [one[:5] for one in asked] == [(2 * 2**s, 2**s, grids[s], s, i) for s, i in stages]
    assert [one[5] for one in asked] == pytest.approx([0, 0.1, 0.2, 0.3, 0.4, 0.5])
    assert net(torch.zeros(2, 3, 24, 40)).shape == (2, 3)
    assert net.forward_features(torch.zeros(2, 3, 24, 40)).shape == (2, 2, 3, 8)
    assert [one["num_chs"] for one in net.feature_info] == [2, 4, 8]
    assert [one["reduction"] for one in net.feature_info] == [4, 8, 16]


def test_the_head_is_a_mean_and_a_linear_layer():
    net = made().double()
    tokens = torch.randn(2, 2, 2, 8, dtype=torch.double)
    mean = tokens.mean((1, 2))
    torch.testing.assert_close(net.forward_head(tokens, pre_logits=True), mean)
    fc = net.get_classifier()
    torch.testing.assert_close(net.forward_head(tokens), mean @ fc.weight.T + fc.bias)
    net.reset_classifier(7)
    assert net.get_classifier().weight.shape == (7, 8) and net.num_classes == 7
    net.reset_classifier(0)
    torch.testing.assert_close(net.forward_head(tokens), mean)


@pytest.mark.parametrize(("kernel", "border"), [(2, 0), (3, 1)])
def test_downsampling_is_a_sum_over_its_kernel(kernel, border):
    torch.manual_seed(0)
    layer = Downsample(2, nn.LayerNorm(4), kernel).double()
    x = torch.randn(1, 5, 4, 2, dtype=torch.double)
    wide = F.pad(x, (0, 0, border, 3, border, 3))
    out = torch.zeros(1, 3, 2, 4, dtype=torch.double)
    for i in range(3):
        for j in range(2):
            part = wide[0, 2 * i : 2 * i + kernel, 2 * j : 2 * j + kernel]
            out[0, i, j] = torch.einsum("hwc,ochw->o", part, layer.conv.weight) + layer.conv.bias
    torch.testing.assert_close(layer(x), F.layer_norm(out, (4,)))


def test_sizes_that_do_not_fit_are_refused():
    for size, said in (
        (dict(img_size=30), r"img_size: 30 \(allowed: multiples of the patch, 4; 28 and 32 fit\)"),
        (dict(img_size=2), "4 and 4 fit"),
        (dict(img_size=(24, 24, 3)), "img_size"),
        (dict(patch_size=0), "patch_size: 0"),
        (dict(depths=(1, 0, 3)), r"depths: \[1, 0, 3\] \(allowed: a number >= 1 for each of 3 stages\)"),
        (dict(num_heads=(1, 2)), r"num_heads: \[1, 2\]"),
        (dict(depths=(), num_heads=()), "depths"),
        (dict(drop_path_rate=1.0), "drop_path_rate: 1.0"),
        (dict(drop_rate=-0.1), "drop_rate: -0.1"),
    ):
        with pytest.raises(ValueError, match=said) as caught:
            made(**size)
        assert "\n" not in str(caught.value)
    for images in (torch.zeros(1, 3, 28, 24), torch.zeros(1, 1, 24, 24)):
        with pytest.raises(ValueError, match=r"allowed: \('B', 3, 24, 24\)"):
            made()(images)
