"""A layer's norm against the matrix that its map has, column by column."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

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
