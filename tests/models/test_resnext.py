"""Parameter count by arithmetic from the paper's table; the block against timm's with its cardinality."""

from functools import partial

import pytest
import torch
from torch import nn

from relearn.models import create
from relearn.models.resnext import CARDINALITY, GroupedBottleneck


def test_it_has_the_published_parameters(size, published, parameters):
    total, inputs = size.unit(1, 3, 64), 64
    for grouped in (128, 256, 512):
        total += size.unit(1, inputs, 2 * grouped)
        for _ in range(3):
            total += size.unit(1, inputs, grouped) + size.unit(3, grouped, grouped, groups=2)
            total += size.unit(1, grouped, 2 * grouped)
            inputs = 2 * grouped
    total += size.linear(1024, 10)
    assert parameters(published("ResNeXt29-2x64d")) == total == 9_128_778


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("training", [False, True])
def test_block_with_dropout_is_timms_of_cardinality_2(timm, wake, give, stride, training):
    block = wake(GroupedBottleneck(16, 16, stride, 0.3, CARDINALITY)).train(training)
    down = nn.Sequential(nn.Conv2d(16, 32, 1, stride, bias=False), nn.BatchNorm2d(32))
    # timm counts outputs as four times the planes and groups as cardinality × planes · base_width / 64
    truth = timm.models.resnet.Bottleneck(
        16, 8, stride, down, cardinality=2, base_width=64, drop_block=partial(nn.Dropout, 0.3)
    )
    give(block, truth)
    x = torch.randn(4, 16, 8, 8, dtype=torch.double)
    torch.manual_seed(1)
    expected = truth(x)
    torch.manual_seed(1)
    torch.testing.assert_close(block(x), expected)


@pytest.mark.parametrize("width", [0.1, 0.25, 0.7, 1.0])
def test_width_keeps_two_groups_of_equal_size(width):
    with torch.device("meta"):
        net = create("ResNeXt29-2x64d", width=width)
    grouped = [m for m in net.modules() if isinstance(m, nn.Conv2d) and m.kernel_size == (3, 3)]
    assert [m.groups for m in grouped] == [2] * 9
    first = grouped[0].out_channels // 2
    assert [m.out_channels // 2 for m in grouped[::3]] == pytest.approx([first, 2 * first, 4 * first], abs=2)
