"""A layer's norm against the matrix that its map has, column by column.

Bounds on convolutions: against the matrix of the map, exact where they say so, and not far above it elsewhere.
"""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import conv1d, conv2d

from relearn.maths.conv_bounds import conv_bound, window_bound
from relearn.maths.operator_norm import flattened_is_exact, operator_norm


def matrix(layer: nn.Module, *shape: int) -> Tensor:
    """The linear part of the layer, written out."""
    zero = torch.zeros(1, *shape, dtype=torch.float64)
    basis = torch.eye(zero.numel(), dtype=torch.float64).view(-1, *shape)
    return (layer(basis) - layer(zero)).flatten(1).T


LAYERS = {
    "linear": (nn.Linear(5, 3), (5,)),
    "patches": (nn.Conv2d(2, 3, 2, stride=2), (2, 4, 6)),
    "patches that leave a rest": (nn.Conv2d(2, 3, 2, stride=3), (2, 5, 5)),
    "dilated patches": (nn.Conv1d(2, 3, 2, stride=3, dilation=2), (2, 9)),
    "one pixel": (nn.Conv2d(3, 4, 1), (3, 2, 2)),
    "one pixel, same": (nn.Conv2d(3, 4, 1, padding="same"), (3, 2, 2)),
    "depth-wise patches": (nn.Conv2d(4, 4, 2, stride=2, groups=4), (4, 4, 4)),
    "depth-wise": (nn.Conv2d(3, 3, 3, padding=1, groups=3), (3, 5, 4)),
    "overlapping": (nn.Conv2d(2, 2, 3, padding="same"), (2, 4, 4)),
    "strided": (nn.Conv2d(2, 3, 3, stride=2, padding=1), (2, 5, 5)),
    "padded patches": (nn.Conv2d(2, 3, 2, stride=2, padding=1), (2, 4, 4)),
    "circular": (nn.Conv1d(2, 2, 3, padding=1, padding_mode="circular"), (2, 6)),
}
EXACT = {"linear", "patches", "patches that leave a rest", "dilated patches", "one pixel", "one pixel, same"}


@pytest.mark.parametrize("name", LAYERS)
def test_norm_and_where_the_flattened_weight_has_it(name: str) -> None:
    torch.manual_seed(1)
    layer, shape = LAYERS[name]
    layer.double().requires_grad_(False)
    nn.init.normal_(layer.weight)
    found = float(torch.linalg.matrix_norm(matrix(layer, *shape), 2))
    assert float(operator_norm(layer, shape[1:])) == pytest.approx(found, rel=1e-6)
    assert flattened_is_exact(layer) == (name in EXACT)
    flat = float(torch.linalg.matrix_norm(layer.weight.flatten(1), 2))
    if name in EXACT:
        assert found == pytest.approx(flat, rel=1e-9)
    elif "padded" not in name:  # the other direction: these differ
        assert not math.isclose(found, flat, rel_tol=1e-3)


def test_half_precision() -> None:
    for layer, size in ((nn.Linear(4, 4), 1), (nn.Conv2d(2, 2, 3, padding=1), (4, 4))):
        exact = float(operator_norm(layer.requires_grad_(False), size))
        assert float(operator_norm(layer.to(torch.bfloat16), size)) == pytest.approx(exact, rel=1e-2)


def matrix_of_conv(weight, size, stride, padding, groups):
    channels = weight.shape[1] * groups
    count = channels * torch.Size(size).numel()
    basis = torch.eye(count, dtype=weight.dtype).view(count, channels, *size)
    convolve = conv1d if len(size) == 1 else conv2d
    return convolve(basis, weight, stride=stride, padding=padding, groups=groups).flatten(1).T


@pytest.mark.parametrize(
    ("kernel", "stride", "padding", "groups"),
    [
        *itertools.product([(3, 3), (2, 4)], [(1, 1), (2, 2), (3, 1)], [(0, 0), (1, 2)], [1, 2]),
        ((7, 7), (4, 4), (2, 2), 1),
    ],
)
def test_never_below_the_norm_of_the_map_and_not_far_above(kernel, stride, padding, groups):
    torch.manual_seed(sum(kernel) + sum(stride) + groups)
    weight = torch.randn(4, 4 // groups, *kernel, dtype=torch.float64)
    size = (9, 8)
    whole = matrix_of_conv(weight, size, stride, padding, groups)
    more = dict(stride=stride, padding=padding, groups=groups)
    two, inf = conv_bound(weight, size, **more), conv_bound(weight, size, **more, p="inf")
    exact = torch.linalg.matrix_norm(whole, 2)
    assert exact * (1 - 1e-12) <= two <= 1.35 * exact
    assert (
        whole.abs().sum(1).max()
        <= inf * (1 + 1e-12)
        <= whole.abs().sum(1).max() * (1.2 if kernel == (7, 7) else 1 + 1e-9)
    )


def test_exact_without_overlap_and_the_same_on_one_axis():
    torch.manual_seed(0)
    weight = torch.randn(5, 3, 2, 2, dtype=torch.float64)
    exact = torch.linalg.matrix_norm(matrix_of_conv(weight, (6, 8), (2, 2), (0, 0), 1), 2)
    torch.testing.assert_close(conv_bound(weight, (6, 8), stride=(2, 2), padding=(0, 0)), exact)
    line = torch.randn(3, 2, 3, dtype=torch.float64)
    exact = torch.linalg.matrix_norm(matrix_of_conv(line, (40,), (1,), (1,), 1), 2)
    assert exact <= conv_bound(line, (40,), stride=(1,), padding=(1,)) <= 1.01 * exact


def test_depth_wise_kernels_of_equal_entries_have_their_sum():
    weight = torch.full((2, 1, 7, 7), 1 / 7, dtype=torch.float64)
    torch.testing.assert_close(window_bound(weight, (32, 32)), torch.tensor(7.0, dtype=torch.float64))


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="one number per axis"):
        conv_bound(torch.ones(1, 1, 3, 3), (8,), stride=(1, 1), padding=(0, 0))
    with pytest.raises(ValueError, match="p: 'one'"):
        conv_bound(torch.ones(1, 1, 3, 3), (8, 8), stride=(1, 1), padding=(0, 0), p="one")
