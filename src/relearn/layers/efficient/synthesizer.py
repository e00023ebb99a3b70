"""Synthesizer: attention weights that are learned directly or computed from single tokens, without comparing tokens.

Tay et al., "Synthesizer: Rethinking Self-Attention for Transformer Models" (2021), section 3.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout, relu

from relearn.layers.efficient.token_attention import TokenAttention, zero_padding
from relearn.layers.on_device import wide

FORMS = ("dense", "random")


class SynthesizerAttention(TokenAttention):
    r"""Attention with logits that do not compare tokens.

    .. math:: \mathrm{mix}(x)_i = \sum_j \mathrm{softmax}_j(b_{ij})\, v_j, \qquad
              b_{i\cdot} = W_2\, \mathrm{relu}(W_1 x_i + c_1) + c_2 \ (\text{dense}), \qquad b = R \ (\text{random})

    in each head. W_1 is (w, D), W_2 (``max_length``, w) and R (``max_length``, ``max_length``), all learned. As published, both
    forms are quadratic in n: ``dense`` in the time and memory of every sequence, ``random`` in one matrix shared by all sequences.

    Args:
        dim, heads, max_length, dropout, bias: see :class:`~relearn.layers.efficient.token_attention.TokenAttention`.
        form: ``dense`` or ``random``.

    Raises:
        ValueError: an unknown form, or arguments that the base class rejects.
    """

    maps = ("v", "out")

    def __init__(
        self,
        dim: int,
        heads: int,
        *,
        max_length: int,
        form: str = "dense",
        dropout: float = 0.0,
        bias: bool = True,
    ) -> None:
        super().__init__(dim, heads, max_length=max_length, dropout=dropout, bias=bias)
        if form not in FORMS:
            raise ValueError(f"form: {form!r} (allowed: {', '.join(FORMS)})")
        self.form = form
        if form == "random":
            self.logits = nn.Parameter(torch.empty(heads, max_length, max_length))
            for one in self.logits:
                nn.init.xavier_uniform_(one)
        else:
            self.first = nn.Linear(dim, dim)
            self.second = nn.Parameter(torch.empty(heads, max_length, self.width))
            self.second_bias = nn.Parameter(torch.zeros(heads, 1, max_length))
            for one in self.second:
                nn.init.xavier_uniform_(one)

    def mix(self, x: Tensor, mask: Tensor | None) -> Tensor:
        length = x.shape[1]
        v = zero_padding(self.split(self.get_submodule("v")(x)), mask)
        if self.form == "random":
            logits = wide(self.logits[:, :length, :length])[None]
        else:
            hidden = relu(self.split(self.first(x)))
            logits = wide(hidden @ self.second[:, :length].mT + self.second_bias[..., :length])
        if mask is None:
            weights = logits.softmax(-1)
        elif self.form == "dense":
            weights = logits.masked_fill(~mask[:, None, None], -torch.inf).softmax(-1)
        else:
            return self._shared(logits.softmax(-1), v, mask)
        return dropout(weights, self.dropout, self.training).to(v.dtype) @ v

    def _shared(self, weights: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        """Mix by one matrix (1, H, n, n) shared by all sequences; weight on padding is redistributed to the tokens."""
        share = weights @ mask[:, None, :, None].to(weights.dtype)
        weights = dropout(weights, self.dropout, self.training)
        return (weights @ wide(v) / share.clamp(min=torch.finfo(share.dtype).tiny)).to(v.dtype)
