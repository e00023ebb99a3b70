"""Residual connections: how a branch is added to the stream, and where the normalisation is."""

from __future__ import annotations

import torch
from torch import Tensor, nn

KINDS = ("post_ln", "w_skip", "rezero", "no_norm")


class Residual(nn.Module):
    r"""Join a branch's output b = f(x) to the stream x.

    =============  =============================================  ==================================================
    kind           formula                                        source
    =============  =============================================  ==================================================
    ``post_ln``    :math:`\mathrm{LN}(x + b)`                     Vaswani et al. 2017
    ``w_skip``     :math:`\mathrm{LN}(w_{skip} \odot x + b)`      Liu et al. 2020 (Admin); w_skip in R^d, starts at 1
    ``rezero``     :math:`x + \alpha\, b`                         Bachlechner et al. 2020; one number, starts at 0
    ``no_norm``    :math:`x + b`                                  Huang et al. 2020 (T-FixUp): without normalisation
    =============  =============================================  ==================================================

    Shapes: x and b (..., d). Dropout acts on b. At initialisation ``post_ln`` and ``w_skip`` are the same function.

    Args:
        dim: width d.
        kind: one of :data:`KINDS`.
        dropout: probability of dropping an element of b, in training mode.
        fixed: freeze ``w_skip`` (the failure described in zhu2022, section 4.3.2).

    Raises:
        ValueError: an unknown kind.
    """

    def __init__(self, dim: int, kind: str, dropout: float = 0.0, *, fixed: bool = False) -> None:
        super().__init__()
        if kind not in KINDS:
            raise ValueError(f"residual: {kind!r} (allowed: {', '.join(KINDS)})")
        self.kind = kind
        self.dropout = nn.Dropout(dropout)
        if kind in ("post_ln", "w_skip"):
            self.norm = nn.LayerNorm(dim)
        if kind == "w_skip":
            self.w_skip = nn.Parameter(torch.ones(dim), requires_grad=not fixed)
        if kind == "rezero":
            self.alpha = nn.Parameter(torch.zeros(()))

    def forward(self, x: Tensor, branch: Tensor) -> Tensor:
        """Return the stream after the branch, (..., d)."""
        branch = self.dropout(branch)
        if self.kind == "post_ln":
            return self.norm(x + branch)
        if self.kind == "w_skip":
            return self.norm(self.w_skip * x + branch)
        if self.kind == "rezero":
            return x + self.alpha * branch
        return x + branch
