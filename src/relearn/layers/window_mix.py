"""One softmax over long keys, which all queries see, and the keys of a window: forward and backward in pieces."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import dropout

from relearn.layers.on_device import full_precision
from relearn.layers.segments import Segments

softmax_backward = torch.ops.aten._softmax_backward_data  # one pass over memory instead of three
SCRATCH = {"cpu": 2**16}
"""Number of logits held at a time; on a CPU about what its cache holds."""
LONG = 2048
"""From this many tokens on, a CPU holds twice as many logits: fewer pieces are faster, and their memory is small next to the tokens'."""
ELSEWHERE = 2**25  # the same on an accelerator


class WindowMix(torch.autograd.Function):
    """:func:`mix_windows` without dropout, which saves only its arguments and holds only a few logits at a time.

    Higher derivatives are taken through :func:`mix_windows`.
    """

    @staticmethod
    def forward(
        ctx: Any, queries: Tensor, pairs: Tensor, long: Tensor, mask: Tensor | None, window: int
    ) -> Tensor:
        ctx.window = window
        ctx.save_for_backward(queries, pairs, long, mask)
        return mix_in_pieces(queries, pairs, long, mask, window)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        queries, pairs, long, mask = ctx.saved_tensors
        if torch.is_grad_enabled():
            again: Any = torch.func.vjp(
                lambda q, p, k: mix_windows(q, p, k, mask, ctx.window), queries, pairs, long
            )
            return *again[1](grad), None, None
        with full_precision(grad):
            return *gradients(grad, queries, pairs, long, mask, ctx.window), None, None


def mix_windows(
    queries: Tensor,
    pairs: Tensor,
    long: Tensor,
    mask: Tensor | None,
    window: int,
    attention_dropout: float = 0.0,
) -> Tensor:
    r"""Mix the values, (B, H, n, d).

    .. math:: \mathrm{softmax}(q_t [\bar K; K_{S(t)}]^\top)\, [\bar V; V_{S(t)}]

    This computes all queries at once by ordinary operations, differentiable to any order.

    Args:
        queries: scaled, (B, H, n, d).
        pairs: keys and values of the tokens, (2, B, H, n, d).
        long: keys and values that all queries see, (2, B, H, R, d).
        mask: (B, n), True = real; windows do not see padded keys. None: all are real.
        window: see :class:`~relearn.layers.segments.Segments`; 0: no window, which requires R >= 1.
        attention_dropout: probability of dropping a weight.
    """
    segments, length = Segments(window), queries.shape[2]
    every = Piece(0, queries.shape[0] * queries.shape[1], 0, segments.blocks(length))
    q, keys, values, hidden = _gather(every, queries.flatten(0, 1), pairs.flatten(1, 2), segments, mask)
    long = long.flatten(1, 2)
    weights = dropout(_logits(q, long[0], keys, hidden).softmax(-1), attention_dropout)
    return _mixture(weights, long[1], values)[:, :length].unflatten(0, queries.shape[:2])


def mix_in_pieces(queries: Tensor, pairs: Tensor, long: Tensor, mask: Tensor | None, window: int) -> Tensor:
    """Compute :func:`mix_windows` without dropout and without a graph, a few logits at a time."""
    segments, done = Segments(window), queries.new_empty(queries.shape)
    flat, pairs, long, out = (
        queries.flatten(0, 1),
        pairs.flatten(1, 2),
        long.flatten(1, 2),
        done.flatten(0, 1),
    )
    for piece in _pieces(queries, long, segments):
        q, keys, values, hidden = _gather(piece, flat, pairs, segments, mask)
        weights = _logits(q, long[0, piece.rows], keys, hidden).softmax(-1)
        here = out[piece.rows, piece.tokens(segments)]
        here.copy_(_mixture(weights, long[1, piece.rows], values)[:, : here.shape[1]])
    return done


def gradients(
    grad: Tensor, queries: Tensor, pairs: Tensor, long: Tensor, mask: Tensor | None, window: int
) -> tuple[Tensor, Tensor, Tensor]:
    r"""Return the gradients with respect to queries, pairs and long, given that of the mixtures, a few logits at a time.

    With the weights P and the gradient G of the mixtures, for the long part and for every window alike,

    .. math:: \bar V = P^\top G, \quad \bar S = P \odot (G V^\top - (P \odot G V^\top) \mathbf 1 \mathbf 1^\top),
              \quad \bar Q = \bar S K, \quad \bar K = \bar S^\top Q
    """
    segments, heads, (length, width) = Segments(window), queries.shape[:2], queries.shape[2:]
    flat, pairs, long = queries.flatten(0, 1), pairs.flatten(1, 2), long.flatten(1, 2)
    rank, blocks = long.shape[2], segments.blocks(length)
    to_queries, to_long = flat.new_empty(flat.shape), torch.zeros_like(long)
    to_pairs = flat.new_zeros(2, len(flat), blocks + 2, segments.block, width)
    for piece in _pieces(queries, long, segments):
        q, keys, values, hidden = _gather(piece, flat, pairs, segments, mask)
        ahead = segments.queries(piece.select(grad), piece.first, piece.last).contiguous()
        long_keys, long_values = long[:, piece.rows]
        weights = _logits(q, long_keys, keys, hidden).softmax(-1)
        to_logits = softmax_backward(_logits(ahead, long_values, values, None), weights, -1, weights.dtype)
        here = to_queries[piece.rows, piece.tokens(segments)]
        here.copy_(_mixture(to_logits, long_keys, keys)[:, : here.shape[1]])
        for of, rows, columns in ((0, to_logits, q), (1, weights, ahead)):
            if rank:
                to_long[of, piece.rows].baddbmm_(rows[..., :rank].flatten(1, 2).mT, columns.flatten(1, 2))
            if window:
                near = torch.bmm(rows[..., rank:].flatten(0, 1).mT, columns.flatten(0, 1))
                segments.add(to_pairs[of, piece.rows], near.unflatten(0, q.shape[:2]), piece.first)
    to_tokens = to_pairs[:, :, 1:-1].flatten(2, 3)[:, :, :length]
    return to_queries.unflatten(0, heads), to_tokens.unflatten(1, heads), to_long.unflatten(1, heads)


class Piece(NamedTuple):
    """A range of (sequence, head) rows, numbered consecutively, and a range of blocks of their tokens."""

    start: int
    stop: int
    first: int
    last: int

    @property
    def rows(self) -> slice:
        return slice(self.start, self.stop)

    def select(self, x: Tensor) -> Tensor:
        """Return the rows of this piece, (G, n, d), of x (B, H, n, d), without copying all of a non-contiguous x."""
        heads = x.shape[1]
        if self.stop - self.start == 1:
            return x[self.start // heads, self.start % heads][None]
        return x[self.start // heads : self.stop // heads].flatten(0, 1)

    def tokens(self, segments: Segments) -> slice:
        return slice(self.first * segments.block, self.last * segments.block)


def _pieces(queries: Tensor, long: Tensor, segments: Segments) -> Iterator[Piece]:
    """Yield several whole sequences if they fit, otherwise one head of one sequence, or some of its blocks."""
    batch, heads, length, _ = queries.shape
    blocks, block = segments.blocks(length), segments.block * (long.shape[2] + segments.keys)
    scratch = SCRATCH.get(queries.device.type, ELSEWHERE)
    scratch *= 2 if length >= LONG and queries.device.type in SCRATCH else 1
    rows = max(1, scratch // (heads * blocks * block) * heads)
    step = max(1, scratch // block) if rows == 1 else blocks
    for start in range(0, batch * heads, rows):
        for first in range(0, blocks, step):
            yield Piece(start, min(start + rows, batch * heads), first, min(first + step, blocks))


def _gather(
    piece: Piece, queries: Tensor, pairs: Tensor, segments: Segments, mask: Tensor | None
) -> tuple[Tensor, Tensor | None, Tensor | None, Tensor | None]:
    """Return queries (G, blocks, block, d), keys and values of their windows (G blocks, keys, d), and which are hidden."""
    q = segments.queries(queries[piece.rows], piece.first, piece.last)
    if not segments.window:
        return q, None, None, None
    # if the piece has a single row, these are views
    keys, values = (segments.seen(one[piece.rows], piece.first, piece.last).flatten(0, 1) for one in pairs)
    if mask is None or not mask.shape[0]:
        real = torch.ones(1, queries.shape[1], dtype=torch.bool, device=queries.device)
        return q, keys, values, segments.hidden(real, piece.first, piece.last)
    heads = queries.shape[0] // mask.shape[0]
    own = mask[piece.start // heads : -(-piece.stop // heads)]
    hidden = segments.hidden(own, piece.first, piece.last)
    return q, keys, values, hidden.repeat_interleave(q.shape[0] // own.shape[0], 0)


def _logits(q: Tensor, long: Tensor, near: Tensor | None, hidden: Tensor | None) -> Tensor:
    """Return the products with the long rows, then with those of the window, (G, blocks, block, R + keys)."""
    parts = [torch.bmm(q.flatten(1, 2), long.mT).unflatten(1, q.shape[1:3])] if long.shape[1] else []
    if near is not None:
        products = torch.bmm(q.flatten(0, 1), near.mT).unflatten(0, q.shape[:2])
        # a finite value, so that a padded query that sees nothing gets equal weights instead of NaN
        parts.append(products if hidden is None else products.masked_fill(hidden, torch.finfo(q.dtype).min))
    return torch.cat(parts, -1) if len(parts) > 1 else parts[0]


def _mixture(weights: Tensor, long: Tensor, near: Tensor | None) -> Tensor:
    """Transpose of :func:`_logits`: the weighted sums of rows, (G, blocks block, d)."""
    rank = long.shape[1]
    far = torch.bmm(weights[..., :rank].flatten(1, 2), long) if rank else None
    if near is None:
        assert far is not None
        return far
    close = torch.bmm(weights[..., rank:].flatten(0, 1), near).unflatten(0, weights.shape[:2]).flatten(1, 2)
    return close if far is None else far + close
