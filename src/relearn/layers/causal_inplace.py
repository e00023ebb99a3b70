"""Causal long-short attention a few windows at a time: the weights of a piece, in memory that all pieces share."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from relearn.layers.causal_scores import Side
from relearn.layers.causal_windows import SCRATCH, WIDE, Form, Piece, Spans

LANE = 2**15  # a weight's dropout is decided by 15 random bits


class InPlace:
    """Forward pass of one call.

    A block is a window of queries or, without windows, a whole piece. Its keys are those of two windows, then the compressed ones,
    so that one product gives all its scores. The scores by distance are one product with one table. Its rows are the segment
    distances, then zeros that no visible score uses, then the window distances; they are read with two shifts.
    """

    def __init__(self, spans: Spans, form: Form, side: Side, seed: int) -> None:
        self.spans, self.form, self.side = spans, form, side
        self.pieces = list(spans.pieces(len(side.q), SCRATCH if side.q.device.type == "cpu" else WIDE))
        self.buffers: dict[str, Tensor] = {}
        self.generator = torch.Generator(side.q.device).manual_seed(seed) if form.dropout else None
        mask = Piece(spans, 1, 1).window_mask(side.q, form.banded)[0]
        self.mask = mask if form.banded else mask[:, spans.window :]
        self.table: Tensor | None = None
        if side.rw is not None or side.rc is not None:
            self.table = side.q.new_zeros(len(side.q), self.places[1].stop, side.q.shape[2])
            for place, part in zip(self.places, (side.rc, side.rw)):
                if part is not None:
                    self.table[:, place] = part

    @property
    def places(self) -> tuple[slice, slice]:
        """Return the rows of σ and of ρ in the table; at least one row precedes ρ, so that its shifted rows do not overlap."""
        each, first, last = self.form.each, 0, 0
        if self.side.rc is not None:
            first = (self.spans.last - self.spans.seen) * each
            last = first + self.side.rc.shape[1]
        start = last + max(piece.segments for piece in self.pieces) * each
        return slice(first, last), slice(
            start, start + (0 if self.side.rw is None else 2 * self.spans.window)
        )

    def buffer(self, name: str, *shape: int) -> Tensor:
        """Return uninitialised memory, which the next request for this name overwrites; allocating costs more than the work in it."""
        size = math.prod(shape)
        if name not in self.buffers or len(self.buffers[name]) < size:
            self.buffers[name] = self.side.q.new_empty(size)
        return self.buffers[name][:size].view(shape)

    def keys(self, piece: Piece) -> Tensor:
        """Return the keys, then the values, of every block, (2, G blocks, 2w + C r, d)."""
        w, side = self.spans.window, self.side
        far = side.far[:, :, None, : piece.seen * self.spans.rank]
        found = self.buffer(
            "keys", *far.shape[:2], piece.blocks if w else 1, 2 * w + far.shape[3], far.shape[4]
        )
        if w:
            found[..., : 2 * w, :] = piece.windows(side.near)
        found[..., 2 * w :, :] = far
        return found.flatten(1, 2)

    def by_block(self, piece: Piece, x: Tensor) -> Tensor:
        """Return the piece's rows of x (G, rows, d) as (G blocks, w, d)."""
        return x[:, piece.here].reshape(-1, self.spans.window or piece.rows, x.shape[2])

    def weights(self, piece: Piece, keys: Tensor) -> Tensor:
        """Return the weights P, (G, rows, 2w + C r). Those that dropout removes have a minus sign."""
        side, w = self.side, self.spans.window
        scores = self.buffer("weights", len(side.q), piece.rows, keys.shape[1])
        if not keys.shape[1]:
            return scores
        q, near, far = self.by_block(piece, side.q), piece.near(scores), piece.far(scores)
        blocks = scores.view(*q.shape[:2], keys.shape[1])
        if side.by_key is None:
            torch.bmm(q, keys.mT, out=blocks)
        else:
            near.copy_(piece.windows(side.by_key[None]).mT[0])
            blocks[..., 2 * w :] = 0
            blocks.baddbmm_(q, keys.mT)
        if self.table is not None:
            rows, table = side.q[:, piece.whole], self.table[:, self.columns(piece)]
            found = torch.bmm(rows, table.mT, out=self.buffer("distances", *rows.shape[:2], table.shape[1]))
            if side.by_distance is not None:
                found[..., -2 * w :].add_(side.by_distance.mT)
            if side.rw is not None:
                near.add_(piece.by_distance(found))
            if side.rc is not None and piece.seen:
                shifted = piece.by_segment_distance(found, piece.last, self.form.each)
                if piece.rows == rows.shape[1]:
                    far.unflatten(1, shifted.shape[1:3]).add_(shifted)
                else:
                    far.add_(shifted.flatten(1, 2)[:, piece.front :][:, : piece.rows])
        self._hide(piece, near, far)
        torch.softmax(scores, 2, out=scores)
        if piece.blind:
            scores[:, : piece.blind] = 0
        if self.generator is not None:
            mark_dropped(scores, self.form.dropout, self.generator)
        return scores

    def columns(self, piece: Piece) -> slice:
        """Return the rows of the table for the distances from the piece's last segment on."""
        return slice(0 if self.side.rc is None else (self.spans.last - piece.last) * self.form.each, None)

    def _hide(self, piece: Piece, near: Tensor, far: Tensor) -> None:
        """Add minus infinity to the scores of keys that a row must not see."""
        if self.spans.window:
            near[..., -self.mask.shape[1] :].add_(self.mask)
            if not piece.block:
                near[:, 0, :, : self.spans.window] = -torch.inf
        own = piece.start // self.spans.segment
        if piece.seen > own:  # earlier segments are visible to all rows
            segment = (
                torch.arange(piece.start, piece.start + piece.rows, device=far.device) // self.spans.segment
            )
            hidden = segment[:, None] <= torch.arange(own, piece.seen, device=far.device)
            far[:, :, own:].add_(far.new_zeros(hidden.shape).masked_fill_(hidden, -torch.inf)[..., None])


def lanes(probability: float) -> int:
    """The probability in units of 2^-15, rounded to one below 1."""
    return min(round(probability * LANE), LANE - 1)


def mark_dropped(weights: Tensor, probability: float, generator: torch.Generator) -> None:
    """Give each of the contiguous weights, all ≥ 0, a minus sign with a probability, rounded to a multiple of 2^-15.

    A random integer of 64 bits decides for four weights. In each half of its 32-bit words, adding the probability carries into
    the highest bit, which is a float's sign, exactly if the 15 bits below exceed the rest.
    """
    flat = weights.view(-1)
    draws = torch.empty(-(-len(flat) // 4), dtype=torch.int64, device=flat.device).random_(
        generator=generator
    )
    rounded = lanes(probability)
    first = draws.view(torch.int32).bitwise_and_(0x7FFF7FFF).add_(rounded << 16 | rounded)
    half = len(first)
    for part, signs in ((flat[:half], first), (flat[half:], first << 16)):
        torch.copysign(part, signs.view(torch.float32)[: len(part)], out=part)
