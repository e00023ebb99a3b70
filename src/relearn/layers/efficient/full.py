"""Full attention: every token sees every token.

Vaswani et al., "Attention Is All You Need" (2017), section 3.2.
"""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from relearn.layers.efficient.token_attention import TokenAttention


class FullAttention(TokenAttention):
    r"""Softmax attention over all tokens, computed by torch's fused kernel.

    .. math:: \mathrm{mix}(x)_i = \sum_j \mathrm{softmax}_j(q_i \cdot k_j / \sqrt w)\, v_j

    For arguments and errors see :class:`~relearn.layers.efficient.token_attention.TokenAttention`.
    """

    def mix(self, x: Tensor, mask: Tensor | None) -> Tensor:
        q, k, v = self.project(x)
        seen = None if mask is None else mask[:, None, None]
        return scaled_dot_product_attention(q, k, v, attn_mask=seen, dropout_p=self.dropped)
