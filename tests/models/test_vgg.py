"""VGG-19: parameters by arithmetic from the paper, outputs against torchvision's layers, the pooling."""

import pytest
import torch
from torch.nn import functional as F

from relearn.models import create
from relearn.models.vgg import pool

CONVOLUTIONS = [64] * 2 + [128] * 2 + [256] * 4 + [512] * 8


@pytest.mark.parametrize(("name", "published_count"), [("VGG-19", 20_029_514), ("VGG-19-BN", 20_040_522)])
def test_it_has_the_published_parameters(name, published_count, size, published, parameters):
    total, channels = size.linear(512, 10), 3
    for outputs in CONVOLUTIONS:
        total += size.conv(3, channels, outputs) + outputs + name.endswith("BN") * size.norm(outputs)
        channels = outputs
    assert parameters(published(name)) == total == published_count


@pytest.mark.parametrize(("name", "theirs"), [("VGG-19", "vgg19"), ("VGG-19-BN", "vgg19_bn")])
def test_features_are_torchvisions_at_32_pixels(timm, wake, give, name, theirs):
    import torchvision

    torch.manual_seed(0)
    net = wake(create(name)).eval()
    with torch.device("meta"):
        truth = getattr(torchvision.models, theirs)(weights=None).features
    truth = truth.to_empty(device="cpu")
    body = torch.nn.Sequential(net.body)
    truth = give(body, truth).eval()
    images = torch.rand(2, 3, 32, 32, dtype=torch.double)
    features = net.features(images)
    torch.testing.assert_close(features, truth(images).flatten(1))
    assert truth(images).shape == (2, 512, 1, 1)
    torch.testing.assert_close(net(images), F.linear(features, net.head.weight, net.head.bias))


def test_pooling_is_the_maximum_of_four_pixels_and_keeps_one_pixel():
    x = torch.randn(2, 3, 4, 6, dtype=torch.double)
    four = torch.stack([x[:, :, i::2, j::2] for i in (0, 1) for j in (0, 1)])
    assert torch.equal(pool()(x), four.amax(0))
    one = torch.randn(2, 3, 1, 1)
    assert torch.equal(pool()(one), one)
    with pytest.raises(RuntimeError):  # the published pooling
        torch.nn.MaxPool2d(2)(one)


@pytest.mark.parametrize("side", [32, 8, 9])
def test_five_stages_halve_the_size_as_long_as_there_is_one(side):
    net = create("VGG-19", width=0.05)
    sides = [stage.shape[-1] for stage in net.stages(torch.rand(1, 3, side, side))]
    expected = [side]
    for _ in range(4):
        expected.append(-(-expected[-1] // 2))
    expected[-1] = -(-expected[-1] // 2)
    assert sides == expected
    assert sides[-1] == 1
