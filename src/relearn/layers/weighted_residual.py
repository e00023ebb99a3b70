"""The weighted residual shortcut: one learnable number per channel in front of the branch."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class WeightedResidual(nn.Module):
    r"""Join a branch's output b = f(x) to the stream x (qi2023, equation 4 and table 1).

    .. math:: \mathrm{WRS}(x) = x + \mathrm{DropPath}_p(\alpha \odot b), \qquad
              \mathrm{Lip}(\mathrm{WRS}) \le 1 + \max_i |\alpha_i|\, \mathrm{Lip}(f)

    The paper prints an equality without absolute values (errata, Q11). DropPath drops the whole branch of a sample, in
    training mode only. Kept branches are divided by 1 - p unless ``rescale`` is False. With the division the expected output
    equals that of evaluation mode, but the bound becomes :math:`1 + \max|\alpha_i| \mathrm{Lip}(f)/(1 - p)`; the
    paper's equation 21 does not divide (errata, Q14).

    Shapes: x and b have the same shape, with the batch first and D channels at ``axis``.

    Args:
        dim: channels D.
        alpha: initial value of all D numbers of α (parameter ``alpha``): 0.1 or 0.2 in the paper's text, 1 over the number of
            residual branches in its table 6 and in theorem 2.
        drop_path: p.
        rescale: divide a kept branch by 1 - p.
        axis: axis of the channels; 1 for images (B, D, H, W).

    Raises:
        ValueError: ``drop_path`` outside [0, 1), a width below 1; in a call, shapes that differ, or a wrong width.
    """

    def __init__(
        self, dim: int, alpha: float, *, drop_path: float = 0.0, rescale: bool = True, axis: int = -1
    ) -> None:
        super().__init__()
        if dim < 1:
            raise ValueError(f"dim: {dim} (allowed: at least 1)")
        if not 0 <= drop_path < 1:
            raise ValueError(f"drop_path: {drop_path} (allowed: 0 <= p < 1)")
        self.dim, self.initial, self.drop_path = dim, float(alpha), float(drop_path)
        self.rescale, self.axis = rescale, axis
        self.alpha = nn.Parameter(torch.full((dim,), self.initial))

    def reset_parameters(self) -> None:
        """Reset α to its initial value; no random numbers are drawn."""
        nn.init.constant_(self.alpha, self.initial)

    def forward(self, x: Tensor, branch: Tensor) -> Tensor:
        """Return the stream after the branch, shaped like ``x``."""
        if x.shape != branch.shape or x.shape[self.axis] != self.dim:
            raise ValueError(
                f"x, branch: shapes {tuple(x.shape)}, {tuple(branch.shape)} "
                f"(allowed: the same, {self.dim} channels at axis {self.axis})"
            )
        shape = [1] * x.dim()
        shape[self.axis] = self.dim
        alpha = self.alpha.view(shape)
        if self.training and self.drop_path:
            keep = x.new_empty(x.shape[0], *[1] * (x.dim() - 1)).bernoulli_(1 - self.drop_path)
            alpha = alpha * (keep / (1 - self.drop_path) if self.rescale else keep)
        return torch.addcmul(x, alpha, branch)

    def extra_repr(self) -> str:
        return f"{self.dim}, alpha={self.initial}, drop_path={self.drop_path}, axis={self.axis}"
