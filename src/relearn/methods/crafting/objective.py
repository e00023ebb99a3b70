"""Interface of an attack for the crafting loop: the quantities that it reads from a network, and its loss."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

Reading: TypeAlias = Sequence[Tensor]
"""Tensors that an attack has read from one network, each with the targets on its first axis."""

OnFeatures: TypeAlias = Callable[[Tensor, Tensor, Tensor | None], tuple[Tensor, Tensor | None]]
"""An attack on pooled features: features (T, k, d), target (T, d), last coefficients → as Objective.loss."""


class Objective(ABC):
    """An attack.

    The loss of one network is ``loss(read(net, poisons), read_target(net, targets), last)``; the loop sums over networks and over
    targets, each of which has its own poisons. By default the pooled penultimate features are read. An attack on other layers
    overrides `layers`; one that needs all poisons of a target together (such as their mean gradient) overrides `read` and
    `read_target`.
    """

    needs: Sequence[str] = ("features",)
    """What a network must have for it; an attack that reads something else names that."""
    folds = True
    """Whether the networks may be folded meanwhile; not if it differentiates with respect to their weights."""
    at_once: int | None = None
    """Maximum number of targets per pass, for attacks that need much memory per target."""

    def layers(self, net: Any, images: Tensor) -> Reading:
        """Readings of images (B, C, H, W), each a tensor (B, ...)."""
        found = net.features(images)
        if not isinstance(found, Tensor) or found.ndim != 2:
            shape = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
            raise ValueError(f"features of a {type(net).__name__}: found {shape}; allowed: a tensor (B, d)")
        return (found,)

    def read(self, net: nn.Module, poisons: Tensor) -> Reading:
        """Readings of poisons (T, k, C, H, W), each a tensor (T, ...), differentiable w.r.t. the poisons."""
        flat = self.layers(net, poisons.flatten(0, 1))
        return [one.unflatten(0, poisons.shape[:2]) for one in flat]

    def read_target(self, net: nn.Module, targets: Tensor) -> Reading:
        """Readings of targets (T, C, H, W), each a tensor (T, ...). The loop caches them as long as they do not change."""
        return self.layers(net, targets)

    @abstractmethod
    def loss(self, poisons: Reading, target: Reading, last: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Loss of one network, (T,), and its coefficients, (T, ...), or None if there are none.

        `last` are the coefficients of the previous iteration in the same network, for a warm start.
        """

    def part(self, part: slice) -> Objective:
        """The attack restricted to some targets; an attack with data per target overrides this."""
        return self


class _OnPooledFeatures(Objective):
    def __init__(self, function: OnFeatures) -> None:
        self.function = function

    def loss(self, poisons: Reading, target: Reading, last: Tensor | None) -> tuple[Tensor, Tensor | None]:
        return self.function(poisons[0], target[0], last)


def as_objective(attack: Objective | OnFeatures) -> Objective:
    """Convert a function of pooled features to an Objective; other attacks are returned unchanged."""
    return attack if isinstance(attack, Objective) else _OnPooledFeatures(attack)


def reading(
    read: Callable[[nn.Module, Tensor], Reading], net: nn.Module, images: Tensor, precision: str
) -> Reading:
    """An attack's readings of images, in their dtype; with a graph only if the images require a gradient."""
    grad = torch.enable_grad() if images.requires_grad else torch.no_grad()
    with grad, torch.autocast(images.device.type, torch.bfloat16, enabled=precision == "bf16"):
        found = read(net, images)
    # Readings of the targets are kept, and the next replay of a CUDA graph overwrites its outputs; a backward pass follows the others.
    return [one.to(images.dtype, copy=not images.requires_grad) for one in found]
