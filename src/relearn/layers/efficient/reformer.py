"""Reformer: each token attends to the tokens that random hyperplanes hash into the same bucket.

Kitaev, Kaiser and Levskaya, "Reformer: The Efficient Transformer" (2020), section 2.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import dropout, normalize, pad

from relearn.layers.efficient.token_attention import TokenAttention
from relearn.layers.on_device import full_precision, wide

ITSELF = 1e5
"""Penalty subtracted from the logit of a token with itself."""


class ReformerAttention(TokenAttention):
    r"""Attention by locality-sensitive hashing, with keys :math:`k_j = q_j / |q_j|` (queries and keys share a map).

    .. math::
        h_r(q) = \mathrm{argmax}\,[q R_r; -q R_r], \qquad
        z_{ij} = q_i \cdot k_j - 10^5\,[i = j], \qquad
        \mathrm{mix}(x)_i = \frac{\sum_r \sum_{j \in S_r(i)} e^{z_{ij}}\, v_j}{\sum_r \sum_{j \in S_r(i)} e^{z_{ij}}}

    In each round r, tokens are sorted by bucket, then by position, and cut into chunks of ``chunk``. S_r(i) are the tokens of i's
    bucket in i's chunk and in the previous one (the first chunk has no previous one). A token attends to itself only if it
    sees no other token. A key seen in two rounds counts twice, as in the maintained code; the paper divides by its multiplicity.

    R_r (w, b/2), one per head, is drawn once from torch's global generator and saved with the state; :meth:`redraw` draws new ones.
    The number of buckets b is the largest power of two that is at most 2 ``max_length`` / ``chunk``, at least 2. Padding is
    sorted after all buckets.

    Args:
        dim, heads, max_length, dropout, bias: see :class:`~relearn.layers.efficient.token_attention.TokenAttention`.
        rounds: number of hashing rounds, 2 in zhu2022's table 5.1.
        chunk: tokens per chunk.

    Raises:
        ValueError: a size below 1, or arguments that the base class rejects.
    """

    maps = ("q", "v", "out")
    rotations: Tensor

    def __init__(
        self,
        dim: int,
        heads: int,
        *,
        max_length: int,
        rounds: int = 2,
        chunk: int = 64,
        dropout: float = 0.0,
        bias: bool = True,
    ) -> None:
        super().__init__(dim, heads, max_length=max_length, dropout=dropout, bias=bias)
        for name, value in (("rounds", rounds), ("chunk", chunk)):
            if value < 1:
                raise ValueError(f"{name}: {value} (allowed: at least 1)")
        self.chunk = chunk
        self.buckets = max(2, 1 << (2 * (max_length // chunk)).bit_length() >> 1)
        self.register_buffer("rotations", torch.randn(heads, rounds, self.width, self.buckets // 2))

    def redraw(self) -> None:
        """Draw new hyperplanes from torch's global generator."""
        self.rotations.normal_()

    def bucket_of(self, q: Tensor) -> Tensor:
        """Return the buckets (B, H, r, n) of queries (B, H, n, w)."""
        turned = torch.einsum("bhnw,hrwc->bhrnc", q, self.rotations.to(q.dtype))
        return torch.cat([turned, -turned], 4).argmax(4)

    def mix(self, x: Tensor, mask: Tensor | None) -> Tensor:
        length = x.shape[1]
        q, v = (self.split(self.get_submodule(name)(x)) for name in ("q", "v"))
        with full_precision(x):
            bucket = self.bucket_of(q.detach())
            if mask is not None:
                bucket = bucket.masked_fill(~mask[:, None, None], self.buckets)
            order = bucket.argsort(dim=3, stable=True)
            more = -length % self.chunk
            sorted_q, sorted_v = (
                pad(_gather_rows(one[:, :, None], order), (0, 0, 0, more)).unflatten(3, (-1, self.chunk))
                for one in (wide(q), v)
            )
            kind = pad(bucket.gather(3, order), (0, more), value=self.buckets).unflatten(3, (-1, self.chunk))
            keys, values = _with_previous(normalize(sorted_q, dim=-1), 0.0), _with_previous(sorted_v, 0.0)
            other = _with_previous(kind[..., None], -1)[..., 0]
            logits = sorted_q @ keys.mT
            alike = (kind[..., None] == other[..., None, :]) & (kind[..., None] < self.buckets)
            itself = torch.eye(self.chunk, dtype=torch.bool, device=x.device)
            itself = pad(itself, (self.chunk, 0))
            logits = (logits - ITSELF * itself).masked_fill(~(alike | itself), -torch.inf)
            total = logits.logsumexp(-1, keepdim=True)
            weights = dropout((logits - total).exp(), self.dropout, self.training).to(v.dtype)
            mixed, total = ((one.flatten(3, 4)[:, :, :, :length]) for one in (weights @ values, total))
            back = order.argsort(3)
            share = _gather_rows(total, back).softmax(2).to(v.dtype)
            return (share * _gather_rows(mixed, back)).sum(2)


def _gather_rows(x: Tensor, index: Tensor) -> Tensor:
    """Gather rows ``index`` (B, H, r, n) of x (B, H, r or 1, n, w)."""
    x = x.expand(*index.shape[:3], -1, -1)
    return x.gather(3, index[..., None].expand(*index.shape, x.shape[4]))


def _with_previous(x: Tensor, first: float) -> Tensor:
    """Prepend the previous chunk to each: (B, H, r, c, m, w) to (B, H, r, c, 2 m, w); the first gets the value ``first``."""
    before = pad(x, (0, 0, 0, 0, 1, 0), value=first)[:, :, :, :-1]
    return torch.cat([before, x], 4)
