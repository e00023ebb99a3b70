"""Attention weights of causal long-short attention for a group of blocks, and the memory layout of its tensors."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from relearn.layers.causal_windows import Form, Piece, Spans


class Side(NamedTuple):
    """Tensors of one call, with B and H merged into an axis G = B H, padded to whole windows and segments.

    Shapes: q (G, t, d); near and far, keys before values, (2, G, t, d); rw and rc (G, t, d); by_key and by_distance (G, t, 1).
    """

    q: Tensor
    near: Tensor
    far: Tensor
    rw: Tensor | None
    rc: Tensor | None
    by_key: Tensor | None
    by_distance: Tensor | None


def attention_weights(piece: Piece, side: Side, form: Form) -> Tensor:
    """Return the weights P (G, rows, 2w + C r) of a piece's rows, window columns first, by differentiable operations."""
    w, r, parts = piece.spans.window, piece.spans.rank, []
    groups, rows = side.q.shape[0], side.q[:, piece.here]
    if w:
        added = piece.window_mask(rows, form.banded)
        if side.rw is not None:
            found = rows @ side.rw.mT
            found = found if side.by_distance is None else found + side.by_distance.mT
            added = Piece(piece.spans._replace(rank=0), *piece[1:]).by_distance(found) + added
        if side.by_key is not None:
            added = added + piece.windows(side.by_key).mT
        added = added.expand(groups, piece.blocks, w, 2 * w).reshape(-1, w, 2 * w)
        keys = piece.windows(side.near[0]).flatten(0, 1)
        near = torch.baddbmm(added, rows.reshape(-1, w, rows.shape[2]), keys.mT)
        parts.append(near.view(groups, piece.blocks * w, 2 * w))
    if piece.seen:
        added = piece.segment_mask(rows)[..., None]
        if side.rc is not None:
            found = side.q[:, piece.whole] @ distances_of(piece, side.rc, form.each).mT
            added = piece.by_segment_distance(found, piece.seen, form.each) + added
        added = added.expand(groups, piece.segments, piece.spans.segment, piece.seen, r).flatten(3)
        added = added.flatten(1, 2)[:, piece.front : piece.front + piece.rows]
        parts.append(torch.baddbmm(added, rows, side.far[0, :, : piece.seen * r].mT))
    if not parts:
        return rows.new_zeros(*rows.shape[:2], 0)
    weights = torch.cat(parts, 2).softmax(2)
    if piece.blind:
        seeing = torch.arange(piece.rows, device=rows.device) >= piece.blind
        weights = weights * seeing[:, None]
    return weights


def mixtures(piece: Piece, side: Side, weights: Tensor) -> Tensor:
    """Return the mixtures of values, (G, rows, d)."""
    done = weights.new_zeros(*weights.shape[:2], side.q.shape[2])
    if piece.spans.window:
        done = done + (piece.near(weights) @ piece.windows(side.near[1])).flatten(1, 2)
    if piece.seen:
        done = done + piece.far(weights).flatten(2) @ side.far[1, :, : piece.seen * piece.spans.rank]
    return done


def padded(spans: Spans, *tensors: Tensor | None) -> Side:
    q, near, far, rw, rc, by_key, by_distance = tensors
    assert q is not None and near is not None and far is not None
    start, length = max(0, -spans.oldest), (spans.blocks + 1) * spans.window
    oldest, batch = max(0, spans.oldest), q.shape[0]  # len() would fix the batch in an exported graph

    def pairs(x: Tensor, start: int, length: int) -> Tensor:
        return _pad(x.permute(2, 0, 3, 1, 4).flatten(1, 2), start, length)

    def table(x: Tensor | None) -> Tensor | None:
        return None if x is None else heads_first(x.expand(batch, *x.shape), 0, len(x))

    return Side(
        heads_first(q, spans.past - spans.base, spans.rows),
        pairs(near[:, oldest:] if spans.window else near[:, :0], start, length),
        pairs(far, 0, far.shape[1]),
        table(rw),
        table(rc),
        None if by_key is None else heads_first(by_key[:, oldest:, :, None], start, length),
        None if by_distance is None else table(by_distance[..., None]),
    )


def heads_first(x: Tensor, start: int, length: int) -> Tensor:
    """Reshape (B, t, H, d) to (B H, length, d), with zeros around the t rows that begin at ``start``."""
    return _pad(x.transpose(1, 2).flatten(0, 1), start, length)


def real_rows(piece: Piece) -> tuple[slice, slice]:
    """Return two slices: the piece's rows that are new positions, and the indices of these rows among the new positions."""
    spans = piece.spans
    first, last = max(piece.start, spans.past), min(piece.start + piece.rows, spans.end)
    return slice(first - piece.start, last - piece.start), slice(first - spans.past, last - spans.past)


def distances_of(piece: Piece, table: Tensor, each: int = 1) -> Tensor:
    """Return the rows of a table for the segment distances C ... 0, ``each`` rows per distance."""
    return table[:, table.shape[1] - (piece.seen + 1) * each :]


def _pad(x: Tensor, start: int, length: int) -> Tensor:
    behind = length - start - x.shape[-2]
    return pad(x, (0, 0, start, behind)) if start or behind else x
