"""Linear attention: the exponential of a dot product replaced by a product of features.

Katharopoulos et al., "Transformers are RNNs" (2020), section 3.2.
"""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import elu

from relearn.layers.efficient.token_attention import TokenAttention, emptied, full_precision, wide


class LinearAttention(TokenAttention):
    r"""Attention whose weights are products of positive features (equations 4 to 7 there).

    .. math:: \mathrm{mix}(x)_i = \frac{\phi(q_i)^\top \sum_j \phi(k_j)\, v_j^\top}{\phi(q_i)^\top \sum_j \phi(k_j)}, \quad
              \phi(z) = \mathrm{elu}(z) + 1

    No weight is ever formed, so ``dropout`` acts on nothing. Sums are in float32 at least.

    Arguments and errors: see :class:`~relearn.layers.efficient.token_attention.TokenAttention`.
    """

    def mix(self, x: Tensor, mask: Tensor | None) -> Tensor:
        q, k, v = self.project(x)
        with full_precision(x):
            asked, held = elu(wide(q)) + 1, emptied(elu(wide(k)) + 1, mask)
            return weighted(asked, held, wide(emptied(v, mask))).to(x.dtype)


def weighted(asked: Tensor, held: Tensor, v: Tensor) -> Tensor:
    """Σ_j (a_i · h_j) v_j / Σ_j (a_i · h_j), (B, H, n, w), of features (B, H, n, m), without the n x n weights."""
    total = asked @ held.sum(2).unsqueeze(3)
    # a query whose features all round to 0 gives 0, not 0/0
    return (asked @ (held.mT @ v)) / total.clamp(min=1e-12)
