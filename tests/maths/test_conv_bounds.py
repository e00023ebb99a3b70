"""Bounds on convolutions: against the matrix of the map, exact where they say so, and not far above it elsewhere."""

import itertools

import pytest
import torch
from torch.nn.functional import conv1d, conv2d

from relearn.maths.conv_bounds import conv_bound, window_bound


def matrix(weight, size, stride, padding, groups):
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
    whole = matrix(weight, size, stride, padding, groups)
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
    exact = torch.linalg.matrix_norm(matrix(weight, (6, 8), (2, 2), (0, 0), 1), 2)
    torch.testing.assert_close(conv_bound(weight, (6, 8), stride=(2, 2), padding=(0, 0)), exact)
    line = torch.randn(3, 2, 3, dtype=torch.float64)
    exact = torch.linalg.matrix_norm(matrix(line, (40,), (1,), (1,), 1), 2)
    assert exact <= conv_bound(line, (40,), stride=(1,), padding=(1,)) <= 1.01 * exact


def test_depth_wise_kernels_of_equal_entries_have_their_sum():
    weight = torch.full((2, 1, 7, 7), 1 / 7, dtype=torch.float64)
    torch.testing.assert_close(window_bound(weight, (32, 32)), torch.tensor(7.0, dtype=torch.float64))


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="one number per axis"):
        conv_bound(torch.ones(1, 1, 3, 3), (8,), stride=(1, 1), padding=(0, 0))
    with pytest.raises(ValueError, match="p: 'one'"):
        conv_bound(torch.ones(1, 1, 3, 3), (8, 8), stride=(1, 1), padding=(0, 0), p="one")
