"""Base class of the attention layers in this package: maps, heads and argument checks."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from relearn.layers.self_attention import check_heads, merge


class TokenAttention(nn.Module):
    r"""Multi-head self-attention of a sequence; subclasses implement the mixing rule :meth:`mix`.

    .. math:: y = [\mathrm{mix}_h(x)]_{h=1..H}\, W^O + b^O

    ======  ===========================  ==============  ============
    symbol  meaning                      code            shape
    ======  ===========================  ==============  ============
    x       tokens                       ``x``           (B, n, D)
            True = token, False = padding  ``mask``      (B, n), bool
    q, k    queries and keys             ``q``, ``k``    (B, H, n, w)
    v       values                       ``v``           (B, H, n, w)
    y       output                                       (B, n, D)
    ======  ===========================  ==============  ============

    with w = D/H. The content of padding, if finite, does not change the output of any token, nor does the amount of padding at
    the end: a sequence gives the same outputs alone and padded up to ``max_length``. Outputs at padding are finite but
    meaningless.

    Args:
        dim: width D, a multiple of ``heads``.
        heads: H.
        max_length: maximum number of tokens in a sequence; layers that derive sizes from a length use this one.
        dropout: probability of dropping an attention weight, in training mode; only for layers that form such weights.
        bias: whether the linear maps have biases.

    Raises:
        ValueError: a size or a probability is out of range; in a call: no token, too many tokens, wrong shapes, or a mask
            that is not boolean or hides a whole sequence.
    """

    maps: tuple[str, ...] = ("q", "k", "v", "out")
    out: nn.Linear

    def __init__(
        self, dim: int, heads: int, *, max_length: int, dropout: float = 0.0, bias: bool = True
    ) -> None:
        super().__init__()
        check_heads(dim, heads, dropout)
        if max_length < 1:
            raise ValueError(f"max_length: {max_length} (allowed: at least 1)")
        self.dim, self.heads, self.max_length, self.dropout = dim, heads, max_length, dropout
        self.width = dim // heads
        for name in self.maps:
            map_ = nn.Linear(dim, dim, bias=bias)
            nn.init.xavier_uniform_(map_.weight)
            if map_.bias is not None:
                nn.init.zeros_(map_.bias)
            self.add_module(name, map_)

    def forward(self, x: Tensor, *, mask: Tensor | None = None) -> Tensor:
        """Return the output (B, n, D) of tokens (B, n, D); ``mask`` (B, n), bool: True = token, False = padding."""
        self._check(x, mask)
        return self.out(merge(self.mix(x, mask)))

    def mix(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """Return the mixtures of values, (B, H, n, w)."""
        raise NotImplementedError

    def project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries, keys and values, each (B, H, n, w)."""
        q, k, v = (self.split(self.get_submodule(name)(x)) for name in ("q", "k", "v"))
        return q, k, v

    def split(self, x: Tensor) -> Tensor:
        """Reshape (B, n, D) to (B, H, n, w)."""
        return x.unflatten(2, (self.heads, self.width)).transpose(1, 2)

    @property
    def dropped(self) -> float:
        """Probability of dropping a weight in the current mode."""
        return self.dropout if self.training else 0.0

    def _check(self, x: Tensor, mask: Tensor | None) -> None:
        if x.dim() != 3 or x.shape[2] != self.dim:
            raise ValueError(f"x: shape {tuple(x.shape)} (allowed: (B, n, {self.dim}))")
        if not 1 <= x.shape[1] <= self.max_length:
            raise ValueError(f"x: {x.shape[1]} tokens (allowed: 1 to max_length = {self.max_length})")
        if mask is None:
            return
        if mask.dtype != torch.bool or mask.shape != x.shape[:2]:
            raise ValueError(
                f"mask: {mask.dtype} of shape {tuple(mask.shape)} (allowed: torch.bool of {tuple(x.shape[:2])})"
            )
        empty = ~mask.any(1)
        if not mask.is_meta and empty.any():
            raise ValueError(
                f"mask: sequence {int(empty.nonzero()[0])} is all padding (allowed: at least one token)"
            )


def zero_padding(x: Tensor, mask: Tensor | None) -> Tensor:
    """Return x (B, H, n, w) with zeros at padding."""
    return x if mask is None else x.masked_fill(~mask[:, None, :, None], 0.0)
