"""What an attack is to the loop: what it reads from a network, and the loss of what it has read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

Reading: TypeAlias = Sequence[Tensor]
"""What an attack has read from one network, each tensor with the targets on its first axis."""

OnFeatures: TypeAlias = Callable[[Tensor, Tensor, Tensor | None], tuple[Tensor, Tensor | None]]
"""An attack on pooled features: features (T, k, d), target (T, d), last coefficients → as Objective.loss."""


class Objective(ABC):
    """An attack.

    One network's part of the loss is ``loss(read(net, poisons), read_target(net, targets), last)``; the loop
    sums over networks, and over targets, of which each has poisons of its own. As it stands the pooled
    penultimate features are read. An attack on other layers overrides `layers`; one that needs all poisons of
    a target together (their mean gradient) overrides `read` and `read_target`.
    """

    at_once: int | None = None
    """Most targets of one pass, where one alone takes much memory."""

    def layers(self, net: Any, images: Tensor) -> Reading:
        """Of images (B, C, H, W), each tensor (B, ...)."""
        return (net.features(images),)

    def read(self, net: nn.Module, poisons: Tensor) -> Reading:
        """Of poisons (T, k, C, H, W), each tensor (T, ...); differentiable for them."""
        flat = self.layers(net, poisons.flatten(0, 1))
        return [one.unflatten(0, poisons.shape[:2]) for one in flat]

    def read_target(self, net: nn.Module, targets: Tensor) -> Reading:
        """Of targets (T, C, H, W), each tensor (T, ...). Kept by the loop as long as it does not change."""
        return self.layers(net, targets)

    @abstractmethod
    def loss(self, poisons: Reading, target: Reading, last: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """One network's part of the loss, (T,), and its coefficients, (T, ...), None where there are none.

        `last` are the coefficients of the iteration before in the same network, to start from.
        """

    def part(self, part: slice) -> Objective:
        """The attack on some of the targets; one that holds something for each target overrides this."""
        return self


class _OnPooledFeatures(Objective):
    def __init__(self, function: OnFeatures) -> None:
        self.function = function

    def loss(self, poisons: Reading, target: Reading, last: Tensor | None) -> tuple[Tensor, Tensor | None]:
        return self.function(poisons[0], target[0], last)


def as_objective(attack: Objective | OnFeatures) -> Objective:
    """An attack on pooled features may be a function; everything else is an Objective already."""
    return attack if isinstance(attack, Objective) else _OnPooledFeatures(attack)


def reading(
    read: Callable[[nn.Module, Tensor], Reading], net: nn.Module, images: Tensor, precision: str
) -> Reading:
    """What an attack reads of images, in their dtype; a graph only if they need one."""
    grad = torch.enable_grad() if images.requires_grad else torch.no_grad()
    with grad, torch.autocast(images.device.type, torch.bfloat16, enabled=precision == "bf16"):
        found = read(net, images)
    return [one.to(images.dtype) for one in found]
