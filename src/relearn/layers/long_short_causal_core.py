"""Causal long-short attention from queries, keys and values, computed forward and backward a few windows at a time."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import dropout, pad

from relearn.layers.causal_inplace import BufferPool, weights_in_place
from relearn.layers.causal_scores import (
    Side,
    add_to_windows,
    attention_weights,
    distances_of,
    heads_first,
    heads_last,
    mixtures,
    padded,
    real_rows,
    split,
    windows,
)
from relearn.layers.causal_windows import SCRATCH, WIDE, Piece, Spans

KEPT = (
    2**22
)  # up to this many weights per call are stored for the backward pass; beyond it, they are recomputed
softmax_backward = torch.ops.aten._softmax_backward_data  # one pass over memory instead of three


class CausalCore(torch.autograd.Function):
    r"""Mixtures of :class:`~relearn.layers.long_short_causal.CausalLongShortAttention`, before the output map.

    Let :math:`G` be the gradient of a row's output, S its scores of window and segments, P their common softmax, and
    :math:`T` the scores indexed by distance, from which S takes its entries. Then

    .. math:: \bar S = P \odot (G V^\top - (P \odot G V^\top) \mathbf 1 \mathbf 1^\top), \quad
              \bar V = P^\top G, \quad \bar K = \bar S^\top Q, \quad \bar R = \bar T^\top Q, \quad
              \bar Q = \bar S K + \bar T R

    At most :data:`KEPT` weights are stored between the passes. Calls with more weights recompute them in the backward pass, so
    that the stored memory is linear in the number of positions. Higher derivatives are taken through :func:`mix_values`.

    ==========  ======================================================  ====================
    argument    meaning                                                 shape
    ==========  ======================================================  ====================
    q           queries, already scaled                                 (B, n, H, d)
    near        keys and values of all positions                        (B, m + n, 2, H, d)
    far         the compressed ones, r per segment                      (B, C r, 2, H, d)
    rw, rc      tables for distances 2w - 1 ... 0 and C ... 0, or None  (2w, H, d), (C + 1, H, d)
    ==========  ======================================================  ====================
    """

    @staticmethod
    def forward(ctx: Any, spans: Spans, *tensors: Tensor | None) -> Tensor:
        q, kept = _first(tensors), []
        with torch.autocast(q.device.type, enabled=False):
            side, buffers = padded(spans, *tensors), BufferPool(q)
            done = q.new_empty(q.shape)
            rows = done.transpose(1, 2)
            few = len(side.q) * side.q.shape[1] * (2 * spans.window + spans.seen * spans.rank) <= KEPT
            for piece in spans.pieces(len(side.q), _scratch(q)):
                weights = weights_in_place(piece, side, buffers)
                mixed, (here, there) = mixtures(piece, side, weights), real_rows(piece)
                rows[:, :, there] = mixed[:, here].unflatten(0, rows.shape[:2])
                if few and any(ctx.needs_input_grad):
                    kept.append(weights)
                    buffers.tensors.pop("weights", None)
        ctx.spans = spans
        ctx.save_for_backward(*tensors, *kept)
        return done

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        spans, tensors, kept = ctx.spans, ctx.saved_tensors[:5], ctx.saved_tensors[5:]
        if torch.is_grad_enabled():
            given = [one for one in tensors if one is not None]
            pulled: Any = torch.func.vjp(lambda *present: mix_values(spans, *_as(tensors, present)), *given)
            return None, *_as(tensors, pulled[1](grad))
        with torch.autocast(grad.device.type, enabled=False):
            return None, *_gradients(spans, grad, tensors, kept)


def mix_values(
    spans: Spans,
    *tensors: Tensor | None,
    biases: tuple[Tensor, Tensor] | None = None,
    banded: bool = False,
    probability: float = 0.0,
) -> Tensor:
    """Compute :class:`CausalCore` at once by ordinary operations, differentiable to any order; stores the scores.

    Args:
        spans: sizes of the call.
        tensors: the arguments of :class:`CausalCore`.
        biases: (H, d) each, added to the queries before the product with the window's keys and before that with ``rw``.
        banded: see :meth:`relearn.layers.causal_windows.Piece.window_mask`.
        probability: probability of dropping a weight.
    """
    side = padded(spans, *tensors)
    (piece,) = spans.pieces(1, 2**62)
    weights = dropout(attention_weights(piece, side, biases, banded), probability)
    mixed = mixtures(piece, side, weights)[:, real_rows(piece)[0]]
    batch, _, heads, _ = _first(tensors).shape
    return mixed.unflatten(0, (batch, heads)).transpose(1, 2)


def _gradients(
    spans: Spans, grad: Tensor, tensors: tuple[Tensor | None, ...], kept: tuple[Tensor, ...]
) -> tuple[Tensor | None, ...]:
    side, buffers = padded(spans, *tensors), BufferPool(grad)
    to = Side(*(None if one is None else one.new_zeros(one.shape) for one in side))  # type: ignore[arg-type]
    ahead = heads_first(grad, spans.past - spans.base, spans.rows)
    w, r = spans.window, spans.rank
    groups, width = len(side.q), side.q.shape[2]
    for number, piece in enumerate(spans.pieces(groups, _scratch(grad))):
        weights = kept[number] if kept else weights_in_place(piece, side, buffers)
        here, seen = piece.here, piece.seen
        if not weights.shape[2]:
            continue
        g, q, keys = ahead[:, here], side.q[:, here], side.kc[:, : seen * r]
        scores = buffers("scores", *weights.shape)
        (near, far), (to_near, to_far) = split(piece, weights), split(piece, scores)
        if w:
            g3, q3 = g.reshape(-1, w, width), q.reshape(-1, w, width)
            torch.bmm(g3, windows(piece, side.v).mT, out=to_near)
        if seen:
            torch.bmm(g, side.vc[:, : seen * r].mT, out=to_far)
        softmax_backward(scores, weights, 2, weights.dtype, grad_input=scores)
        to_q: Tensor | None = None
        if w:
            add_to_windows(piece, to.v, near, g3)
            add_to_windows(piece, to.k, to_near, q3)
            to_q = torch.bmm(to_near, windows(piece, side.k)).view(groups, -1, width)
            if side.rw is not None and to.rw is not None:
                by_distance = buffers.zeros("by_distance", groups, piece.rows, 2 * w)
                piece.put_by_distance(to_near.view(groups, -1, w, 2 * w), by_distance)
                to_q.baddbmm_(by_distance, side.rw)
                to.rw.baddbmm_(by_distance.mT, q)
        if seen:
            to.vc[:, : seen * r].baddbmm_(far.mT, g)
            to.kc[:, : seen * r].baddbmm_(to_far.mT, q)
            to_q = torch.bmm(to_far, keys) if to_q is None else to_q.baddbmm_(to_far, keys)
            if side.rc is not None and to.rc is not None:
                _segment_distances(piece, side, to, to_far, buffers)
        assert to_q is not None
        to.q[:, here] += to_q
    _, new, _, _ = grad.shape
    rows_of = tensors[1]
    assert rows_of is not None
    start = spans.past - spans.base
    found = [heads_last(to.q[:, start : start + new], grad)]
    if w:
        start = max(0, spans.oldest)
        to_near_rows = torch.zeros_like(rows_of)
        rows = to_near_rows[:, start:].permute(2, 0, 3, 1, 4)
        for one, part in zip((to.k, to.v), rows):
            part.copy_(one[:, start - spans.oldest :][:, : part.shape[2]].unflatten(0, part.shape[:2]))
        found.append(to_near_rows)
    else:
        found.append(torch.zeros_like(rows_of))
    found.append(torch.stack([heads_last(one, grad) for one in (to.kc, to.vc)], 2))
    ends = [
        None if one is None else one.unflatten(0, (len(grad), -1)).sum(0).transpose(0, 1) for one in to[5:]
    ]
    return *found, *ends


def _segment_distances(piece: Piece, side: Side, to: Side, to_far: Tensor, buffers: BufferPool) -> None:
    """Propagate the gradient of the segment scores through the shift by distance, to queries and table."""
    assert side.rc is not None and to.rc is not None
    q, r = side.q[:, piece.whole], piece.spans.rank
    one = to_far.unflatten(2, (piece.seen, r)).sum(3) if r > 1 else to_far
    behind = q.shape[1] - piece.front - piece.rows
    one = pad(one, (0, 0, piece.front, behind)) if piece.front or behind else one
    by_distance = buffers("distances", len(q), q.shape[1], piece.seen + 1).zero_()
    piece.by_segment_distance(by_distance).copy_(one.unflatten(1, (piece.segments, piece.spans.segment)))
    to.q[:, piece.whole].baddbmm_(by_distance, distances_of(piece, side.rc))
    distances_of(piece, to.rc).baddbmm_(by_distance.mT, q)


def _scratch(x: Tensor) -> int:
    return SCRATCH if x.device.type == "cpu" else WIDE


def _first(tensors: tuple[Tensor | None, ...]) -> Tensor:
    assert tensors[0] is not None
    return tensors[0]


def _as(pattern: tuple[Tensor | None, ...], given: Any) -> list[Tensor | None]:
    """Put the given tensors into the positions where ``pattern`` is not None."""
    rest = iter(given)
    return [None if one is None else next(rest) for one in pattern]
