"""Nyströmformer: the softmax matrix from landmarks, by Nyström's method.

Xiong et al., "Nyströmformer" (2021), section 3.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout, pad

from relearn.layers.efficient.token_attention import TokenAttention, emptied, full_precision, wide


class NystromformerAttention(TokenAttention):
    r"""Attention through m landmarks (equation 13 there).

    .. math::
        \mathrm{mix}(x) = \big(s(q \tilde k^\top)\, s(\tilde q \tilde k^\top)^{+}\big)\,\big(s(\tilde q k^\top)\, v\big) + \mathrm{conv}(v),
        \quad s = \mathrm{softmax}(\cdot / \sqrt w)

    Landmarks :math:`\tilde q, \tilde k` are means of q and k over segments of :math:`\lceil` ``max_length`` / m :math:`\rceil` tokens;
    padding is left out of the means, and a segment of padding alone is no landmark. With one token a segment this is the softmax itself
    where :math:`s(\tilde q \tilde k^\top)` is invertible. The Moore-Penrose inverse is :func:`pseudo_inverse`'s; it and the softmaxes
    are in float32 at least. The products are taken in the order of the brackets, as in the released code, and table 5.1 counts
    them so.

    conv: along the sequence, ``kernel`` taps a head, no bias; padding counts as zero. The paper adds it; 35 taps on LRA in the
    released code.

    Args:
        dim, heads, max_length, dropout, bias: see :class:`~relearn.layers.efficient.token_attention.TokenAttention`;
            ``dropout`` is of the weights from tokens to landmarks.
        landmarks: m, 128 in zhu2022's table 5.1.
        steps: of the pseudo-inverse.
        kernel: taps, odd; 0 for no convolution.

    Raises:
        ValueError: fewer than one landmark or step, an even number of taps; what the base class refuses.
    """

    def __init__(
        self,
        dim: int,
        heads: int,
        *,
        max_length: int,
        landmarks: int = 128,
        steps: int = 6,
        kernel: int = 35,
        dropout: float = 0.0,
        bias: bool = True,
    ) -> None:
        super().__init__(dim, heads, max_length=max_length, dropout=dropout, bias=bias)
        for name, value in (("landmarks", landmarks), ("steps", steps)):
            if value < 1:
                raise ValueError(f"{name}: {value} (allowed: at least 1)")
        if kernel < 0 or (kernel and kernel % 2 == 0):
            raise ValueError(f"kernel: {kernel} (allowed: 0 or odd)")
        self.segment, self.steps = -(-max_length // landmarks), steps
        self.conv = None
        if kernel:
            self.conv = nn.Conv2d(
                heads, heads, (kernel, 1), padding=(kernel // 2, 0), groups=heads, bias=False
            )

    def mix(self, x: Tensor, mask: Tensor | None) -> Tensor:
        q, k, v = self.project(x)
        v = emptied(v, mask)
        with full_precision(x):
            asked, held = (wide(one) / self.width**0.25 for one in (q, k))
            (few_asked, few_held), live = self._landmarks(asked, held, mask)
            first = softmax(asked @ few_held.mT, live)
            middle = softmax(few_asked @ few_held.mT, live)
            if live is not None:
                middle = middle * live[:, None, :, None]
            last = softmax(few_asked @ held.mT, mask)
            first = dropout(first, self.dropout, self.training)
            mixed = ((first @ pseudo_inverse(middle, self.steps)) @ (last @ wide(v))).to(x.dtype)
        return mixed if self.conv is None else mixed + self.conv(v)

    def _landmarks(
        self, asked: Tensor, held: Tensor, mask: Tensor | None
    ) -> tuple[tuple[Tensor, Tensor], Tensor | None]:
        """Means of both over segments, (B, H, m, w), and which of them are of any token, (B, m); None: all."""
        length = asked.shape[2]
        more = -length % self.segment
        q, k = (
            pad(emptied(one, mask), (0, 0, 0, more)).unflatten(2, (-1, self.segment)).sum(3)
            for one in (asked, held)
        )
        tokens = asked.new_ones(1, length) if mask is None else mask.to(asked.dtype)
        count = pad(tokens, (0, more)).unflatten(1, (-1, self.segment)).sum(2)
        each = count.clamp(min=1)[:, None, :, None]
        return (q / each, k / each), None if mask is None else count > 0


def softmax(logits: Tensor, seen: Tensor | None) -> Tensor:
    """Softmax over the last axis of (B, H, a, b), over what ``seen`` (B, b) says."""
    if seen is not None:
        logits = logits.masked_fill(~seen[:, None, None], -torch.inf)
    return logits.softmax(-1)


def pseudo_inverse(matrix: Tensor, steps: int) -> Tensor:
    r"""Moore-Penrose inverse of (..., m, m) with rows that sum to 1 (or are zero), by an iteration of third order (section 3.3 there).

    .. math:: Z_0 = A^\top / (\|A\|_1 \|A\|_\infty), \qquad
              Z \leftarrow \tfrac14 Z\,(13 I - A Z\,(15 I - A Z\,(7 I - A Z)))

    The largest row sum is 1; the largest column sum is each matrix's own (released code: of the whole batch, so that one sequence
    changes another's output).
    """
    z = matrix.mT / matrix.sum(-2).amax(-1)[..., None, None]
    one = torch.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)
    for _ in range(steps):
        product = matrix @ z
        z = 0.25 * z @ (13 * one - product @ (15 * one - product @ (7 * one - product)))
    return z
