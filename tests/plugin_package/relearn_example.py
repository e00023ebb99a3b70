"""A package that adds a defence, an attack, an initialisation, a network and an attention, for the test of plug-ins."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from relearn.methods import crafting
from relearn.methods.detector import Detector, share_of
from relearn.methods.initialised import Initialised
from relearn.models.classifier import Classifier, Trunk


class BrightnessFilter(Detector):
    """Drop the share ``fraction`` of all points whose features have the largest mean; ties go to the larger index."""

    def __init__(self, fraction: float = 0.1) -> None:
        self.fraction = fraction

    def _keep(self, X: Tensor, y: NDArray[np.int64], member: int) -> NDArray[np.bool_]:
        keep = np.ones(len(y), dtype=bool)
        order = X.double().mean(dim=1).argsort(stable=True).cpu().numpy()
        keep[order[len(y) - share_of(self.fraction, len(y)) :]] = False
        return keep


def _distance(features: Tensor, target: Tensor, coefficients: Tensor | None = None) -> tuple[Tensor, None]:
    """Mean distance of the poisons' features (..., k, d) to the target's (..., d) → (...)."""
    return (features - target.unsqueeze(-2)).square().sum(-1).mean(-1), None


def blended_target(
    substitutes: Sequence[nn.Module], bases: Tensor, targets: Tensor, *, lr: float = 0.02, **options: Any
) -> crafting.Crafted:
    """Move the poisons' features to the target's, with the project's crafting loop."""
    return crafting.craft(_distance, substitutes, bases, targets, lr=lr, dropout=False, **options)


@torch.no_grad()
def halved(
    model: nn.Module, loss: Any = None, batches: Any = None, *, seed: int = 0, factor: float = 0.5
) -> Initialised:
    """Multiply every parameter by ``factor``."""
    for parameter in model.parameters():
        parameter.mul_(factor)
    return Initialised(scales={name: factor for name, _ in model.named_parameters()})


class OneStage(Classifier):
    """One convolution and its activation."""

    def trunk(self, in_channels: int, width: float, depth: float, dropout: float) -> Trunk:
        channels = max(1, round(16 * width))
        stem = nn.Conv2d(in_channels, channels, 3, padding=1)
        return Trunk(stem, [nn.Sequential(nn.ReLU(), nn.Dropout(dropout))], channels)


class MeanMixing(nn.Module):
    """Every token gets a share of the mean of all tokens, and then a linear map."""

    def __init__(
        self, dim: int, heads: int, *, max_length: int, dropout: float = 0.0, share: float = 0.5
    ) -> None:
        super().__init__()
        self.out, self.share = nn.Linear(dim, dim), share

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        tokens = x.new_ones(x.shape[:2]) if mask is None else mask.to(x.dtype)
        mean = (x * tokens[..., None]).sum(1, keepdim=True) / tokens.sum(1)[:, None, None]
        return self.out(x + self.share * mean)
