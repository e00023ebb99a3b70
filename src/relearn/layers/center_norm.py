"""CenterNorm: layer normalisation without the division by the standard deviation."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class CenterNorm(nn.Module):
    r"""Subtract the mean over the channels and rescale by D/(D-1) (qi2023, equation 2).

    .. math:: \mathrm{CN}(x) = \gamma \odot \tfrac{D}{D-1} \bigl(I - \tfrac1D \mathbf{1}\mathbf{1}^\top\bigr) x + \beta

    The map is affine: no input makes it unstable, and a token without variance is mapped to β. Its Lipschitz constants
    for γ = 1 are D/(D-1) for p = 2, and 2 for p = ∞ for every D
    (:func:`~relearn.maths.network_bounds.centre_norm_constant`; errata, Q4).

    Shapes: x (..., D); the output has the same shape. γ is ``weight``, initially 1; β is ``bias``, initially 0. The names
    are those of ``nn.LayerNorm``.

    Args:
        dim: width D, at least 2.

    Raises:
        ValueError: a width below 2, where D/(D-1) is undefined; in a call, an input of another width.
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        if dim < 2:
            raise ValueError(f"dim: {dim} (allowed: at least 2; D/(D-1) is the factor)")
        self.dim = dim
        self.weight = nn.Parameter(torch.ones(dim))
        self.bias = nn.Parameter(torch.zeros(dim))

    def reset_parameters(self) -> None:
        """Reset γ to 1 and β to 0; no random numbers are drawn."""
        nn.init.ones_(self.weight)
        nn.init.zeros_(self.bias)

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[-1] != self.dim:
            raise ValueError(f"x: shape {tuple(x.shape)} (allowed: (..., {self.dim}))")
        stretched = self.weight * (self.dim / (self.dim - 1))
        return torch.addcmul(self.bias, x - x.mean(-1, keepdim=True), stretched)

    def extra_repr(self) -> str:
        return f"{self.dim}"
