"""Parameter count by arithmetic from the paper's table; the block against the two paths computed apart."""

import pytest
import torch
from torch import nn

from relearn.models import create
from relearn.models.dpn import DualPathBlock


def test_it_has_the_published_parameters(size, published, parameters):
    total, inputs = size.unit(3, 3, 64), 64
    table = zip((96, 192, 384, 768), (256, 512, 1024, 2048), (16, 32, 24, 128), (3, 4, 20, 3))
    for planes, residual, dense, blocks in table:
        total += size.unit(1, inputs, residual + dense)
        for index in range(blocks):
            total += size.unit(1, inputs, planes) + size.unit(3, planes, planes, groups=32)
            total += size.unit(1, planes, residual + dense)
            inputs = residual + (index + 2) * dense
    total += size.linear(2048 + 4 * 128, 10)
    assert parameters(published("DPN92")) == total == 34_236_634


@pytest.mark.parametrize("stride", [1, 2])
def test_first_block_adds_in_the_residual_path_and_appends_in_the_dense_path(wake, stride):
    block = wake(DualPathBlock(6, 8, 10, 3, groups=4, stride=stride, opens=True, dropout=0.0)).eval()
    x = torch.randn(2, 6, 6, 6, dtype=torch.double)
    g, s = block.conv3(block.conv2(block.conv1(x))), block.shortcut(x)
    y = block(x)
    assert y.shape == (2, 16, 6 // stride, 6 // stride)
    for channel in range(16):
        if channel < 10:
            expected = g[:, channel] + s[:, channel]
        elif channel < 13:
            expected = s[:, channel]
        else:
            expected = g[:, channel - 3]
        torch.testing.assert_close(y[:, channel], expected.clamp(min=0))


def test_later_block_passes_earlier_dense_channels_on_unchanged(wake):
    block = wake(DualPathBlock(16, 8, 10, 3, groups=4, stride=1, opens=False, dropout=0.0)).eval()
    x = torch.rand(2, 16, 6, 6, dtype=torch.double)  # never negative, as after a block's ReLU
    y = block(x)
    assert y.shape[1] == 19
    torch.testing.assert_close(y[:, 10:16], x[:, 10:16], rtol=0, atol=0)
    g = block.conv3(block.conv2(block.conv1(x)))
    torch.testing.assert_close(y[:, :10], (x[:, :10] + g[:, :10]).clamp(min=0))
    torch.testing.assert_close(y[:, 16:], g[:, 10:].clamp(min=0))


@pytest.mark.parametrize("width", [0.02, 0.125, 0.25, 0.6, 1.0])
def test_width_keeps_the_channels_a_group(width):
    with torch.device("meta"):
        net = create("DPN92", width=width)
    grouped = [block.conv2[0] for block in net.modules() if isinstance(block, DualPathBlock)]
    assert all(isinstance(m, nn.Conv2d) for m in grouped)
    assert [m.out_channels // m.groups for m in grouped] == [3] * 3 + [6] * 4 + [12] * 20 + [24] * 3
    assert len({m.groups for m in grouped}) == 1
