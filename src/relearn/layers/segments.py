"""Disjoint segments of a sequence, and the tokens each segment sees: its own and some on either side."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

SMALLEST = 8  # minimum number of queries in a block; smaller blocks make matrix products slow


class Segments(NamedTuple):
    r"""Segments of w tokens; a query sees the tokens of its own segment and ``reach`` more on either side.

    .. math:: S(t) = \{j : w \lfloor t/w \rfloor - \rho \le j < w \lfloor t/w \rfloor + w + \rho\}, \quad
              \rho = \max(1, \lfloor w/2 \rfloor)

    Zhu (2022), section 5.2.2, writes w/2: an odd w is rounded down, and w = 1 sees one neighbour on either side, as in the
    released code. Queries are processed in blocks of one segment, or of several if a segment is short; a band mask selects
    the keys of a block that a query sees. Positions beyond the ends are zeros that no query sees. There is no loop over segments.
    """

    window: int

    @property
    def reach(self) -> int:
        """ρ; 0 if there is no window (w = 0)."""
        return max(1, self.window // 2) if self.window else 0

    @property
    def block(self) -> int:
        """Number of queries in a block, a multiple of w."""
        return self.window * -(-SMALLEST // self.window) if self.window else SMALLEST

    @property
    def keys(self) -> int:
        """Number of keys of a block."""
        return self.block + 2 * self.reach if self.window else 0

    def blocks(self, length: int) -> int:
        """Return the number of blocks that hold ``length`` tokens."""
        return -(-length // self.block)

    def queries(self, x: Tensor, first: int, last: int) -> Tensor:
        """Return blocks ``first`` to ``last`` (exclusive) of x (..., n, d): (..., blocks, block, d)."""
        return _span(x, first * self.block, last * self.block).unflatten(-2, (-1, self.block))

    def seen(self, x: Tensor, first: int, last: int) -> Tensor:
        """Return the tokens visible to these blocks, (..., blocks, keys, d); a view if both ends lie inside."""
        tokens = _span(x, first * self.block - self.reach, last * self.block + self.reach)
        return tokens.unfold(-2, self.keys, self.block).mT

    def hidden(self, mask: Tensor, first: int, last: int) -> Tensor:
        """Return which keys of these blocks are hidden, (..., blocks, block or 1, keys); mask (..., n), True = real."""
        windows = ~self.seen(mask[..., None], first, last).mT
        if self.block == self.window:
            return windows
        key = torch.arange(self.keys, device=mask.device)
        home = torch.arange(self.block, device=mask.device)[:, None] // self.window * self.window
        return windows | (key < home) | (key >= home + self.window + 2 * self.reach)

    def add(self, total: Tensor, part: Tensor, first: int) -> None:
        """Transpose of :meth:`seen`, in place: add ``part`` (G, blocks, keys, d), starting at block ``first``, to ``total``.

        ``total`` is (G, blocks + 2, block, d), with one extra block before the sequence and one after.
        """
        last, reach = first + part.shape[1], self.reach
        left, home, right = part.split([reach, self.block, reach], 2)
        total[:, first + 1 : last + 1] += home
        total[:, first:last, self.block - reach :] += left
        total[:, first + 2 : last + 2, :reach] += right


def _span(x: Tensor, start: int, stop: int) -> Tensor:
    """Return tokens ``start`` to ``stop`` (exclusive) of x (..., n, d), with zeros outside the sequence."""
    length = x.shape[-2]
    inside = x[..., max(0, start) : min(length, stop), :]
    before, after = max(0, -start), max(0, stop - length)
    if not before and not after:
        return inside
    empty = x.new_zeros(()).expand(*x.shape[:-2], max(before, after), x.shape[-1])
    return torch.cat([empty[..., :before, :], inside, empty[..., :after, :]], -2)
