"""Tiny substitutes in float64: convolution, batch norm, Dropout, pooling."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest
import torch
from torch import Tensor, nn


class TinyNet(nn.Module):
    """Pixels in [0, 1] → 6 features; standardises by its own mean and std, as the real networks do."""

    def __init__(self, seed: int, dropout: float = 0.25) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.conv, self.norm = nn.Conv2d(2, 6, 3, padding=1), nn.BatchNorm2d(6)
            self.norm.running_mean = torch.randn(6)
            self.norm.running_var = torch.rand(6) + 0.5
        self.dropout, self.head = nn.Dropout(dropout), nn.Linear(6, 3)
        self.register_buffer("mean", torch.full((1, 2, 1, 1), 0.5))
        self.register_buffer("std", torch.tensor([0.2, 0.25]).reshape(1, 2, 1, 1))
        self.double()

    def features(self, x: Tensor) -> Tensor:
        x = self.norm(self.conv((x - self.mean) / self.std))
        return self.dropout(torch.relu(x)).mean((2, 3))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.features(x))


class Problem(NamedTuple):
    substitutes: list[TinyNet]
    bases: Tensor
    targets: Tensor


@pytest.fixture
def tiny_net() -> Callable[..., TinyNet]:
    return TinyNet


@pytest.fixture
def problem() -> Problem:
    """Two substitutes, three 8-bit bases (k, C, H, W), four targets."""
    generator = torch.Generator().manual_seed(0)
    bases = torch.randint(0, 256, (3, 2, 5, 5), generator=generator).double() / 255
    return Problem([TinyNet(1), TinyNet(2)], bases, torch.rand(4, 2, 5, 5, generator=generator).double())
