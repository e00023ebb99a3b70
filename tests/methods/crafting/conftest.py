"""Tiny substitutes in float64: convolution, batch norm, Dropout, pooling."""

from collections.abc import Callable
from typing import ClassVar, NamedTuple

import pytest
import torch
from torch import Tensor, nn

from relearn.methods import ATTACKS, crafting, load


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

    body: ClassVar = ((),)  # as a network of one block in its last stage

    def stages(self, x: Tensor) -> list[Tensor]:
        first = self.norm(self.conv((x - self.mean) / self.std))
        return [first, self.dropout(torch.relu(first))]

    def features(self, x: Tensor) -> Tensor:
        return self.stages(x)[-1].mean((2, 3))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.features(x))


class Problem(NamedTuple):
    substitutes: list[TinyNet]
    bases: Tensor
    targets: Tensor


class Memory:
    """A checkpoint in memory."""

    def __init__(self) -> None:
        self.states: list[dict] = []

    def load(self) -> dict | None:
        return self.states[-1] if self.states else None

    def save(self, state: dict) -> None:
        self.states.append(state)


OWN_ARGUMENTS = {
    "multi_layer as released": {"form": "as_released"},
    "gradient_matching": {"poison_class": 1},
    "gradient_matching head": {"poison_class": 1, "parameters": "head"},
    "white_box_collision": {"mu": 40.0},
    "white_box_collision watermark": {"mu": 40.0, "watermark": 0.2},
}
"""Arguments of an attack's own; an attack that has variants stands here once more for each."""


@pytest.fixture
def memory() -> Memory:
    return Memory()


@pytest.fixture(params=sorted({*ATTACKS, *OWN_ARGUMENTS}))
def attack(request: pytest.FixtureRequest) -> Callable[..., crafting.Crafted]:
    """An attack with its own arguments; the one on a known network gets the first of the substitutes."""
    name = request.param.split()[0]
    method = load(ATTACKS, name)

    def craft(substitutes, bases: Tensor, targets: Tensor, **options) -> crafting.Crafted:
        nets = list(substitutes)
        known = nets[-1:] if name == "white_box_collision" else nets
        return method(iter(known), bases, targets, **OWN_ARGUMENTS.get(request.param, {}) | options)

    return craft


@pytest.fixture
def tiny_net() -> Callable[..., TinyNet]:
    return TinyNet


@pytest.fixture
def problem() -> Problem:
    """Two substitutes, three 8-bit bases (k, C, H, W), four targets."""
    generator = torch.Generator().manual_seed(0)
    bases = torch.randint(0, 256, (3, 2, 5, 5), generator=generator).double() / 255
    return Problem([TinyNet(1), TinyNet(2)], bases, torch.rand(4, 2, 5, 5, generator=generator).double())
