"""In-place computation of the causal attention weights, used when no second derivatives are needed."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from relearn.layers.causal_scores import Side, distances_of, windows
from relearn.layers.causal_windows import Piece


class BufferPool:
    """Named buffers that the pieces of one call reuse, because allocating memory costs more than the work done in it."""

    def __init__(self, like: Tensor) -> None:
        self.like = like
        self.tensors: dict[str, Tensor] = {}

    def __call__(self, name: str, *shape: int) -> Tensor:
        """Return an uninitialised buffer for ``out=``; the next request for the same name overwrites it."""
        size = math.prod(shape)
        return self.cached(name, lambda: self.like.new_empty(size), size)[:size].view(shape)

    def zeros(self, name: str, *shape: int) -> Tensor:
        """Return a buffer that is zero at the first request and keeps its contents afterwards."""
        size = math.prod(shape)
        return self.cached(name, lambda: self.like.new_zeros(size), size)[:size].view(shape)

    def cached(self, name: str, make: Callable[[], Tensor], size: int = 0) -> Tensor:
        """Return the cached tensor, calling ``make`` at the first request or if the cached one is shorter than ``size``."""
        if name not in self.tensors or len(self.tensors[name]) < size:
            self.tensors[name] = make()
        return self.tensors[name]


def weights_in_place(piece: Piece, side: Side, buffers: BufferPool) -> Tensor:
    """Compute :func:`~relearn.layers.causal_scores.attention_weights` in one reused buffer."""
    groups, columns = len(side.q), 2 * piece.spans.window + piece.seen * piece.spans.rank
    weights = buffers("weights", groups, piece.rows, columns)
    if not columns:
        return weights
    if piece.spans.window:
        _near(piece, side, buffers, weights)
    if piece.seen:
        _far(piece, side, buffers, weights)
    torch.softmax(weights, 2, out=weights)
    if piece.blind:
        weights[:, : piece.blind] = 0
    return weights


def _near(piece: Piece, side: Side, buffers: BufferPool, scores: Tensor) -> None:
    w, rows = piece.spans.window, side.q[:, piece.here]
    # every piece but the first has the same mask
    mask = buffers.cached("mask", lambda: piece.window_mask(rows)) if piece.block else piece.window_mask(rows)
    blocks = scores.view(len(scores), piece.blocks, w, -1)[..., : 2 * w]
    if side.rw is None:
        blocks.copy_(mask)
    else:
        by_distance = torch.bmm(rows, side.rw.mT, out=buffers("distances", len(rows), piece.rows, 2 * w))
        torch.add(piece.by_distance(by_distance), mask, out=blocks)
    blocks.flatten(0, 1).baddbmm_(rows.reshape(-1, w, rows.shape[2]), windows(piece, side.k).mT)


def _far(piece: Piece, side: Side, buffers: BufferPool, scores: Tensor) -> None:
    spans, seen = piece.spans, piece.seen
    groups, far = len(scores), scores[..., 2 * spans.window :]
    shape = (groups, piece.segments, spans.segment, seen, spans.rank)
    aligned = piece.segments * spans.segment == piece.rows
    to = far.unflatten(2, shape[3:]).unflatten(1, shape[1:3]) if aligned else buffers("far", *shape)
    every = buffers.cached("hidden", lambda: Piece(spans, spans.first, spans.blocks).segment_mask(scores))
    first = piece.start // spans.segment - spans.base // spans.segment
    mask = every[first : first + piece.segments, :, :seen, None]
    if side.rc is None:
        to.copy_(mask)
    else:
        every = side.q[:, piece.whole]
        by_distance = buffers("distances", groups, every.shape[1], seen + 1)
        torch.bmm(every, distances_of(piece, side.rc).mT, out=by_distance)
        torch.add(piece.by_segment_distance(by_distance)[..., None].expand(shape), mask, out=to)
    if not aligned:
        far.copy_(to.flatten(3).flatten(1, 2)[:, piece.front : piece.front + piece.rows])
    far.baddbmm_(side.q[:, piece.here], side.kc[:, : seen * spans.rank].mT)
