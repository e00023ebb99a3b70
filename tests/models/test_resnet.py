"""Parameter counts by arithmetic from the paper's table; blocks, with their Dropout, against timm's.

Parameter count by arithmetic from the paper's table; the block against timm's with its cardinality.

Parameter count by arithmetic; the gate against timm's, the block against its equation written out.

WRN-28-10: parameters by arithmetic, a slow forward pass, momentum, branches.
"""

from functools import partial

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from relearn.models import create
from relearn.models.resnet import BasicBlock, Bottleneck
from relearn.models.resnext import CARDINALITY, GroupedBottleneck
from relearn.models.senet import PreActivationBlock, SqueezeExcitation


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


def test_resnext_has_the_published_parameters(size, published, parameters):
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


def test_senet_has_the_published_parameters(size, published, parameters):
    total, inputs = size.unit(3, 3, 64), 64
    for planes in (64, 128, 256, 512):
        for _ in range(2):
            total += size.norm(inputs) + size.conv(3, inputs, planes)
            total += size.norm(planes) + size.conv(3, planes, planes)
            total += size.linear(planes, planes // 16) + size.linear(planes // 16, planes)
            total += size.conv(1, inputs, planes) if inputs != planes else 0
            inputs = planes
    total += size.linear(512, 10)
    assert parameters(published("SENet18")) == total == 11_260_354


def test_gate_is_timms(timm, give):
    gate = SqueezeExcitation(64).double()
    truth = give(gate, timm.layers.SEModule(64, rd_channels=4))
    x = torch.randn(3, 64, 5, 5, dtype=torch.double)
    torch.testing.assert_close(gate(x), truth(x))


@pytest.mark.parametrize(("inputs", "planes", "stride"), [(8, 8, 1), (8, 12, 1), (8, 8, 2)])
@pytest.mark.parametrize("p", [0.0, 0.4])
def test_block_is_its_equation(wake, inputs, planes, stride, p):
    block = wake(PreActivationBlock(inputs, planes, stride, p)).eval()
    block.dropout.train()
    x = torch.randn(2, inputs, 6, 6, dtype=torch.double)

    def norm(layer, value):
        scale = layer.weight / (layer.running_var + layer.eps).sqrt()
        shift = layer.bias - layer.running_mean * scale
        return value * scale[:, None, None] + shift[:, None, None]

    a = norm(block.norm1, x).clamp(min=0)
    first = F.conv2d(a, block.conv1.weight, stride=stride, padding=1)
    torch.manual_seed(3)
    mask = torch.nn.Dropout(p)(torch.ones_like(first))
    second = F.conv2d(norm(block.norm2, mask * first).clamp(min=0), block.conv2.weight, padding=1)
    pooled = second.mean((2, 3))
    gate = block.gate
    squeezed = (pooled @ gate.squeeze.weight[:, :, 0, 0].T + gate.squeeze.bias).clamp(min=0)
    opened = 1 / (1 + (-(squeezed @ gate.excite.weight[:, :, 0, 0].T + gate.excite.bias)).exp())
    if stride == 1 and inputs == planes:
        skipped = x
    else:
        skipped = torch.einsum(
            "oi,bihw->bohw", block.shortcut.weight[:, :, 0, 0], a[:, :, ::stride, ::stride]
        )
    torch.manual_seed(3)
    torch.testing.assert_close(block(x), second * opened[:, :, None, None] + skipped)


def test_wide_resnet_has_the_published_parameters(size, published, parameters):
    total, channels = size.conv(3, 3, 16) + 16, 16
    for planes in (160, 320, 640):
        total += size.conv(1, channels, planes) + planes  # every stage begins with a shortcut of its own
        for _ in range(4):
            total += size.norm(channels) + size.conv(3, channels, planes) + planes
            total += size.norm(planes) + size.conv(3, planes, planes) + planes
            channels = planes
    total += size.norm(640) + size.linear(640, 10)
    assert parameters(published("WRN-28-10")) == total == 36_489_290


def test_forward_is_the_formula(wake):
    def norm(module, h):
        return F.batch_norm(h, module.running_mean, module.running_var, module.weight, module.bias)

    torch.manual_seed(0)
    net = wake(create("WRN-28-10", width=0.05, depth=0.5)).eval()
    x = torch.rand(2, 3, 9, 9, dtype=torch.double)
    h = F.conv2d(x, net.stem.weight, net.stem.bias, padding=1)
    for number, stage in enumerate(net.body):
        blocks = [one for one in stage if hasattr(one, "conv1")]
        assert len(blocks) == 2
        for index, block in enumerate(blocks):
            stride = 2 if number and not index else 1
            branch = F.conv2d(
                norm(block.norm1, h).clamp(min=0), block.conv1.weight, block.conv1.bias, padding=1
            )
            branch = norm(block.norm2, branch).clamp(min=0)
            branch = F.conv2d(branch, block.conv2.weight, block.conv2.bias, stride=stride, padding=1)
            if not index:  # 1 × 1 on x itself
                low = h[:, :, ::stride, ::stride]
                low = torch.einsum("oi,bihw->bohw", block.shortcut.weight[:, :, 0, 0], low)
                h = low + block.shortcut.bias.view(1, -1, 1, 1)
            h = h + branch
    h = norm(net.body[-1][-2], h).clamp(min=0).mean((2, 3))
    torch.testing.assert_close(net(x), h @ net.head.weight.T + net.head.bias)


def test_the_last_running_statistics_follow_the_last_batch(published):
    *norms, last = [m for m in published("WRN-28-10").modules() if isinstance(m, torch.nn.BatchNorm2d)]
    assert last.momentum == 0.9
    assert {one.momentum for one in norms} == {0.1}


def test_branches_are_the_two_convolutions_of_every_block(published):
    net = published("WRN-28-10")
    branches = net.branches()
    assert len(branches) == 12
    assert all(layer.kernel_size == (3, 3) for branch in branches for layer in branch)
    assert net.stem not in [layer for branch in branches for layer in branch]
