"""Parameter counts by arithmetic from the paper's table; blocks, with their Dropout, against timm's."""

from functools import partial

import pytest
import torch
from torch import nn

from relearn.models import create
from relearn.models.resnet import BasicBlock, Bottleneck


def test_resnet18_has_the_published_parameters(size, published, parameters):
    total, inputs = size.unit(3, 3, 64), 64
    for planes in (64, 128, 256, 512):
        total += size.unit(3, inputs, planes) + 3 * size.unit(3, planes, planes)
        total += size.unit(1, inputs, planes) if inputs != planes else 0
        inputs = planes
    total += size.linear(512, 10)
    assert parameters(published("ResNet18")) == total == 11_173_962


def test_resnet50_has_the_published_parameters(size, published, parameters):
    total, inputs = size.unit(3, 3, 64), 64
    for planes, blocks in zip((64, 128, 256, 512), (3, 4, 6, 3)):
        total += size.unit(1, inputs, 4 * planes)
        for _ in range(blocks):
            total += size.unit(1, inputs, planes) + size.unit(3, planes, planes)
            total += size.unit(1, planes, 4 * planes)
            inputs = 4 * planes
    total += size.linear(2048, 10)
    assert parameters(published("ResNet50")) == total == 23_520_842


def timm_block(timm, kind, inputs, planes, stride, p):
    block = getattr(timm.models.resnet, kind)
    outputs = planes * block.expansion
    down = None
    if stride != 1 or inputs != outputs:
        down = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))
    return block(inputs, planes, stride, down, drop_block=partial(nn.Dropout, p))


@pytest.mark.parametrize(("ours", "kind"), [(BasicBlock, "BasicBlock"), (Bottleneck, "Bottleneck")])
@pytest.mark.parametrize(("inputs", "planes", "stride"), [(16, 16, 1), (16, 4, 1), (16, 8, 2)])
@pytest.mark.parametrize("training", [False, True])
def test_block_with_dropout_is_timms(timm, wake, give, ours, kind, inputs, planes, stride, training):
    # timm drops between normalisation and ReLU, we after the ReLU: the same, for a mask is never negative
    block = wake(ours(inputs, planes, stride, 0.3)).train(training)
    truth = give(block, timm_block(timm, kind, inputs, planes, stride, 0.3))
    x = torch.randn(4, inputs, 8, 8, dtype=torch.double)
    torch.manual_seed(1)
    expected = truth(x)
    torch.manual_seed(1)
    torch.testing.assert_close(block(x), expected)


@pytest.mark.parametrize("name", ["ResNet18", "ResNet50"])
def test_network_is_timms_with_another_stem(timm, wake, give, name):
    truth = timm.create_model(name.lower(), num_classes=10)
    truth.conv1, truth.maxpool = nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.Identity()
    net = wake(create(name)).eval()
    give_state = {key: value for key, value in net.state_dict().items() if key not in ("mean", "std")}
    truth.load_state_dict(dict(zip(truth.state_dict(), give_state.values(), strict=True)))
    x = torch.rand(1, 3, 32, 32, dtype=torch.double)
    with torch.no_grad():
        torch.testing.assert_close(net(x), truth.double().eval()(x))
