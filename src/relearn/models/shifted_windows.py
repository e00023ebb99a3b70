"""Cosine attention in the square windows of Swin, optionally shifted by half a window."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate, pad

from relearn.layers.cosine_attention import CosineAttention
from relearn.models.timm_parts import (
    get_relative_position_index,
    trunc_normal_,
    window_partition,
    window_reverse,
)


class ShiftedWindowAttention(nn.Module):
    r"""Attention of every token to the tokens of its window (Liu et al. 2021, section 3.2), with cosine logits.

    .. math:: P^h = \mathrm{softmax}(\tau\, \hat Q^h \hat K^{h\top} + T^h_{\Delta})

    T is ``relative_position_bias_table``, a learned table with one number per head for every difference Δ of two positions in a
    window. Everything else is :class:`~relearn.layers.cosine_attention.CosineAttention`. On an axis where the grid is not larger than
    the window, the window is the grid and nothing is shifted.

    A grid that is not a multiple of the window is padded with zeros at its lower and right edge before the shift. Unlike in timm's
    Swin, no token attends to the padding; on other grids the masks of the two agree.

    Shapes: x (B, H, W, D); the output has the same shape.

    Args:
        dim: width D.
        heads: number of heads, a divisor of D.
        grid: (H, W).
        window: side length(s) of the window.
        shifted: shift the windows cyclically by half their side; tokens from opposite edges do not attend to each other.
        **cosine: arguments of :class:`~relearn.layers.cosine_attention.CosineAttention`.

    Raises:
        ValueError: a window below 1; arguments that the attention rejects; in a forward pass, another grid.
    """

    relative: Tensor

    def __init__(
        self,
        dim: int,
        heads: int,
        grid: tuple[int, int],
        window: int | Sequence[int],
        *,
        shifted: bool,
        **cosine: Any,
    ) -> None:
        super().__init__()
        self.shifted = shifted
        self._place(grid, window)
        self.attention = CosineAttention(dim, heads, **cosine)
        rows, columns = self.window
        self.relative_position_bias_table = nn.Parameter(
            torch.empty((2 * rows - 1) * (2 * columns - 1), heads)
        )
        trunc_normal_(self.relative_position_bias_table, std=0.02)
        self.register_buffer("relative", get_relative_position_index(rows, columns), persistent=False)

    def _place(self, grid: tuple[int, int], window: int | Sequence[int]) -> None:
        wanted = (window, window) if isinstance(window, int) else tuple(window)
        if len(wanted) != 2 or min(wanted) < 1:
            raise ValueError(f"window: {window} (allowed: a side >= 1, or two)")
        self.grid, self.wanted = grid, (wanted[0], wanted[1])
        self.window = (min(wanted[0], grid[0]), min(wanted[1], grid[1]))
        half = [side // 2 if self.shifted and side < length else 0 for side, length in zip(self.window, grid)]
        self.shift = (half[0], half[1])

    def check_input_size(self, grid: tuple[int, int], window: int | None = None) -> None:
        """Raise ValueError if :meth:`set_input_size` would not accept these arguments."""
        if window is not None and window < 1:
            raise ValueError(f"window_size: {window} (allowed: a side >= 1)")

    @torch.no_grad()
    def set_input_size(self, grid: tuple[int, int], window: int | None = None) -> None:
        """Switch to another grid, with windows of the same side or of side ``window``; if the window changes, the table is resampled."""
        self.check_input_size(grid, window)
        old = self.window
        self._place(grid, self.wanted if window is None else window)
        if self.window == old:
            return
        table, (rows, columns) = self.relative_position_bias_table, self.window
        image = table.float().T.reshape(1, -1, 2 * old[0] - 1, 2 * old[1] - 1)
        resized = interpolate(image, (2 * rows - 1, 2 * columns - 1), mode="bicubic").flatten(2)[0].T
        resized = resized.contiguous().to(table)
        self.relative_position_bias_table = nn.Parameter(resized, requires_grad=table.requires_grad)
        self.relative = get_relative_position_index(rows, columns).to(table.device)

    def forward(self, x: Tensor) -> Tensor:
        height, width = x.shape[1:3]
        if (height, width) != self.grid:
            raise ValueError(f"x: grid {height} x {width} (allowed: {self.grid[0]} x {self.grid[1]})")
        down, right = (-length % side for length, side in zip(self.grid, self.window))
        if down or right:
            x = pad(x, (0, 0, 0, right, 0, down))
        if any(self.shift):
            x = x.roll((-self.shift[0], -self.shift[1]), (1, 2))
        windows = window_partition(x.contiguous(), self.window).flatten(1, 2)
        mixed = self.attention(windows, bias=self.bias(), mask=self.mask(x.device))
        mixed = mixed.unflatten(1, self.window)
        y = window_reverse(mixed, self.window, height + down, width + right)
        if any(self.shift):
            y = y.roll(self.shift, (1, 2))
        return y[:, :height, :width]

    def bias(self) -> Tensor:
        """Return the additive bias of the logits, (heads, N, N) with N tokens in a window."""
        return self.relative_position_bias_table[self.relative].permute(2, 0, 1)

    def mask(self, device: torch.device | None = None) -> Tensor | None:
        """Return which tokens of a window attend to which, (windows, N, N), True = visible; None if there is no restriction."""
        if not any(self.shift) and not any(length % side for length, side in zip(self.grid, self.window)):
            return None
        rows, columns = (
            _pieces(length, side, shift, device)
            for length, side, shift in zip(self.grid, self.window, self.shift)
        )
        pieces = (3 * rows[:, None] + columns)[None, :, :, None]
        windows = window_partition(pieces, self.window).flatten(1)
        return windows[:, :, None] == windows[:, None, :]

    def extra_repr(self) -> str:
        return f"grid={self.grid}, window={self.window}, shift={self.shift}"


def _pieces(length: int, side: int, shift: int, device: torch.device | None) -> Tensor:
    """Label the positions of a padded and shifted axis: 1 = wrapped around the edge, 2 = padding, 0 = the rest."""
    place = torch.arange(length + -length % side, device=device)
    piece = (place < shift).long() + 2 * (place >= length).long()
    return piece.roll(-shift)
