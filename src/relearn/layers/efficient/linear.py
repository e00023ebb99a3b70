"""Linear attention: the exponential of a dot product is replaced by a product of features.

Katharopoulos et al., "Transformers are RNNs" (2020), section 3.2.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import elu

from relearn.layers.efficient.token_attention import TokenAttention, zero_padding
from relearn.layers.on_device import full_precision, wide


class LinearAttention(TokenAttention):
    r"""Attention whose weights are products of positive features (Katharopoulos et al., equations 4 to 7).

    .. math:: \mathrm{mix}(x)_i = \frac{\phi(q_i)^\top \sum_j \phi(k_j)\, v_j^\top}{\phi(q_i)^\top \sum_j \phi(k_j)}, \quad
              \phi(z) = \mathrm{elu}(z) + 1

    No attention weight is ever formed, so ``dropout`` has no effect. Sums are computed in float32 or better.

    For arguments and errors see :class:`~relearn.layers.efficient.token_attention.TokenAttention`.
    """

    def mix(self, x: Tensor, mask: Tensor | None) -> Tensor:
        q, k, v = self.project(x)
        with full_precision(x):
            asked, held = elu(wide(q)) + 1, zero_padding(elu(wide(k)) + 1, mask)
            return feature_mean(asked, held, wide(zero_padding(v, mask))).to(x.dtype)


def feature_mean(asked: Tensor, held: Tensor, v: Tensor) -> Tensor:
    r"""Return Σ_j (a_i · h_j) v_j / Σ_j (a_i · h_j), (B, H, n, w), of features (B, H, n, m), without the n x n weights.

    Where the lower sum is below the root of the smallest normal number, all has underflowed: the quotient is 0 with derivative 0. A
    sum of products of elu + 1 is 0 or at least ε²/4, far above.
    """
    total = asked @ held.sum(2).unsqueeze(3)
    least = math.sqrt(torch.finfo(total.dtype).tiny)
    return (asked @ (held.mT @ v)) / total.masked_fill(total < least, math.inf)
