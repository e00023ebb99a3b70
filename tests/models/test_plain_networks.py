"""VGG-19: parameters by arithmetic from the paper, outputs against torchvision's layers, the pooling.

Parameter count by arithmetic from the paper's table; the block against timm's where timm's is the same.

Parameter count by arithmetic from the paper's table; the module branch by branch; shallow variants.
"""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

from relearn.models import create
from relearn.models.googlenet import Inception, modules_kept
from relearn.models.mobilenet import InvertedResidual
from relearn.models.vgg import pool

CONVOLUTIONS = [64] * 2 + [128] * 2 + [256] * 4 + [512] * 8


@pytest.mark.parametrize(("name", "published_count"), [("VGG-19", 20_029_514), ("VGG-19-BN", 20_040_522)])
def test_vgg_has_the_published_parameters(name, published_count, size, published, parameters):
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


def test_mobilenet_has_the_published_parameters(size, published, parameters):
    table = ((1, 16, 1, 1), (6, 24, 2, 1), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2))
    total, inputs = size.unit(3, 3, 32), 32
    for expansion, outputs, blocks, stride in (*table, (6, 320, 1, 1)):
        for index in range(blocks):
            planes = expansion * inputs
            total += size.unit(1, inputs, planes) + size.unit(3, planes, planes, groups=planes)
            total += size.unit(1, planes, outputs)
            keeps_size = stride == 1 or index > 0
            total += size.unit(1, inputs, outputs) if keeps_size and inputs != outputs else 0
            inputs = outputs
    total += size.unit(1, 320, 1280) + size.linear(1280, 10)
    assert parameters(published("MobileNetV2")) == total == 2_296_922


@pytest.mark.parametrize(("outputs", "stride"), [(8, 1), (16, 2), (8, 2)])
@pytest.mark.parametrize("training", [False, True])
def test_block_is_timms_where_no_shortcut_is_projected(timm, wake, give, outputs, stride, training):
    block = wake(InvertedResidual(8, outputs, 6, stride, 0.0)).train(training)
    kind = timm.models._efficientnet_blocks.InvertedResidual
    truth = give(block, kind(8, outputs, stride=stride, exp_ratio=6.0))
    x = torch.randn(4, 8, 8, 8, dtype=torch.double)
    torch.testing.assert_close(block(x), truth(x))


def test_a_change_of_channels_at_stride_1_gets_a_projected_shortcut(timm, wake):
    block = wake(InvertedResidual(8, 16, 6, 1, 0.0)).eval()
    truth = timm.models._efficientnet_blocks.InvertedResidual(8, 16, exp_ratio=6.0)
    branch = [value for key, value in block.state_dict().items() if not key.startswith("shortcut")]
    truth.load_state_dict(dict(zip(truth.state_dict(), branch, strict=True)))
    x = torch.randn(2, 8, 8, 8, dtype=torch.double)
    torch.testing.assert_close(block(x) - truth.double().eval()(x), block.shortcut(x))
    assert block.shortcut(x).abs().max() > 0


def test_the_block_ends_without_activation(wake):
    block = wake(InvertedResidual(8, 8, 6, 2, 0.0)).eval()
    assert block(torch.randn(2, 8, 8, 8, dtype=torch.double)).min() < 0


def test_googlenet_has_the_published_parameters(size, published, parameters):
    def unit(kernel, inputs, outputs):
        return size.unit(kernel, inputs, outputs) + outputs  # these convolutions have biases

    # the paper's table 1, with two 3 × 3 convolutions for each 5 × 5
    table = (
        (64, 96, 128, 16, 32, 32),
        (128, 128, 192, 32, 96, 64),
        (192, 96, 208, 16, 48, 64),
        (160, 112, 224, 24, 64, 64),
        (128, 128, 256, 24, 64, 64),
        (112, 144, 288, 32, 64, 64),
        (256, 160, 320, 32, 128, 128),
        (256, 160, 320, 32, 128, 128),
        (384, 192, 384, 48, 128, 128),
    )
    total, inputs = unit(3, 3, 192), 192
    for one, three_in, three, five_in, five, pooled in table:
        total += unit(1, inputs, one) + unit(1, inputs, three_in) + unit(3, three_in, three)
        total += unit(1, inputs, five_in) + unit(3, five_in, five) + unit(3, five, five)
        total += unit(1, inputs, pooled)
        inputs = one + three + five + pooled
    total += size.linear(1024, 10)
    assert parameters(published("GoogLeNet")) == total == 6_166_250


def test_module_is_its_four_branches(wake):
    module = wake(Inception(8, (3, 4, 5, 2, 6, 7), 0.0)).eval()
    x = torch.randn(2, 8, 6, 6, dtype=torch.double)

    def unit(layer, value):
        convolution, norm, _ = layer
        y = F.conv2d(value, convolution.weight, convolution.bias, padding=convolution.weight.shape[-1] // 2)
        return F.batch_norm(y, norm.running_mean, norm.running_var, norm.weight, norm.bias).clamp(min=0)

    one, three, five, pooled = module.branches
    around = F.pad(x, (1, 1, 1, 1), value=-torch.inf)
    largest = torch.stack([around[:, :, i : i + 6, j : j + 6] for i in range(3) for j in range(3)]).amax(0)
    expected = (
        unit(one, x),
        unit(three[1], unit(three[0], x)),
        unit(five[2], unit(five[1], unit(five[0], x))),
        unit(pooled[1], largest),
    )
    assert [part.shape[1] for part in expected] == [3, 5, 6, 7]
    assert module.outputs == 21
    torch.testing.assert_close(module(x), torch.cat(expected, dim=1))


def test_dropout_keeps_the_mean_it_does_not_rescale_twice():
    # the attacks' own code multiplies by (1 + p) / (1 + p') on top; the documented difference
    module = Inception(4, (2, 2, 2, 2, 2, 2), 0.5).double().eval()
    x = torch.randn(1, 4, 4, 4, dtype=torch.double)
    quiet = module(x)
    module.dropout.train()
    for _ in range(3):
        noisy = module(x)
        assert set((noisy / quiet)[quiet > 0].round(decimals=9).tolist()) <= {0.0, 2.0}


@given(st.integers(1, 9), st.integers(1, 20))
def test_modules_kept_are_ordered_and_end_with_the_last(published_count, count):
    kept = modules_kept(count, published_count)
    assert len(kept) == count
    assert kept == sorted(kept)
    assert kept[-1] == published_count - 1
    assert kept[0] >= 0
    if count <= published_count:
        assert len(set(kept)) == count
    if count == published_count:
        assert kept == list(range(published_count))


@pytest.mark.parametrize("depth", [0.1, 0.4, 0.7, 1.0, 2.0])
def test_every_depth_has_the_published_widths_after_each_stage(depth):
    with torch.device("meta"):
        net = create("GoogLeNet", depth=depth)
        x = torch.empty(1, 3, 32, 32)
    assert [tuple(stage.shape[1:]) for stage in net.stages(x)] == [(480, 32, 32), (832, 16, 16), (1024, 8, 8)]
