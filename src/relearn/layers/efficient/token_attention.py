"""What the attentions of this folder share: maps, heads, checks."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from relearn.layers.self_attention import merge


class TokenAttention(nn.Module):
    r"""Multi-head attention of one sequence to itself, with a rule :meth:`mix` to be given.

    .. math:: y = [\mathrm{mix}_h(x)]_{h=1..H}\, W^O + b^O

    ======  ===========================  ==============  ============
    symbol  meaning                      code            shape
    ======  ===========================  ==============  ============
    x       tokens                       ``x``           (B, n, D)
            tokens, not padding          ``mask``        (B, n), bool
    q, k    queries and keys             ``q``, ``k``    (B, H, n, w)
    v       values                       ``v``           (B, H, n, w)
    y       output                                       (B, n, D)
    ======  ===========================  ==============  ============

    with w = D/H. What padded tokens hold changes no other token's output, nor does padding at the end: a sequence alone and the same
    one padded up to ``max_length`` give the same. Outputs at padded tokens are finite and have no meaning.

    Args:
        dim: width D, a multiple of ``heads``.
        heads: H.
        max_length: the most tokens of a sequence; sizes that the members derive from a length are derived from this one.
        dropout: probability of dropping an attention weight, in training mode; for members that have such weights.
        bias: whether the linear maps have one.

    Raises:
        ValueError: a size or a probability out of range; in a call: no token, too many, wrong shapes, a mask that is not
            boolean or hides a whole sequence.
    """

    maps: tuple[str, ...] = ("q", "k", "v", "out")
    out: nn.Linear

    def __init__(
        self, dim: int, heads: int, *, max_length: int, dropout: float = 0.0, bias: bool = True
    ) -> None:
        super().__init__()
        if heads < 1 or dim < 1 or dim % heads:
            raise ValueError(f"heads: {heads} of width {dim} (allowed: a divisor of the width)")
        if max_length < 1:
            raise ValueError(f"max_length: {max_length} (allowed: at least 1)")
        if not 0 <= dropout < 1:
            raise ValueError(f"dropout: {dropout} (allowed: 0 <= p < 1)")
        self.dim, self.heads, self.max_length, self.dropout = dim, heads, max_length, dropout
        self.width = dim // heads
        for name in self.maps:
            map_ = nn.Linear(dim, dim, bias=bias)
            nn.init.xavier_uniform_(map_.weight)
            if map_.bias is not None:
                nn.init.zeros_(map_.bias)
            self.add_module(name, map_)

    def forward(self, x: Tensor, *, mask: Tensor | None = None) -> Tensor:
        """Output (B, n, D) of tokens (B, n, D); ``mask`` (B, n), bool: True = a token, False = padding."""
        self._check(x, mask)
        return self.out(merge(self.mix(x, mask)))

    def mix(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """Mixtures (B, H, n, w) of values."""
        raise NotImplementedError

    def project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values, each (B, H, n, w)."""
        q, k, v = (self.split(self.get_submodule(name)(x)) for name in ("q", "k", "v"))
        return q, k, v

    def split(self, x: Tensor) -> Tensor:
        """(B, n, D) to (B, H, n, w)."""
        return x.unflatten(2, (self.heads, self.width)).transpose(1, 2)

    @property
    def dropped(self) -> float:
        """The probability of dropping a weight in the present mode."""
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
        if empty.any():
            raise ValueError(
                f"mask: sequence {int(empty.nonzero()[0])} is all padding (allowed: at least one token)"
            )


def full_precision(x: Tensor) -> torch.autocast:
    """Autocast switched off: products of what :func:`wide` made stay in float32."""
    return torch.autocast(x.device.type, enabled=False)


def wide(x: Tensor) -> Tensor:
    """x in float32 where it is of half precision."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def emptied(x: Tensor, mask: Tensor | None) -> Tensor:
    """x (B, H, n, w) with zeros at padding."""
    return x if mask is None else x.masked_fill(~mask[:, None, :, None], 0.0)
