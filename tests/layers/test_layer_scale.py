"""timm's LayerScale and class attention are those of the formulas, so this package does not implement its own.

Scale and shift: one number for everything, and the gradient of that number.
"""

from typing import Any

import pytest
import torch
from torch import Tensor

from relearn import torchvision_schema
from relearn.layers.scalar import Scale, Shift


def timms() -> Any:
    torchvision_schema.declare()
    from timm.models import cait

    return cait


def softmax_rows(layer: Any, x: Tensor) -> Tensor:
    """Output (1, D) of class attention for one sequence (N, D), the class token first: by loops over heads and tokens."""
    dim = x.shape[1]
    d = dim // layer.num_heads
    heads = []
    for h in range(layer.num_heads):
        own = slice(h * d, (h + 1) * d)
        query = layer.q.weight[own] @ x[0] + layer.q.bias[own]
        keys = [layer.k.weight[own] @ token + layer.k.bias[own] for token in x]
        values = [layer.v.weight[own] @ token + layer.v.bias[own] for token in x]
        weights = torch.stack([query @ key / d**0.5 for key in keys]).softmax(0)
        heads.append(sum(weight * value for weight, value in zip(weights, values)))
    return (layer.proj.weight @ torch.cat(heads) + layer.proj.bias)[None]


def test_layer_scale_is_a_diagonal_matrix_that_starts_small() -> None:
    cait = timms()
    from timm.layers import LayerScale

    layer = LayerScale(5, init_values=1e-4).double()
    x = torch.randn(2, 3, 5, dtype=torch.float64)
    torch.testing.assert_close(layer(x), 1e-4 * x, rtol=1e-6, atol=0)  # the number is float32's nearest
    with torch.no_grad():
        layer.gamma.normal_()
    torch.testing.assert_close(layer(x), x @ torch.diag(layer.gamma))
    block = cait.LayerScaleBlock(8, 2, init_values=0.01).double().eval()
    tokens = torch.randn(2, 4, 8, dtype=torch.float64)
    middle = tokens + block.attn(block.norm1(tokens)) @ torch.diag(block.gamma_1)
    torch.testing.assert_close(
        block(tokens), middle + block.mlp(block.norm2(middle)) @ torch.diag(block.gamma_2)
    )


@pytest.mark.parametrize("heads", [1, 2])
def test_class_attention_asks_with_the_class_token_alone(heads: int) -> None:
    layer = timms().ClassAttn(8, heads, qkv_bias=True).double()
    x = torch.randn(3, 5, 8, dtype=torch.float64)
    for one, found in zip(x, layer(x)):
        torch.testing.assert_close(found, softmax_rows(layer, one))
    torch.testing.assert_close(
        layer(x), layer(torch.cat([x[:, :1], x[:, 1:].flip(1)], 1))
    )  # order of patches: none


def test_a_block_of_class_attention_changes_the_class_token_alone() -> None:
    """The tokens are inputs and no outputs; both branches are scaled; the second sees the class token only."""
    block = timms().LayerScaleBlockClassAttn(8, 2, qkv_bias=True, init_values=0.1).double().eval()
    x, token = torch.randn(3, 4, 8, dtype=torch.float64), torch.randn(3, 1, 8, dtype=torch.float64)
    mixed = block.attn(block.norm1(torch.cat([token, x], 1)))
    middle = token + block.gamma_1 * mixed
    expected = middle + block.gamma_2 * block.mlp(block.norm2(middle))
    found = block(x, token)
    assert found.shape == (3, 1, 8)
    torch.testing.assert_close(found, expected)


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
