"""DenseNet-100: parameters by arithmetic, stages against torchvision's, and without normalisation by hand."""

import pytest
import torch
from torch.nn import functional as F

from relearn.models import create


@pytest.mark.parametrize(
    ("name", "published_count"), [("DenseNet-100", 748_336), ("DenseNet-100-BN", 769_162)]
)
def test_it_has_the_published_parameters(name, published_count, size, published, parameters):
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
