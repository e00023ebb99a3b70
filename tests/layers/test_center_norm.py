"""CenterNorm: its formula as a matrix, its constants, and what layer normalisation does in its place."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from relearn.layers.center_norm import CenterNorm
from relearn.layers.scalar import Scale, Shift
from relearn.maths.network_bounds import centre_norm_constant


def layer(dim: int, seed: int = 0) -> CenterNorm:
    torch.manual_seed(seed)
    one = CenterNorm(dim).double()
    nn.init.normal_(one.weight)
    nn.init.normal_(one.bias)
    return one.requires_grad_(False)


@pytest.mark.parametrize("dim", [2, 3, 8])
def test_it_is_the_affine_map_of_equation_2(dim: int) -> None:
    one, x = layer(dim), torch.randn(2, 3, dim, dtype=torch.float64)
    ones = torch.ones(dim, dim, dtype=torch.float64)
    matrix = one.weight.diag() @ (torch.eye(dim, dtype=torch.float64) - ones / dim) * dim / (dim - 1)
    torch.testing.assert_close(one(x), x @ matrix.T + one.bias, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(torch.func.jacrev(one)(x[0, 0]), matrix, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dim", [2, 5, 16])
def test_its_jacobian_has_the_norms_of_the_constants(dim: int) -> None:
    for one in (CenterNorm(dim).double().requires_grad_(False), layer(dim)):
        jacobian = torch.func.jacrev(one)(torch.zeros(dim, dtype=torch.float64))
        for p, order in (("two", 2), ("inf", float("inf"))):
            found = torch.linalg.matrix_norm(jacobian, order)
            torch.testing.assert_close(centre_norm_constant(dim, one.weight, p), found, rtol=1e-12, atol=0)


def test_a_token_without_variance_becomes_the_shift_and_nothing_blows_up() -> None:
    one, flat = layer(6), torch.full((1, 6), 3.0, dtype=torch.float64)
    torch.testing.assert_close(one(flat), one.bias[None])
    x = flat + 1e-9 * torch.randn(1, 6, dtype=torch.float64)
    slope = torch.func.jacrev(one)(x).norm()
    assert float(slope) == pytest.approx(float(torch.func.jacrev(one)(flat).norm()))
    ln = nn.LayerNorm(6, eps=0.0).double().requires_grad_(False)
    assert float(torch.func.jacrev(ln)(x).norm()) > 1e8


def test_start_precisions_and_refusals() -> None:
    one = CenterNorm(4)
    assert one.weight.tolist() == [1.0] * 4 and one.bias.tolist() == [0.0] * 4
    nn.init.normal_(one.weight)
    nn.init.normal_(one.bias)
    one.reset_parameters()
    assert one.weight.tolist() == [1.0] * 4 and one.bias.tolist() == [0.0] * 4
    for dtype in (torch.float16, torch.bfloat16):
        assert one.to(dtype)(torch.randn(2, 4, dtype=dtype)).dtype == dtype
    with pytest.raises(ValueError, match=r"dim: 1 \(allowed: at least 2"):
        CenterNorm(1)
    with pytest.raises(ValueError, match=r"x: shape \(2, 1\) \(allowed: \(\.\.\., 4\)\)"):
        CenterNorm(4)(torch.randn(2, 1))  # would broadcast


# scale and shift -------------------------------------------------------------------------------------------------------

# Scale and shift: one number for everything, and the gradient of that number.


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
