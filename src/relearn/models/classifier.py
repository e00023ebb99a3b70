"""Base class of the convolutional classifiers: input normalisation, stages, pooled features, linear head, dropout switch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn


class Trunk(NamedTuple):
    """A network without its classifier."""

    stem: nn.Module
    """Maps normalised images to the input of the first stage, without changing the size."""
    stages: Sequence[nn.Module]
    """Applied in sequence; each stage but the first begins where the network halves the size."""
    channels: int
    """Channels of the last stage's output."""


class OnPixels(nn.Module):
    """A network of images with pixels in [0, 1]; ``mean`` and ``std``, (1, in_channels, 1, 1), normalise them inside."""

    mean: Tensor
    std: Tensor

    def __init__(self, in_channels: int, mean: Sequence[float] | None, std: Sequence[float] | None) -> None:
        super().__init__()
        mean = [0.0] * in_channels if mean is None else list(mean)
        std = [1.0] * in_channels if std is None else list(std)
        for key, numbers in {"mean": mean, "std": std}.items():
            if len(numbers) != in_channels:
                raise ValueError(f"{key}: {len(numbers)} values (allowed: {in_channels}, one a channel)")
        if not all(0 < value < float("inf") for value in std):
            raise ValueError(f"std: {std} (allowed: positive)")
        self.register_buffer("mean", torch.tensor(mean, dtype=torch.float32).reshape(1, -1, 1, 1))
        self.register_buffer("std", torch.tensor(std, dtype=torch.float32).reshape(1, -1, 1, 1))

    def check_images(self, x: Tensor) -> None:
        """TypeError for another dtype than floating point, ValueError for another number of channels or no batch axis."""
        if not x.is_floating_point():
            raise TypeError(f"images: {x.dtype} (allowed: floating point, pixels in [0, 1])")
        if x.dim() != 4 or x.shape[1] != self.mean.shape[1]:
            raise ValueError(f"images: shape {tuple(x.shape)} (allowed: (B, {self.mean.shape[1]}, H, W))")


class Classifier(OnPixels, ABC):
    r"""Convolutional classifier of images with pixels in [0, 1] and at least 8 × 8 pixels.

    .. math::
        h_0 = \mathrm{stem}((x - \mu) / \sigma), \quad h_l = \mathrm{stage}_l(h_{l-1}), \quad
        \phi(x) = \mathrm{mean}_{H,W}\, h_L, \quad f(x) = W \phi(x) + b

    =======  ==============================  ===================  =======================
    symbol   meaning                         code                 shape
    =======  ==============================  ===================  =======================
    x        images, pixels in [0, 1]        ``x``                (B, in_channels, H, W)
    μ, σ     normalisation, pixel units      ``mean``, ``std``    (1, in_channels, 1, 1)
    h_l      unpooled output of stage l      ``stages(x)[l-1]``   (B, C_l, H_l, W_l)
    φ        penultimate features            ``features(x)``      (B, ``feature_dim``)
    W, b     linear classifier               ``head``             ``nn.Linear``
    =======  ==============================  ===================  =======================

    Facts (tests/models/test_classifier.py): ``net(x)`` is ``net.head(net.features(x))``; for all eight networks the features are the mean
    of the last stage over pixels; in eval mode the images of a batch do not influence each other.

    The published networks normalise the images beforehand and pool with a window made for 32 × 32. Here μ and σ are buffers, saved with
    the weights, so perturbations are always measured in pixels; and pooling covers the whole map. This is equivalent at 32 × 32 and
    allows other sizes.

    A network is a subclass that defines :meth:`trunk`.

    Args:
        classes, in_channels, width, depth, dropout, mean, std: as in :func:`relearn.models.create`.

    Raises:
        ValueError: a value out of range.
    """

    def __init__(
        self,
        *,
        classes: int = 10,
        in_channels: int = 3,
        width: float = 1.0,
        depth: float = 1.0,
        dropout: float = 0.0,
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
    ) -> None:
        for key, value in {"classes": classes, "in_channels": in_channels}.items():
            if value < 1:
                raise ValueError(f"{key}: {value} (allowed: at least 1)")
        for key, factor in {"width": width, "depth": depth}.items():
            if not 0 < factor < float("inf"):
                raise ValueError(f"{key}: {factor} (allowed: a positive factor)")
        if not 0 <= dropout < 1:
            raise ValueError(f"dropout: {dropout} (allowed: 0 <= p < 1)")
        super().__init__(in_channels, mean, std)
        trunk = self.trunk(in_channels, width, depth, dropout)
        self.stem = trunk.stem
        self.body = nn.ModuleList(trunk.stages)
        self.feature_dim = trunk.channels
        self.head = nn.Linear(trunk.channels, classes)

    @abstractmethod
    def trunk(self, in_channels: int, width: float, depth: float, dropout: float) -> Trunk:
        """Build everything before the classifier; called once by the constructor."""

    def stages(self, x: Tensor) -> list[Tensor]:
        """Return the unpooled outputs (B, C_l, H_l, W_l) of all stages; a new stage begins where the size is halved.

        Raises:
            TypeError: the images are not floating point, so they cannot be in [0, 1].
            ValueError: a wrong number of channels (which would broadcast), or no batch axis.
        """
        self.check_images(x)
        hidden = self.stem((x - self.mean) / self.std)
        outputs = []
        for stage in self.body:
            hidden = stage(hidden)
            outputs.append(hidden)
        return outputs

    def features(self, x: Tensor) -> Tensor:
        """Return the penultimate features (B, ``feature_dim``)."""
        return self.stages(x)[-1].mean((2, 3))

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits (B, classes)."""
        return self.head(self.features(x))


def set_dropout(net: nn.Module, active: bool) -> None:
    """Switch element-wise dropout on or off, independently of the mode of the rest of the network.

    Crafting needs batch normalisation with running statistics but fresh dropout masks: call ``net.eval()``, then
    ``set_dropout(net, True)``. A later ``net.eval()`` or ``net.train()`` resets dropout together with everything else. Dropout with p = 0
    changes nothing and draws no random numbers in either mode.
    """
    for module in net.modules():
        if isinstance(module, nn.Dropout):
            module.train(active)
