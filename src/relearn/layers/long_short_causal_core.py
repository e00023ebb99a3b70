"""Causal long-short attention from queries, keys and values, computed forward and backward a few windows at a time."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import dropout

from relearn.layers.causal_gradients import gradients
from relearn.layers.causal_inplace import LANE, InPlace, lanes
from relearn.layers.causal_scores import attention_weights, mixtures, padded, real_rows
from relearn.layers.causal_windows import Form, Spans
from relearn.layers.on_device import full_precision

KEPT = (
    2**22
)  # up to this many weights per call are stored for the backward pass; beyond it, they are recomputed


class CausalCore(torch.autograd.Function):
    r"""Mixtures of :class:`~relearn.layers.long_short_causal.CausalLongShortAttention`, before the output map.

    Let :math:`G` be the gradient of a row's output, S its scores of window and segments, P their common softmax, and
    :math:`T` the scores indexed by distance, from which S takes its entries. Then

    .. math:: \bar S = P \odot (G V^\top - (P \odot G V^\top) \mathbf 1 \mathbf 1^\top), \quad
              \bar V = P^\top G, \quad \bar K = \bar S^\top Q, \quad \bar R = \bar T^\top Q, \quad
              \bar Q = \bar S K + \bar T R

    With dropout, the first and the last P of :math:`\bar S` are the weights before it, and :math:`G V^\top` is 0 where a weight was
    dropped. At most :data:`KEPT` weights are stored between the passes. Calls with more weights recompute them in the backward
    pass, so that the stored memory is linear in the number of positions. Higher derivatives are taken through :func:`mix_values`.

    ===========  ======================================================  ========================
    argument     meaning                                                 shape
    ===========  ======================================================  ========================
    q            queries, already scaled                                 (B, n, H, d)
    near         keys and values of all positions                        (B, m + n, 2, H, d)
    far          the compressed ones, r per segment                      (B, C r, 2, H, d)
    rw, rc       tables for distances 2w - 1 ... 0 and C ... 0, or None  (2w, H, d), (C + 1, H, d)
    by_key       added to the scores of a position's key, or None        (B, m + n, H)
    by_distance  added to the window scores at a distance, or None       (2w, H)
    ===========  ======================================================  ========================
    """

    @staticmethod
    def forward(ctx: Any, spans: Spans, form: Form, *tensors: Tensor | None) -> Tensor:
        q, kept = _first(tensors), []
        seed = int(torch.randint(2**62, ())) if form.dropout else 0
        with full_precision(q):
            work = InPlace(spans, form, padded(spans, *tensors), seed)
            done = q.new_empty(q.shape)
            rows = done.transpose(1, 2)
            few = len(work.side.q) * spans.rows * (2 * spans.window + spans.seen * spans.rank) <= KEPT
            for piece in work.pieces:
                keys, (here, there) = work.keys(piece), real_rows(piece)
                weights = work.weights(piece, keys[0])
                used = weights.clamp_min(0) if form.dropout else weights
                mixed = torch.bmm(used.view(len(keys[1]), spans.window or piece.rows, used.shape[2]), keys[1])
                rows[:, :, there] = mixed.view(*rows.shape[:2], piece.rows, -1)[:, :, here]
                if few and any(ctx.needs_input_grad):
                    kept.append(weights)
                    work.buffers.pop("weights", None)
            if form.dropout:
                done *= _scale(form)
        ctx.spans, ctx.form, ctx.seed = spans, form, seed
        ctx.save_for_backward(*tensors, *kept)
        return done

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        saved = ctx.saved_tensors  # read once, as activation checkpointing demands
        spans, form, tensors, kept = ctx.spans, ctx.form, saved[:7], saved[7:]
        with full_precision(grad):
            work = InPlace(spans, form, padded(spans, *tensors), ctx.seed)
            if not torch.is_grad_enabled():
                grad = grad * _scale(form) if form.dropout else grad
                return None, None, *gradients(work, grad, kept)
            with torch.no_grad():
                factors = _factors(work) if form.dropout else None
        given = [one for one in tensors if one is not None]
        pulled: Any = torch.func.vjp(
            lambda *present: mix_values(spans, form, *_as(tensors, present), factors=factors), *given
        )
        return None, None, *_as(tensors, pulled[1](grad))


def mix_values(spans: Spans, form: Form, *tensors: Tensor | None, factors: Tensor | None = None) -> Tensor:
    """Compute :class:`CausalCore` at once by ordinary operations, differentiable to any order; stores the scores.

    ``factors`` of the weights replace dropout: 0 or 1 / (1 - p), (G, rows, 2w + C r).
    """
    side = padded(spans, *tensors)
    (piece,) = spans.pieces(1, 2**62)
    weights = attention_weights(piece, side, form)
    weights = dropout(weights, form.dropout) if factors is None else weights * factors
    mixed = mixtures(piece, side, weights)[:, real_rows(piece)[0]]
    batch, _, heads, _ = _first(tensors).shape
    return mixed.unflatten(0, (batch, heads)).transpose(1, 2)


def _factors(work: InPlace) -> Tensor:
    """Return what dropout multiplied the weights of all pieces with."""
    first = work.pieces[0].start
    (piece,) = work.spans.pieces(1, 2**62)
    found = work.side.q.new_zeros(
        len(work.side.q), piece.rows, 2 * work.spans.window + work.spans.seen * work.spans.rank
    )
    for piece in work.pieces:
        weights = work.weights(piece, work.keys(piece)[0])
        place = slice(piece.start - first, piece.start - first + piece.rows)
        found[:, place, : weights.shape[2]] = ~weights.signbit() * _scale(work.form)
    return found


def _scale(form: Form) -> float:
    """Return 1 / (1 - p) for the probability that is realised."""
    return 1 / (1 - lanes(form.dropout) / LANE)


def _first(tensors: tuple[Tensor | None, ...]) -> Tensor:
    assert tensors[0] is not None
    return tensors[0]


def _as(pattern: tuple[Tensor | None, ...], given: Any) -> list[Tensor | None]:
    """Put the given tensors into the positions where ``pattern`` is not None."""
    rest = iter(given)
    return [None if one is None else next(rest) for one in pattern]
