"""Nyströmformer: the softmax matrix approximated from landmarks by the Nyström method.

Xiong et al., "Nyströmformer" (2021), section 3.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout, pad

from relearn.layers.efficient.token_attention import TokenAttention, zero_padding
from relearn.layers.on_device import full_precision, wide


class NystromformerAttention(TokenAttention):
    r"""Attention through m landmarks (Xiong et al., equation 13).

    .. math::
        \mathrm{mix}(x) = \big(s(q \tilde k^\top)\, s(\tilde q \tilde k^\top)^{+}\big)\,\big(s(\tilde q k^\top)\, v\big) + \mathrm{conv}(v),
        \quad s = \mathrm{softmax}(\cdot / \sqrt w)

    The landmarks :math:`\tilde q, \tilde k` are means of q and k over segments of :math:`\lceil` ``max_length`` / m :math:`\rceil`
    tokens. Padding is excluded from the means, and a segment that is all padding is no landmark. With one token per segment this is
    exact softmax attention, provided :math:`s(\tilde q \tilde k^\top)` is invertible. The Moore-Penrose inverse is computed by
    :func:`pseudo_inverse`; it and the softmaxes use float32 or better. The products are evaluated in the order of the brackets, as in
    the released code; table 5.1 counts their cost in that order.

    conv is a convolution along the sequence with ``kernel`` taps per head and no bias; padding counts as zero. It is part of the
    paper's model; the released code uses 35 taps on LRA.

    Args:
        dim, heads, max_length, dropout, bias: see :class:`~relearn.layers.efficient.token_attention.TokenAttention`;
            ``dropout`` applies to the weights from tokens to landmarks.
        landmarks: m, 128 in zhu2022's table 5.1.
        steps: iterations of the pseudo-inverse.
        kernel: number of taps, odd; 0 for no convolution.

    Raises:
        ValueError: fewer than one landmark or step, an even kernel, or arguments that the base class rejects.
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
        v = zero_padding(v, mask)
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
        """Return the segment means of both, (B, H, m, w), and which segments contain a token, (B, m); None: all do."""
        length = asked.shape[2]
        more = -length % self.segment
        q, k = (
            pad(zero_padding(one, mask), (0, 0, 0, more)).unflatten(2, (-1, self.segment)).sum(3)
            for one in (asked, held)
        )
        tokens = asked.new_ones(1, length) if mask is None else mask.to(asked.dtype)
        count = pad(tokens, (0, more)).unflatten(1, (-1, self.segment)).sum(2)
        each = count.clamp(min=1)[:, None, :, None]
        return (q / each, k / each), None if mask is None else count > 0


def softmax(logits: Tensor, seen: Tensor | None) -> Tensor:
    """Softmax over the last axis of (B, H, a, b), restricted to the entries where ``seen`` (B, b) is True."""
    if seen is not None:
        logits = logits.masked_fill(~seen[:, None, None], -torch.inf)
    return logits.softmax(-1)


def pseudo_inverse(matrix: Tensor, steps: int) -> Tensor:
    r"""Moore-Penrose inverse of (..., m, m) whose rows sum to 1 (or are zero), by a third-order iteration (section 3.3).

    .. math:: Z_0 = A^\top / (\|A\|_1 \|A\|_\infty), \qquad
              Z \leftarrow \tfrac14 Z\,(13 I - A Z\,(15 I - A Z\,(7 I - A Z)))

    The largest row sum is 1. The largest column sum is taken per matrix; the released code takes it over the whole batch, so
    one sequence there affects the output of another.
    """
    z = matrix.mT / matrix.sum(-2).amax(-1)[..., None, None]
    one = torch.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)
    for _ in range(steps):
        product = matrix @ z
        z = 0.25 * z @ (13 * one - product @ (15 * one - product @ (7 * one - product)))
    return z
