"""Parameter count by arithmetic; the gate against timm's, the block against its equation written out."""

import pytest
import torch
from torch.nn import functional as F

from relearn.models.senet import PreActivationBlock, SqueezeExcitation


def test_it_has_the_published_parameters(size, published, parameters):
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
