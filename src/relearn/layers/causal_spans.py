"""Which rows attend to what in causal long-short attention: pieces of windows, their masks, and rows shifted by distance."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

SCRATCH = 2**19  # scores in hand at a time on a CPU: about what a core keeps close
WIDE = 2**26  # the same on an accelerator


class Spans(NamedTuple):
    """Sizes of one call: window w, segment l, vectors a segment r, cached positions m, fresh positions n.

    Positions count from the first cached one. Windows and segments start there too.
    """

    window: int
    segment: int
    rank: int
    past: int
    fresh: int

    @property
    def end(self) -> int:
        return self.past + self.fresh

    @property
    def unit(self) -> int:
        """Rows come in blocks of so many: windows, or segments where there is no window."""
        return self.window or self.segment

    @property
    def first(self) -> int:
        """The block of the first new position."""
        return self.past // self.unit

    @property
    def blocks(self) -> int:
        return (self.end - 1) // self.unit + 1 - self.first

    @property
    def base(self) -> int:
        """Position of the first row of the padded queries: a segment and a block start at or behind it."""
        start = self.first * self.unit
        return start // self.segment * self.segment if self.rank else start

    @property
    def rows(self) -> int:
        """How many rows the padded queries have."""
        end = (self.first + self.blocks) * self.unit
        return (math.ceil(end / self.segment) * self.segment if self.rank else end) - self.base

    @property
    def oldest(self) -> int:
        """The first position that a window may see; below 0 where there is nothing yet."""
        return (self.first - 1) * self.window

    @property
    def seen(self) -> int:
        """How many segments some new position sees: those that are complete before the last position's own."""
        return (self.end - 1) // self.segment if self.rank else 0

    def pieces(self, heads: int, scratch: int) -> Iterator[Piece]:
        """Consecutive blocks whose scores, of ``heads`` heads and sequences, are about ``scratch`` numbers."""
        each = heads * self.unit * max(1, 2 * self.window + self.seen * self.rank)
        step = max(1, scratch // each)
        for block in range(self.first, self.first + self.blocks, step):
            yield Piece(self, block, min(step, self.first + self.blocks - block))


class Piece(NamedTuple):
    """``blocks`` blocks of rows, from ``block`` on."""

    spans: Spans
    block: int
    blocks: int

    @property
    def start(self) -> int:
        """Position of the first row."""
        return self.block * self.spans.unit

    @property
    def rows(self) -> int:
        return self.blocks * self.spans.unit

    @property
    def here(self) -> slice:
        """These rows among the padded queries."""
        start = self.start - self.spans.base
        return slice(start, start + self.rows)

    @property
    def seen(self) -> int:
        """How many segments these rows see, C."""
        last = min(self.start + self.rows, self.spans.end) - 1
        return last // self.spans.segment if self.spans.rank else 0

    @property
    def front(self) -> int:
        """Rows between the start of the first row's segment and the first row."""
        return self.start % self.spans.segment

    @property
    def segments(self) -> int:
        """How many segments these rows touch."""
        return math.ceil((self.front + self.rows) / self.spans.segment)

    @property
    def whole(self) -> slice:
        """The rows of these segments among the padded queries."""
        start = self.here.start - self.front
        return slice(start, start + self.segments * self.spans.segment)

    def window_mask(self, like: Tensor, banded: bool = False) -> Tensor:
        """What is added to the scores of the windows, (blocks or 1, w, 2w): 0, or minus infinity for what is not seen.

        ``banded``: exactly the last w positions, the own one included, in place of all from the window before on.
        """
        w = self.spans.window
        rows, columns = torch.arange(w, device=like.device)[:, None], torch.arange(2 * w, device=like.device)
        hidden = columns > rows + w
        if banded:
            hidden = hidden | (columns <= rows)
        mask = like.new_zeros(w, 2 * w).masked_fill_(hidden, -torch.inf)[None]
        if self.block:
            return mask
        mask = mask.repeat(self.blocks, 1, 1)
        mask[0, :, :w] = -torch.inf
        return mask

    def segment_mask(self, like: Tensor) -> Tensor:
        """The same of the segments, (segments, 1, C), for all rows of a segment alike: seen are those before the row's own.

        Without windows the rows of segment 0 see nothing; theirs is 0, and :meth:`blind` says which these are.
        """
        rows = torch.arange(self.segments, device=like.device) + self.start // self.spans.segment
        hidden = rows[:, None] <= torch.arange(self.seen, device=like.device)
        if not self.spans.window:
            hidden = hidden & (rows[:, None] > 0)
        return like.new_zeros(hidden.shape).masked_fill_(hidden, -torch.inf)[:, None]

    @property
    def blind(self) -> int:
        """How many of the first rows see nothing: those of segment 0, without windows."""
        return 0 if self.spans.window else max(0, min(self.rows, self.spans.segment - self.start))

    def by_distance(self, found: Tensor) -> Tensor:
        r"""From numbers by distance to numbers by key of the window: a view (G, blocks, w, 2w).

        Row i of a window and its column j are i + w - j apart. Columns of ``found`` (G, rows, 2w) stand in descending order of
        distance, 2w - 1 ... 0, so that the entry lies at :math:`2wi + (w - 1 - i) + j`. Entries of the future are any others.
        """
        w = self.spans.window
        strides = (self.rows * 2 * w, w * 2 * w, 2 * w - 1, 1)
        return found.as_strided((len(found), self.blocks, w, 2 * w), strides, found.storage_offset() + w - 1)

    def put_by_distance(self, found: Tensor, to: Tensor) -> None:
        r"""The transpose of :meth:`by_distance`, into ``to`` (G, rows, 2w), which was zeros or another result of this.

        ``found`` is (G, blocks, w, 2w), 0 in the future. The last column of a row is of the future, but for the last row's, and its place
        that of the next row's first: it is left out, so that no place is written twice, whichever thread comes last.
        """
        w = self.spans.window
        self.by_distance(to)[..., :-1].copy_(found[..., :-1])
        to.view(len(to), self.blocks, w, 2 * w)[:, :, -1, -1].copy_(found[:, :, -1, -1])

    def by_segment_distance(self, found: Tensor) -> Tensor:
        r"""The same of the segments: a view (G, segments, l, C) of ``found`` (G, rows of the whole segments, C + 1).

        Row i of segment a and segment s are a - s apart; columns: distances C ... 0. All rows of a segment are shifted alike.
        """
        wide, l = self.seen + 1, self.spans.segment  # noqa: E741
        strides = (self.segments * l * wide, l * wide - 1, wide, 1)
        offset = found.storage_offset() + self.seen - self.start // l
        return found.as_strided((len(found), self.segments, l, self.seen), strides, offset)
