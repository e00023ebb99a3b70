"""Cross-shaped windows: half of the heads attend along rows, the other half along columns."""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn.functional import pad, scaled_dot_product_attention

from relearn.layers.cosine_core import normalise
from relearn.layers.self_attention import check_heads, with_bias

Similarity = Literal["cosine", "dot_product", "l2"]


class CrossShapedAttention(nn.Module):
    r"""Attention in stripes (Dong et al. 2022, CSWin, sections 3.2 and 3.3) with a choice of logits.

    .. math::
        F(X) = g\, [\ldots, P^h V^h + \mathrm{LePE}(V^h), \ldots]\, W^O, \qquad P^h = \mathrm{softmax}(L^h)

    The first half of the heads uses stripes of full height that are ``split`` columns wide, the second half stripes of full width
    that are ``split`` rows high. If the grid is not larger than ``split``, all heads attend over the whole grid. LePE is a
    depth-wise 3 x 3 convolution of the values inside a stripe, one per direction.

    ===============  ===============================================  =====  ===========
    ``similarity``   L_ij                                             g      V
    ===============  ===============================================  =====  ===========
    ``cosine``       τ q_i·k_j, rows of Q and K normalised            ν/H    normalised
    ``dot_product``  q_i·k_j / sqrt(w)                                1      unchanged
    ``l2``           -\|q_i - k_j\|² / sqrt(w)                        1      unchanged
    ===============  ===============================================  =====  ===========

    w is the width of a head; normalised means divided by :math:`\sqrt{\|u\|^2 + \epsilon}`. ``dot_product`` is the attention of CSWin;
    ``cosine`` is that of qi2023 (section 4.1.2), with the paper's 1/H also applied to LePE; ``l2`` uses the distance of kim2020, without
    the tie W^Q = W^K that its bound requires.

    A grid that is not a multiple of ``split`` is padded at its edge; no token attends to the padding.

    Shapes: x (B, H, W, D); the output has the same shape.

    Args:
        dim: width D.
        heads: number of heads, a divisor of D, and even if there are two directions.
        grid: (H, W).
        split: width of a stripe.
        similarity, tau, nu, eps: see above.

    Raises:
        ValueError: heads or a stripe that do not fit, an unknown similarity, a number that is not positive; in a forward pass, a wrong
            grid or width.
    """

    def __init__(
        self,
        dim: int,
        heads: int,
        grid: tuple[int, int],
        split: int,
        *,
        similarity: Similarity = "cosine",
        tau: float = 12.0,
        nu: float = 1.0,
        eps: float = 1e-6,
    ) -> None:
        super().__init__()
        if similarity not in get_args(Similarity):
            raise ValueError(f"similarity: {similarity!r} (allowed: {', '.join(get_args(Similarity))})")
        check_heads(dim, heads)
        for name, value in {"tau": tau, "nu": nu, "eps": eps, "split": split}.items():
            if not value > 0:
                raise ValueError(f"{name}: {value} (allowed: a positive number)")
        self.stripes = _stripes(grid, split)
        if heads % len(self.stripes):
            raise ValueError(f"heads: {heads} in two directions (allowed: an even number)")
        self.dim, self.heads, self.grid, self.split = dim, heads, grid, split
        self.similarity, self.eps = similarity, eps
        cosine = similarity == "cosine"
        self.gain = nu / heads if cosine else 1.0
        self.scale = tau if cosine else (dim // heads) ** -0.5
        self.qkv = nn.Linear(dim, 3 * dim)
        width = dim // len(self.stripes)
        self.lepe = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1, groups=width) for _ in self.stripes)
        self.proj = nn.Linear(dim, dim)

    def check_input_size(self, grid: tuple[int, int], split: int | None = None) -> None:
        """Raise ValueError if :meth:`set_input_size` would not accept these arguments."""
        split = self.split if split is None else split
        if split < 1:
            raise ValueError(f"window_size: {split} (allowed: a width >= 1)")
        count = len(_stripes(grid, split))
        if count != len(self.stripes):
            raise ValueError(
                f"img_size: a stage of {grid[0]} x {grid[1]} tokens needs {count} direction(s) of stripes of width {split} "
                f"(allowed: {len(self.stripes)}, for which LePE has weights)"
            )

    def set_input_size(self, grid: tuple[int, int], split: int | None = None) -> None:
        """Switch to another grid, with stripes of the same width or of width ``split``; no weight depends on either."""
        self.check_input_size(grid, split)
        self.grid, self.split = grid, self.split if split is None else split
        self.stripes = _stripes(grid, self.split)

    def forward(self, x: Tensor) -> Tensor:
        if tuple(x.shape[1:]) != (*self.grid, self.dim):
            raise ValueError(f"x: shape {tuple(x.shape)} (allowed: {('B', *self.grid, self.dim)})")
        qkv = self.qkv(x).unflatten(3, (3, self.heads, -1)).permute(3, 0, 4, 1, 2, 5)
        if self.similarity == "cosine":
            qkv = normalise(qkv, self.eps)
        halves = zip(qkv.chunk(len(self.stripes), 2), self.stripes, self.lepe)
        mixed = torch.cat([self._direction(*one) for one in halves], 1)
        return self.proj(mixed.permute(0, 2, 3, 1, 4).flatten(3) * self.gain)

    def _direction(self, qkv: Tensor, stripe: tuple[int, int], lepe: nn.Module) -> Tensor:
        """Return the outputs of one direction's heads, (B, h, H, W, w), given their Q, K and V, (3, B, h, H, W, w)."""
        batch, height, width = qkv.shape[1], *self.grid
        down, right = (-length % side for length, side in zip(self.grid, stripe))
        if down or right:
            qkv = pad(qkv, (0, 0, 0, right, 0, down))
        counts = ((height + down) // stripe[0], (width + right) // stripe[1])
        cut = qkv.reshape(*qkv.shape[:3], counts[0], stripe[0], counts[1], stripe[1], -1)
        q, k, v = cut.permute(0, 1, 3, 5, 2, 4, 6, 7).flatten(1, 3).flatten(3, 4)
        seen = None
        if down or right:
            inside = torch.ones(self.grid, dtype=torch.bool, device=qkv.device)
            inside = pad(inside, (0, right, 0, down)).view(counts[0], stripe[0], counts[1], stripe[1])
            seen = inside.transpose(1, 2).reshape(counts[0] * counts[1], 1, 1, -1).repeat(batch, 1, 1, 1)
        local = lepe(v.mT.reshape(v.shape[0], -1, *stripe)).reshape(*v.mT.shape).mT
        mixed = self._attend(q, k, v, seen) + local
        back = mixed.reshape(batch, *counts, -1, *stripe, mixed.shape[-1]).permute(0, 3, 1, 4, 2, 5, 6)
        return back.flatten(2, 3).flatten(3, 4)[:, :, :height, :width]

    def _attend(self, q: Tensor, k: Tensor, v: Tensor, seen: Tensor | None) -> Tensor:
        if self.similarity != "l2":
            return scaled_dot_product_attention(q, k, v, attn_mask=seen, scale=self.scale)
        # the squared norm of the query is constant within a row and cancels in the softmax
        wide = with_bias(q, k, -k.square().sum(-1)[:, :, None] / 2, v)
        return scaled_dot_product_attention(*wide, attn_mask=seen, scale=2 * self.scale)[..., : v.shape[-1]]

    def extra_repr(self) -> str:
        return f"heads={self.heads}, grid={self.grid}, split={self.split}, similarity={self.similarity}"


def _stripes(grid: tuple[int, int], split: int) -> list[tuple[int, int]]:
    """Return the stripe of each direction (full height, full width), or the whole grid if it is not larger than ``split``."""
    if max(grid) <= split:
        return [grid]
    return [(grid[0], min(split, grid[1])), (min(split, grid[0]), grid[1])]
