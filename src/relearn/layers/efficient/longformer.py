"""Longformer: a band around the diagonal, and a few global tokens that see all tokens and are seen by all.

Beltagy, Peters and Cohan, "Longformer: The Long-Document Transformer" (2020), section 3.1.
"""

from __future__ import annotations

from torch import Tensor, nn

from relearn.layers.efficient.blocks import block_attention, distances, neighbours, with_global_rows
from relearn.layers.efficient.token_attention import TokenAttention


class LongformerAttention(TokenAttention):
    r"""Sliding-window attention with global tokens.

    .. math:: S(i) = \{j : |i - j| \le \tfrac{W}{2}\} \cup \{j < g\}, \quad S(i) = \text{all for } i < g; \qquad
              \mathrm{mix}(x)_i = \sum_{j \in S(i)} \mathrm{softmax}_j(q_i \cdot k_j / \sqrt w)\, v_j

    The first g tokens are global. Their own attention uses three further maps (``global_q``, ``global_k``, ``global_v``),
    which are initialised as copies of the others.

    Args:
        dim, heads, max_length, dropout, bias: see :class:`~relearn.layers.efficient.token_attention.TokenAttention`.
        window: W, even; 512 in the paper.
        global_tokens: g, 0 or more.

    Raises:
        ValueError: an odd window or one below 2, a negative ``global_tokens``, or arguments that the base class rejects.
    """

    def __init__(
        self,
        dim: int,
        heads: int,
        *,
        max_length: int,
        window: int = 512,
        global_tokens: int = 0,
        dropout: float = 0.0,
        bias: bool = True,
    ) -> None:
        super().__init__(dim, heads, max_length=max_length, dropout=dropout, bias=bias)
        if window < 2 or window % 2:
            raise ValueError(f"window: {window} (allowed: even, at least 2)")
        if global_tokens < 0:
            raise ValueError(f"global_tokens: {global_tokens} (allowed: 0 or more)")
        self.side, self.global_tokens = window // 2, global_tokens
        for name in ("q", "k", "v") if global_tokens else ():
            own = nn.Linear(dim, dim, bias=bias)
            own.load_state_dict(self.get_submodule(name).state_dict())
            self.add_module(f"global_{name}", own)

    def mix(self, x: Tensor, mask: Tensor | None) -> Tensor:
        q, k, v = self.project(x)
        size, first = min(self.side, x.shape[1]), self.global_tokens
        mixed = block_attention(
            q,
            k,
            v,
            size=size,
            table=neighbours(-(-x.shape[1] // size), 1, x.device),
            mask=mask,
            pattern=distances(size, 1, x.device).abs() <= self.side,
            first=first,
            dropout=self.dropped,
        )
        if not first:
            return mixed
        q, k, v = (
            self.split(self.get_submodule(f"global_{name}")(rows))
            for name, rows in (("q", x[:, :first]), ("k", x), ("v", x))
        )
        return with_global_rows(mixed, q, k, v, mask=mask, dropout=self.dropped)
