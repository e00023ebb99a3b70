"""Parameter count by arithmetic from the paper's table; the module branch by branch; shallow variants."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

from relearn.models import create
from relearn.models.googlenet import Inception, modules_kept


def test_it_has_the_published_parameters(size, published, parameters):
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
