"""Grids of tokens cut into home segments with a margin of neighbours: the windows of local attention on images."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

Grid = tuple[int, int]


class Tiling(NamedTuple):
    """How a grid is cut: segments of ``side`` tokens with ``margin`` more on both sides, on each axis.

    An axis that is not longer than the segment is one segment, without a margin. Others are filled up to a multiple
    of the segment at their lower or right end.
    """

    grid: Grid
    side: Grid
    margin: Grid

    @classmethod
    def of(cls, grid: Grid, window: int, reach: int) -> Tiling:
        """Segments of ``window`` by ``window`` tokens that see ``reach`` tokens around."""
        margin = [reach if length > window else 0 for length in grid]
        return cls(grid, (min(window, grid[0]), min(window, grid[1])), (margin[0], margin[1]))

    @property
    def cells(self) -> Grid:
        """Segments of each axis."""
        return -(-self.grid[0] // self.side[0]), -(-self.grid[1] // self.side[1])

    @property
    def filling(self) -> Grid:
        """Tokens that are missing at the end of each axis."""
        return -self.grid[0] % self.side[0], -self.grid[1] % self.side[1]

    def segments(self, x: Tensor) -> Tensor:
        """(B, H, W, D) → (B, segments, tokens of a segment, D), zeros where there is no token."""
        return self._cut(x, (0, 0))

    def windows(self, x: Tensor) -> Tensor:
        """(B, H, W, D) → (B, segments, tokens of a segment and its margin, D), zeros where there is no token."""
        return self._cut(x, self.margin)

    def join(self, x: Tensor) -> Tensor:
        """The inverse of :meth:`segments`."""
        (rows, columns), (height, width) = self.cells, self.side
        x = x.view(len(x), rows, columns, height, width, -1).permute(0, 1, 3, 2, 4, 5)
        return x.reshape(len(x), rows * height, columns * width, -1)[:, : self.grid[0], : self.grid[1]]

    def visible(self, device: torch.device) -> Tensor | None:
        """(segments, tokens of a window), True where there is a token; None: everywhere."""
        if not any(self.margin) and not any(self.filling):
            return None
        return self.windows(torch.ones(1, *self.grid, 1, device=device))[0, :, :, 0] > 0

    def differences(self, device: torch.device) -> tuple[Tensor, Tensor]:
        """Row and column of a window's token less those of the segment's, (tokens of a segment, of a window) each."""
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
