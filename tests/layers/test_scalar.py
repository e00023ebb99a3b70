"""Scale and shift: one number for everything, and the gradient of that number."""

import pytest
import torch

from relearn.layers.scalar import Scale, Shift


@pytest.fixture
def images():
    return torch.randn(3, 4, 5, 6, dtype=torch.double, generator=torch.Generator().manual_seed(0))


def test_scale_multiplies_and_its_gradient_is_the_inner_product(images):
    layer = Scale(0.7).double()
    torch.testing.assert_close(layer(images), images * 0.7, rtol=1e-7, atol=0)
    weight = torch.randn_like(images)
    (layer(images) * weight).sum().backward()
    torch.testing.assert_close(layer.scale.grad, (images * weight).sum().reshape(1))


def test_shift_adds_and_its_gradient_is_the_sum(images):
    layer = Shift().double()
    assert torch.equal(layer(images), images)
    layer.bias.data.fill_(-1.25)
    weight = torch.randn_like(images)
    (layer(images) * weight).sum().backward()
    assert torch.equal(layer(images), images - 1.25)
    torch.testing.assert_close(layer.bias.grad, weight.sum().reshape(1))


@pytest.mark.parametrize(
    ("layer", "first"), [(Scale(), 1.0), (Scale(0.0), 0.0), (Scale(0.5), 0.5), (Shift(), 0.0)]
)
def test_one_parameter_that_goes_back_to_its_first_value(layer, first):
    (number,) = layer.parameters()
    assert number.shape == (1,) and number.item() == first
    number.data.fill_(3.0)
    layer.reset_parameters()
    assert number.item() == first
