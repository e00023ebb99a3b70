"""CenterNorm: what is left of layer normalisation when it may not divide by the deviation."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class CenterNorm(nn.Module):
    r"""Subtract the mean over the channels and stretch a little (qi2023, equation 2).

    .. math:: \mathrm{CN}(x) = \gamma \odot \tfrac{D}{D-1} \bigl(I - \tfrac1D \mathbf{1}\mathbf{1}^\top\bigr) x + \beta

    Linear but for β: no input makes it unstable, and a token without variance becomes β. Its Lipschitz constants for
    γ = 1 are D/(D-1) for p = 2, and 2 for p = ∞ whatever D is
    (:func:`~relearn.maths.network_bounds.centre_norm_constant`; errata, Q4).

    Shapes: x (..., D), the output alike. γ is ``weight``, starts at 1; β is ``bias``, starts at 0: the names of
    ``nn.LayerNorm``.

    Args:
        dim: width D, at least 2.

    Raises:
        ValueError: a width below 2, where D/(D-1) does not exist; in a call, another width.
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        if dim < 2:
            raise ValueError(f"dim: {dim} (allowed: at least 2; D/(D-1) is the factor)")
        self.dim = dim
        self.weight = nn.Parameter(torch.ones(dim))
        self.bias = nn.Parameter(torch.zeros(dim))

    def reset_parameters(self) -> None:
        """γ to 1, β to 0; draws nothing."""
        nn.init.ones_(self.weight)
        nn.init.zeros_(self.bias)

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[-1] != self.dim:
            raise ValueError(f"x: shape {tuple(x.shape)} (allowed: (..., {self.dim}))")
        stretched = self.weight * (self.dim / (self.dim - 1))
        return torch.addcmul(self.bias, x - x.mean(-1, keepdim=True), stretched)

    def extra_repr(self) -> str:
        return f"{self.dim}"
