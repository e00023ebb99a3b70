"""The weights of causal long-short attention once more, where no derivative is taken of how they are made: in place, in memory held."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from relearn.layers.causal_spans import Piece
from relearn.layers.causal_weights import Side, distances_of, windows


class Work:
    """Memory that the pieces of one call use in turn: fresh memory costs more than what is done in it."""

    def __init__(self, like: Tensor) -> None:
        self.like = like
        self.held: dict[str, Tensor] = {}

    def __call__(self, name: str, *shape: int) -> Tensor:
        """A tensor that is overwritten at the next time of asking, as the ``out`` of an operation."""
        size = math.prod(shape)
        return self.once(name, lambda: self.like.new_empty(size), size)[:size].view(shape)

    def zeros(self, name: str, *shape: int) -> Tensor:
        """The same, of zeros at the first time, and of what was left there at the next."""
        size = math.prod(shape)
        return self.once(name, lambda: self.like.new_zeros(size), size)[:size].view(shape)

    def once(self, name: str, make: Callable[[], Tensor], size: int = 0) -> Tensor:
        """What ``make`` made at the first time of asking, or when what is held is shorter than ``size``."""
        if name not in self.held or len(self.held[name]) < size:
            self.held[name] = make()
        return self.held[name]


def weights_in_place(piece: Piece, side: Side, work: Work) -> Tensor:
    """:func:`~relearn.layers.causal_weights.attention_weights`: positions, mask, content and softmax in one piece of memory."""
    groups, columns = len(side.q), 2 * piece.spans.window + piece.seen * piece.spans.rank
    weights = work("weights", groups, piece.rows, columns)
    if not columns:
        return weights
    if piece.spans.window:
        _near(piece, side, work, weights)
    if piece.seen:
        _far(piece, side, work, weights)
    torch.softmax(weights, 2, out=weights)
    if piece.blind:
        weights[:, : piece.blind] = 0
    return weights


def _near(piece: Piece, side: Side, work: Work, scores: Tensor) -> None:
    w, rows = piece.spans.window, side.q[:, piece.here]
    # every piece but the first has the same
    mask = work.once("mask", lambda: piece.window_mask(rows)) if piece.block else piece.window_mask(rows)
    blocks = scores.view(len(scores), piece.blocks, w, -1)[..., : 2 * w]
    if side.rw is None:
        blocks.copy_(mask)
    else:
        by_distance = torch.bmm(rows, side.rw.mT, out=work("distances", len(rows), piece.rows, 2 * w))
        torch.add(piece.by_distance(by_distance), mask, out=blocks)
    blocks.flatten(0, 1).baddbmm_(rows.reshape(-1, w, rows.shape[2]), windows(piece, side.k).mT)


def _far(piece: Piece, side: Side, work: Work, scores: Tensor) -> None:
    spans, seen = piece.spans, piece.seen
    groups, far = len(scores), scores[..., 2 * spans.window :]
    shape = (groups, piece.segments, spans.segment, seen, spans.rank)
    aligned = piece.segments * spans.segment == piece.rows
    to = far.unflatten(2, shape[3:]).unflatten(1, shape[1:3]) if aligned else work("far", *shape)
    every = work.once("hidden", lambda: Piece(spans, spans.first, spans.blocks).segment_mask(scores))
    first = piece.start // spans.segment - spans.base // spans.segment
    mask = every[first : first + piece.segments, :, :seen, None]
    if side.rc is None:
        to.copy_(mask)
    else:
        every = side.q[:, piece.whole]
        by_distance = work("distances", groups, every.shape[1], seen + 1)
        torch.bmm(every, distances_of(piece, side.rc).mT, out=by_distance)
        torch.add(piece.by_segment_distance(by_distance)[..., None].expand(shape), mask, out=to)
    if not aligned:
        far.copy_(to.flatten(3).flatten(1, 2)[:, piece.front : piece.front + piece.rows])
    far.baddbmm_(side.q[:, piece.here], side.kc[:, : seen * spans.rank].mT)
