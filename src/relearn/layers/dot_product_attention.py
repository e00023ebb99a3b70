r"""Multi-head dot-product self-attention, the baseline of L2 attention.

Vaswani et al., "Attention Is All You Need" (2017), section 3.2.2; Kim, Papamakarios and Mnih, "The Lipschitz Constant
of Self-Attention" (2021), equations 4 and 5.
"""

from __future__ import annotations

from torch import Tensor, nn

from relearn.layers.self_attention import SelfAttention


class DotProductAttention(SelfAttention):
    r"""Dot-product self-attention.

    .. math::
        P^h = \mathrm{softmax}(X W^{Q,h} (X W^{K,h})^\top / s), \quad s = \sqrt{D/H}, \quad
        F(X) = [P^1 X W^{V,1}, \ldots, P^H X W^{V,H}]\, W^O

    The maps are ``q k v out``, each a Linear (D, D); head h of W^Q is ``q.weight[h * D/H : (h + 1) * D/H].T``.

    Facts (tests/layers/test_dot_product_attention.py): equals a slow loop over the formula and
    ``torch.nn.MultiheadAttention`` with the same weights; it has no Lipschitz constant (theorem 3.1): around a token at 0
    its derivative grows with the spread of the other tokens, with biases too (appendix D).

    Args:
        dim: width D, a multiple of ``heads``.
        heads: H.
        dropout: probability of dropping an attention weight, in training mode.
        bias: whether the four maps have biases (none in the paper; ``torch.nn.MultiheadAttention`` has them).
        fused: see :class:`~relearn.layers.self_attention.SelfAttention`, which also documents masks, errors and return
            values.
    """

    def __init__(
        self, dim: int, heads: int, *, dropout: float = 0.0, bias: bool = False, fused: bool = True
    ) -> None:
        super().__init__(dim, heads, dropout, fused)
        self.beta = (dim // heads) ** -0.5
        self.q = nn.Linear(dim, dim, bias=bias)
        self.k = nn.Linear(dim, dim, bias=bias)
        self.v = nn.Linear(dim, dim, bias=bias)
        self.out = nn.Linear(dim, dim, bias=bias)
        self.reset_parameters()

    def project(
        self, x: Tensor, rows: slice, mask: Tensor | None, causal: bool
    ) -> tuple[Tensor, Tensor, None, Tensor, None]:
        return self.split(self.q(x[:, rows])), self.split(self.k(x)), None, self.split(self.v(x)), None

    def maps(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return W^Q, W^K, W^V, each (H, D, D/H), and W^O (D, D), as differentiable views."""
        stacked = [one.weight.unflatten(0, (self.heads, -1)).mT for one in (self.q, self.k, self.v)]
        return stacked[0], stacked[1], stacked[2], self.out.weight.T
