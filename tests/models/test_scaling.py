"""Factor 1 is the published network; smaller factors shrink in step and never to nothing."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

from relearn.models.conv_norm import conv, conv_norm, conv_norm_relu
from relearn.models.scaling import LEAST_CHANNELS, repeats, scaled

counts = st.integers(1, 4096)
factors = st.floats(0.01, 4.0)


@given(counts)
def test_factor_one_changes_nothing(count):
    assert scaled(count, 1.0) == count
    assert repeats(count, 1.0) == count


@given(counts, factors)
def test_result_is_the_nearest_integer_above_the_floor(count, factor):
    channels, blocks = scaled(count, factor), repeats(count, factor)
    assert channels >= min(count, LEAST_CHANNELS)
    assert blocks >= 1
    assert abs(channels - count * factor) <= 0.5 or channels == min(count, LEAST_CHANNELS)
    assert abs(blocks - count * factor) <= 0.5 or blocks == 1


@given(counts, factors, factors)
def test_a_larger_factor_never_gives_less(count, one, other):
    low, high = sorted((one, other))
    assert scaled(count, low) <= scaled(count, high)
    assert repeats(count, low) <= repeats(count, high)


def test_half_is_rounded_up_not_to_even():
    assert [scaled(count, 0.5) for count in (9, 11, 13)] == [5, 6, 7]
    assert [repeats(count, 0.5) for count in (1, 3, 5)] == [1, 2, 3]


@pytest.mark.parametrize("count", [1, 2, 3])
def test_layers_published_below_the_floor_stay_as_published(count):
    assert scaled(count, 0.1) == count


# The convolution keeps or halves the size; normalisation comes after it and ReLU last.


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
