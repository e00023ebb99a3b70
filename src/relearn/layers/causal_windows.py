"""Index arithmetic of causal long-short attention: windows, segments, masks and shifts by relative distance."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

SCRATCH = 2**19  # scores held at a time on a CPU; about what fits in a core's cache
WIDE = 2**26  # scores held at a time on an accelerator


class Form(NamedTuple):
    """What does not change the sizes of a call.

    ``banded``: a row sees exactly the last w positions including its own, instead of everything since the previous window.
    ``each``: number of rows of σ per segment distance: 1, or r with one per compressed vector.
    ``dropout``: probability of dropping a weight.
    """

    banded: bool = False
    each: int = 1
    dropout: float = 0.0


class Spans(NamedTuple):
    """Sizes of one call: window w, segment l, r vectors per segment, m cached positions and n new positions.

    Positions, windows and segments are counted from the first cached position.
    """

    window: int
    segment: int
    rank: int
    past: int
    new: int

    @property
    def end(self) -> int:
        return self.past + self.new

    @property
    def unit(self) -> int:
        """Number of rows in a block: a window, or a segment if there is no window."""
        return self.window or self.segment

    @property
    def first(self) -> int:
        """Index of the block that contains the first new position."""
        return self.past // self.unit

    @property
    def blocks(self) -> int:
        return (self.end - 1) // self.unit + 1 - self.first

    @property
    def base(self) -> int:
        """Position of the first row of the padded queries, aligned down to a block and, if rank > 0, to a segment."""
        start = self.first * self.unit
        return start // self.segment * self.segment if self.rank else start

    @property
    def rows(self) -> int:
        """Number of rows of the padded queries."""
        end = (self.first + self.blocks) * self.unit
        return (math.ceil(end / self.segment) * self.segment if self.rank else end) - self.base

    @property
    def oldest(self) -> int:
        """First position that a window of a new row can see; negative if there is no such position."""
        return (self.first - 1) * self.window

    @property
    def seen(self) -> int:
        """Number of segments visible to at least one new position: the complete segments before the last position's own."""
        return (self.end - 1) // self.segment if self.rank else 0

    @property
    def last(self) -> int:
        """Index of the last segment of the padded queries."""
        return (self.base + self.rows - 1) // self.segment

    def pieces(self, heads: int, scratch: int) -> Iterator[Piece]:
        """Yield groups of consecutive blocks with about ``scratch`` scores each, over ``heads`` = B H heads."""
        each = heads * self.unit * max(1, 2 * self.window + self.seen * self.rank)
        step = max(1, scratch // each)
        for block in range(self.first, self.first + self.blocks, step):
            yield Piece(self, block, min(step, self.first + self.blocks - block))


def _offset(found: Tensor) -> int:
    """Return a tensor's storage offset; in a compiled graph, where there is no storage, products start at offset 0."""
    return 0 if torch.compiler.is_compiling() else int(found.storage_offset())


class Piece(NamedTuple):
    """``blocks`` consecutive blocks of rows, starting at block ``block``."""

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
        """Slice of these rows in the padded queries."""
        start = self.start - self.spans.base
        return slice(start, start + self.rows)

    @property
    def seen(self) -> int:
        """Number C of segments visible to these rows."""
        last = min(self.start + self.rows, self.spans.end) - 1
        return last // self.spans.segment if self.spans.rank else 0

    @property
    def front(self) -> int:
        """Number of rows between the start of the first row's segment and the first row."""
        return self.start % self.spans.segment if self.spans.rank else 0

    @property
    def segments(self) -> int:
        """Number of segments that these rows overlap."""
        return math.ceil((self.front + self.rows) / self.spans.segment)

    @property
    def last(self) -> int:
        """Index of the last of these segments; it may lie behind the last position."""
        return self.start // self.spans.segment + self.segments - 1

    @property
    def whole(self) -> slice:
        """Slice of these segments in the padded queries."""
        if not self.spans.rank:
            return self.here
        start = self.here.start - self.front
        return slice(start, start + self.segments * self.spans.segment)

    def near(self, weights: Tensor) -> Tensor:
        """Return the window columns of weights (G, rows, 2w + C r) as (G, blocks, w, 2w)."""
        w = self.spans.window
        return weights.unflatten(1, (-1, w or self.rows))[..., : 2 * w]

    def far(self, weights: Tensor) -> Tensor:
        """Return the segment columns of weights (G, rows, 2w + C r) as (G, rows, C, r)."""
        return weights[..., 2 * self.spans.window :].unflatten(2, (self.seen, self.spans.rank))

    def windows(self, rows: Tensor) -> Tensor:
        """Return, for every window, the 2w rows up to the window's end, (…, blocks, 2w, d), of rows (…, t, d)."""
        w = self.spans.window
        start = (self.block - self.spans.first) * w
        return rows[..., start : start + (self.blocks + 1) * w, :].unfold(-2, 2 * w, w).mT

    def add_to_windows(self, to: Tensor, found: Tensor) -> None:
        """Transpose of :meth:`windows`: add the first 2w of the rows found (…, blocks, 2w + C r, d) to the rows they are of."""
        w = self.spans.window
        for half in (0, 1):
            start = (self.block - self.spans.first + half) * w
            rows = to[..., start : start + self.blocks * w, :].unflatten(-2, (self.blocks, w))
            rows.add_(found[..., half * w : (half + 1) * w, :])

    def window_mask(self, like: Tensor, banded: bool = False) -> Tensor:
        """Additive mask of the window scores, (blocks or 1, w, 2w): 0 where visible, minus infinity where hidden.

        ``banded``: a row sees exactly the last w positions including its own, instead of everything since the previous window.
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
        """Additive mask of the segment scores, (segments, 1, C): a row sees the segments before its own.

        Without windows, the rows of segment 0 see nothing. Their mask is 0, and :meth:`blind` counts these rows.
        """
        rows = torch.arange(self.segments, device=like.device) + self.start // self.spans.segment
        hidden = rows[:, None] <= torch.arange(self.seen, device=like.device)
        if not self.spans.window:
            hidden = hidden & (rows[:, None] > 0)
        return like.new_zeros(hidden.shape).masked_fill_(hidden, -torch.inf)[:, None]

    @property
    def blind(self) -> int:
        """Number of leading rows that see nothing: the rows of segment 0 if there are no windows."""
        return 0 if self.spans.window else max(0, min(self.rows, self.spans.segment - self.start))

    def by_distance(self, found: Tensor) -> Tensor:
        r"""View scores indexed by distance as scores indexed by window key, (G, blocks, w, 2w).

        Row i and column j of a window are i + w - j positions apart. The last 2w of the c columns of ``found`` (G, whole rows, c)
        are the distances 2w - 1 ... 0, so the entry is at offset :math:`ci + (c - 2w) + (w - 1 - i) + j`. Entries for future
        keys are others. They are none of those of visible keys, and none of each other's if c > 2w.
        """
        w, (rows, wide) = self.spans.window, found.shape[1:]
        strides = (rows * wide, w * wide, wide - 1, 1)
        offset = _offset(found) + (self.front + 1) * wide - w - 1
        return found.as_strided((found.shape[0], self.blocks, w, 2 * w), strides, offset)

    def by_segment_distance(self, found: Tensor, longest: int, each: int = 1) -> Tensor:
        r"""View segment scores indexed by distance as scores by segment, (G, segments, l, C, each).

        ``found`` (G, rows of whole segments, c) begins with ``each`` columns for every one of the distances ``longest`` ... 0. Row
        i of segment a is a - s segments from segment s, so all rows of a segment have the same shift.
        """
        l, (rows, wide) = self.spans.segment, found.shape[1:]  # noqa: E741
        strides = (rows * wide, l * wide - each, wide, each, 1)
        offset = _offset(found) + (longest - self.start // l) * each
        return found.as_strided((found.shape[0], self.segments, l, self.seen, each), strides, offset)
