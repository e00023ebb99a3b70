"""The convolution keeps or halves the size; normalisation comes after it and ReLU last."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from relearn.models.conv_norm import conv, conv_norm, conv_norm_relu


@pytest.mark.parametrize("kernel", [1, 3, 5])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("side", [7, 8, 9])
def test_size_is_divided_by_the_stride_and_rounded_up(kernel, stride, side):
    y = conv(2, 4, kernel, stride=stride)(torch.zeros(1, 2, side, side))
    assert y.shape == (1, 4, -(-side // stride), -(-side // stride))


def test_normalisation_follows_the_convolution_and_relu_comes_last(wake):
    unit = wake(conv_norm_relu(4, 6, 3, stride=2, groups=2, bias=True)).eval()
    x = torch.randn(2, 4, 8, 8, dtype=torch.double)
    convolution, norm, _ = unit
    y = F.conv2d(x, convolution.weight, convolution.bias, stride=2, padding=1, groups=2)
    y = (y - norm.running_mean[:, None, None]) / (norm.running_var[:, None, None] + norm.eps).sqrt()
    y = y * norm.weight[:, None, None] + norm.bias[:, None, None]
    torch.testing.assert_close(unit(x), y.clamp(min=0))
    torch.testing.assert_close(unit[:2](x), y)
    assert y.min() < 0


def test_convolutions_before_a_normalisation_have_no_bias_unless_asked():
    assert conv_norm(2, 2)[0].bias is None
    assert isinstance(conv_norm(2, 2, bias=True)[0].bias, nn.Parameter)
