"""The residual shortcut with one number in front of the branch, or with none."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class ScaledResidual(nn.Module):
    r"""Join a branch's output b = f(x) to the stream x.

    .. math:: y = x + \mathrm{DropPath}_p(\alpha\, b)

    α is one learnable number for the whole branch, parameter ``alpha`` of shape (). Where it starts is what the schemes
    differ in:

    =========  =======================================================================================
    start      scheme
    =========  =======================================================================================
    none       no α at all, α = 1: the plain shortcut of He et al. 2015 and Vaswani et al. 2017
    0          SkipInit (De, Smith 2020) and ReZero (Bachlechner et al. 2020): y = x at first
    ε          ReZero as touvron2021 prefers it
    1          the multiplier of Fixup (Zhang, Dauphin, Ma 2019)
    =========  =======================================================================================

    At α = 0 the branch has no gradient, α has one. With one number a channel it is LayerScale (touvron2021), and that is
    :class:`~relearn.layers.weighted_residual.WeightedResidual`.

    DropPath drops the branch of a whole sample, in training mode only, and divides what is kept by 1 - p, as timm's.

    Shapes: x and b alike, the batch first.

    Args:
        alpha: where α starts; None: there is none.
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
        """α back to its first value; draws nothing."""
        if self.alpha is not None and self.initial is not None:
            nn.init.constant_(self.alpha, self.initial)

    def forward(self, x: Tensor, branch: Tensor) -> Tensor:
        """The stream behind the branch, shaped as ``x``."""
        weight: Tensor | None = self.alpha
        if self.training and self.drop_path:
            keep = x.new_empty(len(x), *[1] * (x.dim() - 1)).bernoulli_(1 - self.drop_path)
            keep = keep / (1 - self.drop_path)
            weight = keep if weight is None else weight * keep
        return x + branch if weight is None else torch.addcmul(x, weight, branch)

    def extra_repr(self) -> str:
        return f"alpha={self.initial}, drop_path={self.drop_path}"
