"""Parameter count by arithmetic from the paper's table; layer against timm's, transition by its formula.

DenseNet-100: parameters by arithmetic, stages against torchvision's, and without normalisation by hand.

Parameter count by arithmetic from the paper's table; the block against the two paths computed apart.
"""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from relearn.models import create
from relearn.models.densenet import DenseLayer, transition
from relearn.models.dpn import DualPathBlock


def test_densenet_has_the_published_parameters(size, published, parameters):
    growth, channels = 32, 64
    total = size.conv(3, 3, channels)
    for stage, layers in enumerate((6, 12, 24, 16)):
        if stage:
            total += size.norm(channels) + size.conv(1, channels, channels // 2)
            channels //= 2
        for _ in range(layers):
            total += size.norm(channels) + size.conv(1, channels, 4 * growth)
            total += size.norm(4 * growth) + size.conv(3, 4 * growth, growth)
            channels += growth
    total += size.norm(channels) + size.linear(1024, 10)
    assert channels == 1024
    assert parameters(published("DenseNet121")) == total == 6_956_298


def test_new_channels_are_timms_and_come_before_the_old_ones(timm, wake, give):
    layer = wake(DenseLayer(12, 4, 0.0)).eval()
    truth = give(layer, timm.models.densenet.DenseLayer(12, 4, bn_size=4))
    x = torch.randn(3, 12, 6, 6, dtype=torch.double)
    y = layer(x)
    torch.testing.assert_close(y[:, :4], truth(x))
    torch.testing.assert_close(y[:, 4:], x, rtol=0, atol=0)


def test_transition_normalises_then_halves_channels_and_size(wake):
    step = wake(transition(8, 4)).eval()
    norm, _, convolution, _ = step
    x = torch.randn(2, 8, 6, 6, dtype=torch.double)
    y = F.batch_norm(x, norm.running_mean, norm.running_var, norm.weight, norm.bias).clamp(min=0)
    y = torch.einsum("oi,bihw->bohw", convolution.weight[:, :, 0, 0], y)
    y = (y[:, :, ::2, ::2] + y[:, :, 1::2, ::2] + y[:, :, ::2, 1::2] + y[:, :, 1::2, 1::2]) / 4
    torch.testing.assert_close(step(x), y)


@pytest.mark.parametrize(
    ("name", "published_count"), [("DenseNet-100", 748_336), ("DenseNet-100-BN", 769_162)]
)
def test_densenet_cifar_has_the_published_parameters(name, published_count, size, published, parameters):
    normalised, channels = name.endswith("BN"), 24

    def conv(kernel, inputs, outputs):  # as (normalise, convolve) or (convolve with a bias)
        return size.conv(kernel, inputs, outputs) + (size.norm(inputs) if normalised else outputs)

    total = size.conv(3, 3, channels) + (0 if normalised else channels)
    for stage in range(3):
        if stage:
            total += conv(1, channels, channels // 2)
            channels //= 2
        for _ in range(16):
            total += conv(1, channels, 48) + conv(3, 48, 12)
            channels += 12
    total += size.norm(channels) * normalised + size.linear(channels, 10)
    assert channels == 342
    assert parameters(published(name)) == total == published_count


def test_stages_are_torchvisions(timm, wake, give):
    from torchvision.models.densenet import DenseNet

    torch.manual_seed(0)
    net = wake(create("DenseNet-100-BN", depth=0.125)).eval()
    features = DenseNet(12, (2, 2, 2), 24).features
    truth = give(net.body, torch.nn.Sequential(*list(features)[4:])).eval()  # behind its stem for 224 pixels
    x = torch.randn(2, 24, 8, 8, dtype=torch.double)
    ours = torch.nn.Sequential(*net.body)(x)
    torch.testing.assert_close(ours, truth(x).clamp(min=0))


def test_without_normalisation_it_is_the_same_with_biases():
    torch.manual_seed(0)
    net = create("DenseNet-100", width=0.4, depth=0.125).double()
    for module in net.modules():
        if isinstance(module, torch.nn.Conv2d):
            module.bias.data.normal_()
    x = torch.rand(2, 3, 8, 8, dtype=torch.double)
    layers = iter([module for module in net.modules() if isinstance(module, torch.nn.Conv2d)])

    def conv(h):
        layer = next(layers)
        return F.conv2d(h, layer.weight, layer.bias, padding=layer.kernel_size[0] // 2)

    h = conv(x)
    for stage in range(3):
        if stage:
            h = F.avg_pool2d(conv(h.clamp(min=0)), 2)
        for _ in range(2):
            h = torch.cat((h, conv(conv(h.clamp(min=0)).clamp(min=0))), 1)
    torch.testing.assert_close(net.features(x), h.clamp(min=0).mean((2, 3)))
    assert next(layers, None) is None


def test_dpn_has_the_published_parameters(size, published, parameters):
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
