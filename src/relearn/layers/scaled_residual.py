"""The residual shortcut with an optional learnable scalar in front of the branch."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class ScaledResidual(nn.Module):
    r"""Join a branch's output b = f(x) to the stream x.

    .. math:: y = x + \mathrm{DropPath}_p(\alpha\, b)

    α is one learnable scalar for the whole branch, parameter ``alpha`` of shape (). The schemes differ in its initial
    value:

    =========  =======================================================================================
    initial    scheme
    =========  =======================================================================================
    none       no α, i.e. α = 1: the plain shortcut of He et al. 2015 and Vaswani et al. 2017
    0          SkipInit (De, Smith 2020) and ReZero (Bachlechner et al. 2020): y = x at first
    ε          ReZero as preferred by touvron2021
    1          the multiplier of Fixup (Zhang, Dauphin, Ma 2019)
    =========  =======================================================================================

    At α = 0 the branch has no gradient, but α has one. With one number per channel this is LayerScale (touvron2021), see
    :class:`~relearn.layers.weighted_residual.WeightedResidual`.

    DropPath drops the branch of a whole sample, in training mode only, and divides kept branches by 1 - p, like timm's.

    Shapes: x and b have the same shape, with the batch first.

    Args:
        alpha: initial value of α; None: no α.
        drop_path: p.

    Raises:
        ValueError: ``drop_path`` outside [0, 1).
    """

    alpha: nn.Parameter | None

    def __init__(self, alpha: float | None = None, *, drop_path: float = 0.0) -> None:
        super().__init__()
        if not 0 <= drop_path < 1:
            raise ValueError(f"drop_path: {drop_path} (allowed: 0 <= p < 1)")
        self.initial = None if alpha is None else float(alpha)
        self.drop_path = float(drop_path)
        given = None if self.initial is None else nn.Parameter(torch.full((), self.initial))
        self.register_parameter("alpha", given)

    def reset_parameters(self) -> None:
        """Reset α to its initial value; no random numbers are drawn."""
        if self.alpha is not None and self.initial is not None:
            nn.init.constant_(self.alpha, self.initial)

    def forward(self, x: Tensor, branch: Tensor) -> Tensor:
        """Return the stream after the branch, shaped like ``x``."""
        weight: Tensor | None = self.alpha
        if self.training and self.drop_path:
            keep = x.new_empty(x.shape[0], *[1] * (x.dim() - 1)).bernoulli_(1 - self.drop_path)
            keep = keep / (1 - self.drop_path)
            weight = keep if weight is None else weight * keep
        return x + branch if weight is None else torch.addcmul(x, weight, branch)

    def extra_repr(self) -> str:
        return f"alpha={self.initial}, drop_path={self.drop_path}"
