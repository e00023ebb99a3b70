"""Parameter count by arithmetic from the paper's table; the block against timm's where timm's is the same."""

import pytest
import torch

from relearn.models.mobilenet import InvertedResidual


def test_it_has_the_published_parameters(size, published, parameters):
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
