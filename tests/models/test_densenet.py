"""Parameter count by arithmetic from the paper's table; layer against timm's, transition by its formula."""

import torch
from torch.nn import functional as F

from relearn.models.densenet import DenseLayer, transition


def test_it_has_the_published_parameters(size, published, parameters):
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
