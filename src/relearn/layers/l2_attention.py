r"""Multi-head L2 self-attention: Lipschitz if queries and keys are tied, optionally contractive.

Kim, Papamakarios and Mnih, "The Lipschitz Constant of Self-Attention" (2021), sections 3.2 and 4.2, appendices E, G, H
and M.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from relearn.layers.on_device import wide
from relearn.layers.self_attention import SelfAttention
from relearn.maths.l2_bounds import bound_inf, bound_two


class L2Attention(SelfAttention):
    r"""L2 self-attention (equation 10).

    .. math::
        P^h_{ij} = \mathrm{softmax}_j(-\|x_i^\top W^{Q,h} - x_j^\top W^{K,h}\|_2^2 / s), \quad s = \sqrt{D/H}, \quad
        F(X) = [f^1 W^{V,1}, \ldots, f^H W^{V,H}]\, W^O

    with :math:`f^h = P^h X A_h`, :math:`A_h = W^{Q,h} W^{Q,h\top} / s` (section 3.2; appendix F for the untied form), or
    :math:`f^h = P^h X` without ``value_map``. Distances are computed by equation 16, without an N x N x D tensor; its term
    :math:`|q_i|^2` is omitted because it cancels in the softmax. :math:`X A_h W^{V,h}` is computed as
    :math:`(X W^{Q,h}) (W^{Q,h\top} W^{V,h} / s)`.

    ======  ==================================  ==========  ==========
    symbol  meaning                             code        weight
    ======  ==================================  ==========  ==========
    W^Q     queries, width w per head           ``q``       (H w, D)
    W^K     keys (tied: W^Q, no own module)     ``k``       (H w, D)
    W^V     values                              ``v``       (D, D)
    W^O     output                              ``out``     (D, D)
    ======  ==================================  ==========  ==========

    The rows ``h * w : (h + 1) * w`` of ``q.weight`` are the transpose of W^{Q,h}; no map has a bias.

    Facts (tests/layers/test_l2_attention.py): equals a slow loop over the formulas; shifting all tokens by the same vector
    does not change the tied probabilities; far from the origin float32 keeps its precision, because a point near the
    tokens is subtracted first; with ``causal``, a later token changes no bit of an earlier output; ``contractive``
    respects its constant.

    A contractive layer is divided by its bound for the current weights, and its gradient includes that of the bound. The
    guarantee holds in evaluation mode and for training without dropout, since inverted dropout multiplies by 1/(1 - p)
    (errata, appendix H). It holds for any mask under which each token sees itself (errata, appendix G).

    Args:
        dim: width D, a multiple of ``heads``.
        heads: H.
        tied: W^K = W^Q. An untied layer has no Lipschitz constant (lemma F.1).
        query_width: w, default D/H. Appendix M gives a tied layer 2D/H, so that it has as many parameters as an untied one;
            s is unchanged.
        value_map: whether values are multiplied by A_h, as the bound requires.
        contractive: divide by the bound of theorem 3.2, "inf" or "two" (the tightest valid form); None: do not divide.
        scale: upper bound on the Lipschitz constant of a contractive layer.
        max_length: N in that bound. With None, N is the length of the input, which then influences every output; a
            language model must set it.
        masked: whether the p = two bound must hold under a mask. None: yes if the call has a mask or is causal.
        dropout: probability of dropping an attention weight, in training mode.
        fused: see :class:`~relearn.layers.self_attention.SelfAttention`, which also documents masks, errors and return
            values.

    Raises:
        ValueError: as in the base class; ``contractive`` is unknown or the layer has no bound (untied, or without A_h);
            numbers that are not positive; in a call of a contractive layer, a token hidden from itself or more
            than ``max_length`` tokens.
    """

    def __init__(
        self,
        dim: int,
        heads: int,
        *,
        tied: bool = True,
        query_width: int | None = None,
        value_map: bool = True,
        contractive: Literal["inf", "two"] | None = None,
        scale: float = 1.0,
        max_length: int | None = None,
        masked: bool | None = None,
        dropout: float = 0.0,
        fused: bool = True,
    ) -> None:
        super().__init__(dim, heads, dropout, fused)
        width = dim // heads if query_width is None else query_width
        if width < 1:
            raise ValueError(f"query_width: {query_width} (allowed: at least 1)")
        if contractive not in (None, "inf", "two"):
            raise ValueError(f"contractive: {contractive!r} (allowed: None, 'inf', 'two')")
        if not 0 < scale < math.inf:
            raise ValueError(f"scale: {scale} (allowed: a positive number)")
        if max_length is not None and max_length < 1:
            raise ValueError(f"max_length: {max_length} (allowed: None or at least 1)")
        self.tied, self.value_map = tied, value_map
        self.contractive, self.scale, self.max_length, self.masked = contractive, scale, max_length, masked
        if contractive:
            self._refuse_without_bound(f"contractive: {contractive!r}")
        self.root = math.sqrt(dim / heads)
        self.beta = 2 / self.root  # logits β (q k - |k|²/2)
        self.q = nn.Linear(dim, heads * width, bias=False)
        if not tied:
            self.k = nn.Linear(dim, heads * width, bias=False)
        self.v = nn.Linear(dim, dim, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)
        self.reset_parameters()

    def project(
        self, x: Tensor, rows: slice, mask: Tensor | None, causal: bool
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor | None]:
        # Distances are invariant under shifts, but float32 arithmetic is not. Hence all tokens are taken relative to a
        # nearby point, and the shift of the values is added back at the end. The point carries no gradient, because the
        # result does not depend on it.
        centre = central_token(x, mask, causal).detach()
        near = x - centre
        if self.tied:
            k = self.split(self.q(near))
            q = k[:, :, rows]
        else:
            k = self.split(self.k(near))
            q = self.split(self.q(near[:, rows]) + linear(centre, self.q.weight - self.k.weight))
        if self.value_map:
            inner = self._inner()
            v = (k if self.tied else self.split(self.q(near))) @ inner
            rest = self.split(self.q(centre)) @ inner
        else:
            v, rest = self.split(self.v(near)), self.split(self.v(centre))
        bias = wide(k).square().sum(-1).unsqueeze(-2) / -2
        if self.training and self.dropout:  # with dropout, the weights of a row do not sum to 1
            return q, k, bias, v + rest, None
        return q, k, bias, v, rest

    def maps(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return W^Q (H, D, w), W^V (H, D, D/H) and W^O (D, D) as differentiable views of the weights."""
        wq, wv = (one.weight.unflatten(0, (self.heads, -1)).mT for one in (self.q, self.v))
        return wq, wv, self.out.weight.T

    def lipschitz_bound(self, length: int, p: str = "inf", **kw: Any) -> Tensor:
        """Return an upper bound on the Lipschitz constant of the undivided F for sequences of at most ``length`` tokens.

        Args:
            length: N.
            p: norm, "inf" or "two".
            kw: arguments of :func:`~relearn.maths.l2_bounds.bound_inf` or :func:`~relearn.maths.l2_bounds.bound_two`. For
                p = two the default bound holds for any mask under which each token sees itself.

        Raises:
            ValueError: an untied layer or one without A_h, an unknown ``p``, or arguments that those functions reject.
        """
        self._refuse_without_bound("lipschitz_bound")
        if p not in ("inf", "two"):
            raise ValueError(f"p: {p!r} (allowed: 'inf', 'two')")
        halves = (torch.float16, torch.bfloat16)
        wq, wv, wo = (one.float() if one.dtype in halves else one for one in self.maps())
        if p == "inf":
            return bound_inf(wq, wv, wo, length, scale=self.root, **kw)
        kw.setdefault("masked", True if self.masked is None else self.masked)
        return bound_two(wq, wv, wo, length, scale=self.root, **kw)

    def _last_map(self, length: int, masked: bool) -> tuple[Tensor, Tensor | None]:
        if not self.contractive:
            return super()._last_map(length, masked)
        longest = length if self.max_length is None else self.max_length
        if length > longest:
            raise ValueError(
                f"x: {length} tokens (allowed: max_length, {longest}, for which the bound is computed)"
            )
        more: dict[str, Any] = {
            "check_finite": False
        }  # checking the weights is left to the training loop; NaN weights give NaN
        if self.contractive == "two":
            more["masked"] = masked if self.masked is None else self.masked
        bound = self.lipschitz_bound(longest, self.contractive, **more)
        bound = bound.clamp_min(torch.finfo(bound.dtype).tiny)  # a layer with zero weights is the zero map
        return self.out.weight * (self.scale / bound).to(self.out.weight.dtype), None

    @property
    def must_see_itself(self) -> bool:
        return self.contractive is not None

    def _inner(self) -> Tensor:
        """Return W^{Q,h}^T W^{V,h} / s, (H, w, D/H)."""
        wq, wv = (one.weight.unflatten(0, (self.heads, -1)) for one in (self.q, self.v))
        return wq @ wv.mT / self.root

    def _refuse_without_bound(self, who: str) -> None:
        if not (self.tied and self.value_map):
            found = f"tied = {self.tied}, value_map = {self.value_map}"
            raise ValueError(f"{who}: no bound for {found} (allowed: a tied layer whose values pass A_h)")


def central_token(x: Tensor, mask: Tensor | None, causal: bool) -> Tensor:
    """Return a point (B, 1, D) near the tokens (B, N, D) that leaks no token to a row that must not see it.

    Without a mask this is the mean of the tokens, or the first token if causal. With a mask it is the first token visible to all
    rows or, if there is none, the first one visible to any row (other rows then depend on it through rounding).
    """
    if mask is None:
        return x[:, :1] if causal else x.mean(1, keepdim=True)
    batch, length, dim = x.shape
    seen = mask.expand(*mask.shape[:3], length).flatten(1, 2)
    rank = (2 * seen.all(1).int() + seen.any(1).int()).argmax(-1)
    return x.gather(1, rank.expand(batch)[:, None, None].expand(-1, 1, dim))
