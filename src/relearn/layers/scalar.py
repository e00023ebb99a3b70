"""Learnable scalars as layers: they replace normalisation in FixUp, SkipInit and ReZero networks."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Scale(nn.Module):
    """y = s · x with one scalar s, parameter ``scale`` of shape (1,), for x of any shape.

    s is initially ``initial``: 1 in FixUp (Zhang, Dauphin, Ma 2019), 0 in SkipInit (De, Smith 2020) and ReZero
    (Bachlechner et al. 2021). With 0 the residual branch vanishes at first, and only dL/ds is nonzero.
    """

    def __init__(self, initial: float = 1.0) -> None:
        super().__init__()
        self.initial = float(initial)
        self.scale = nn.Parameter(torch.full((1,), self.initial))

    def reset_parameters(self) -> None:
        """Reset s to ``initial``; no random numbers are drawn."""
        nn.init.constant_(self.scale, self.initial)

    def forward(self, x: Tensor) -> Tensor:
        return self.scale * x

    def extra_repr(self) -> str:
        return f"initial={self.initial}"


class Shift(nn.Module):
    """y = x + b with one scalar b for all channels and pixels, parameter ``bias`` of shape (1,), initially 0."""

    def __init__(self) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(1))

    def reset_parameters(self) -> None:
        """Reset b to 0; no random numbers are drawn."""
        nn.init.zeros_(self.bias)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.bias
