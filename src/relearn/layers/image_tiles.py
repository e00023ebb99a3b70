"""Tiling of a grid of tokens into segments with a margin of neighbours: the windows of local attention on images."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

Grid = tuple[int, int]


class Tiling(NamedTuple):
    """Tiling of a grid: on each axis, segments of ``side`` tokens with ``margin`` further tokens on both sides.

    An axis is one segment without a margin if it is no longer than a segment, or if all its segments see all of it. Other axes are
    padded at their end to a multiple of the segment.
    """

    grid: Grid
    side: Grid
    margin: Grid

    @classmethod
    def for_grid(cls, grid: Grid, window: int, reach: int) -> Tiling:
        """Tile a grid into segments of ``window`` by ``window`` tokens that see ``reach`` tokens around them."""
        sides, margins = [], []
        for length in grid:
            last = (length - 1) // window * window  # where the last segment begins
            whole = length <= window or (window + reach >= length and last <= reach)
            sides.append(length if whole else window)
            margins.append(0 if whole else reach)
        return cls(grid, (sides[0], sides[1]), (margins[0], margins[1]))

    @property
    def cells(self) -> Grid:
        """Number of segments on each axis."""
        return -(-self.grid[0] // self.side[0]), -(-self.grid[1] // self.side[1])

    @property
    def filling(self) -> Grid:
        """Number of padding tokens at the end of each axis."""
        return -self.grid[0] % self.side[0], -self.grid[1] % self.side[1]

    def segments(self, x: Tensor) -> Tensor:
        """Cut (B, H, W, D) into (B, segments, tokens per segment, D), with zeros in the padding."""
        return self._cut(x, (0, 0))

    def windows(self, x: Tensor) -> Tensor:
        """Cut (B, H, W, D) into (B, segments, tokens per segment with margin, D), with zeros outside the grid."""
        return self._cut(x, self.margin)

    def join(self, x: Tensor) -> Tensor:
        """The inverse of :meth:`segments`."""
        (rows, columns), (height, width) = self.cells, self.side
        x = x.unflatten(2, (height, width)).unflatten(1, (rows, columns)).transpose(2, 3)
        return x.flatten(3, 4).flatten(1, 2)[:, : self.grid[0], : self.grid[1]]

    def visible(self, device: torch.device) -> Tensor | None:
        """Return which window tokens lie inside the grid, (segments, tokens per window); None: all do."""
        if not any(self.margin) and not any(self.filling):
            return None
        return self.windows(torch.ones(1, *self.grid, 1, device=device))[0, :, :, 0] > 0

    def differences(self, device: torch.device) -> tuple[Tensor, Tensor]:
        """Return row and column offsets of window tokens from segment tokens, (tokens per segment, per window) each."""
        places = []
        for side, margin in zip(self.side, self.margin):
            inner = torch.arange(side, device=device)
            outer = torch.arange(-margin, side + margin, device=device)
            places.append((inner, outer))
        found = []
        for axis, (inner, outer) in enumerate(places):
            difference = outer - inner[:, None]
            shape = (len(inner), 1, len(outer), 1) if axis == 0 else (1, len(inner), 1, len(outer))
            full = (self.side[0], self.side[1], len(places[0][1]), len(places[1][1]))
            found.append(difference.view(shape).expand(full).flatten(2).flatten(0, 1))
        return found[0], found[1]

    def _cut(self, x: Tensor, margin: Grid) -> Tensor:
        (height, width), (down, right) = self.side, self.filling
        if any(margin) or any(self.filling):
            x = pad(x, (0, 0, margin[1], margin[1] + right, margin[0], margin[0] + down))
        x = x.unfold(1, height + 2 * margin[0], height).unfold(2, width + 2 * margin[1], width)
        return x.permute(0, 1, 2, 4, 5, 3).flatten(3, 4).flatten(1, 2)
