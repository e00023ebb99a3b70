"""Attention weights of causal long-short attention for a group of blocks, and the memory layout of its tensors."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from relearn.layers.causal_windows import Piece, Spans


class Side(NamedTuple):
    """Tensors of one call, with B and H merged into a leading axis G = B H, padded to whole windows and segments."""

    q: Tensor
    k: Tensor
    v: Tensor
    kc: Tensor
    vc: Tensor
    rw: Tensor | None
    rc: Tensor | None


def attention_weights(
    piece: Piece, side: Side, biases: tuple[Tensor, Tensor] | None = None, banded: bool = False
) -> Tensor:
    """Return the weights P (G, rows, 2w + C r) of a piece's rows, window columns first, by differentiable operations."""
    w, r, parts = piece.spans.window, piece.spans.rank, []
    groups, rows = side.q.shape[0], side.q[:, piece.here]
    if w:
        added = piece.window_mask(rows, banded)
        content = rows if biases is None else rows + _by_group(biases[0], groups)
        if side.rw is not None:
            placed = rows if biases is None else rows + _by_group(biases[1], groups)
            added = piece.by_distance(placed @ side.rw.mT) + added
        added = added.expand(groups, piece.blocks, w, 2 * w).reshape(-1, w, 2 * w)
        content = content.reshape(-1, w, rows.shape[2])
        near = torch.baddbmm(added, content, windows(piece, side.k).mT)
        parts.append(near.view(groups, -1, 2 * w))
    if piece.seen:
        added = piece.segment_mask(rows)[..., None]
        if side.rc is not None:
            # one column per segment or, as released, one per compressed vector
            each = r if banded else 1
            by_distance = (side.q[:, piece.whole] @ distances_of(piece, side.rc, each).mT).unflatten(
                2, (-1, each)
            )
            shifted = [piece.by_segment_distance(one.contiguous()) for one in by_distance.unbind(3)]
            added = torch.stack(shifted, -1) + added
        added = added.expand(groups, piece.segments, piece.spans.segment, piece.seen, r).flatten(3)
        added = added.reshape(groups, -1, piece.seen * r)[:, piece.front : piece.front + piece.rows]
        parts.append(torch.baddbmm(added, rows, side.kc[:, : piece.seen * r].mT))
    if not parts:
        return rows.new_zeros(*rows.shape[:2], 0)
    weights = torch.cat(parts, 2).softmax(2)
    if piece.blind:
        seeing = torch.arange(piece.rows, device=rows.device) >= piece.blind
        weights = weights * seeing[:, None]
    return weights


def mixtures(piece: Piece, side: Side, weights: Tensor) -> Tensor:
    """Return the mixtures of values, (G, rows, d)."""
    near, far = split(piece, weights)
    done = None
    if piece.spans.window:
        done = torch.bmm(near, windows(piece, side.v)).view(*weights.shape[:2], -1)
    if piece.seen:
        values = side.vc[:, : piece.seen * piece.spans.rank]
        return torch.bmm(far, values) if done is None else torch.baddbmm(done, far, values)
    return weights.new_zeros(*weights.shape[:2], side.v.shape[2]) if done is None else done


def padded(spans: Spans, *tensors: Tensor | None) -> Side:
    q, near, far, rw, rc = tensors
    assert q is not None and near is not None and far is not None
    start, length = max(0, -spans.oldest), (spans.blocks + 1) * spans.window
    seen = near[:, max(0, spans.oldest) :] if spans.window else near[:, :0]
    return Side(
        heads_first(q, spans.past - spans.base, spans.rows),
        *(heads_first(one, start, length) for one in seen.unbind(2)),
        *(heads_first(one, 0, one.shape[1]) for one in far.unbind(2)),
        *(
            None if one is None else heads_first(one.expand(q.shape[0], -1, -1, -1), 0, len(one))
            for one in (rw, rc)
        ),
    )


def heads_first(x: Tensor, start: int, length: int) -> Tensor:
    """Reshape (B, t, H, d) to (B H, length, d), with zeros around the t rows that begin at ``start``."""
    x = x.transpose(1, 2).flatten(0, 1)
    behind = length - start - x.shape[1]
    return pad(x, (0, 0, start, behind)) if start or behind else x


def heads_last(x: Tensor, like: Tensor) -> Tensor:
    """Reshape (B H, t, d) to (B, t, H, d), with B and H taken from ``like``."""
    return x.unflatten(0, (like.shape[0], like.shape[2])).transpose(1, 2)


def real_rows(piece: Piece) -> tuple[slice, slice]:
    """Return two slices: the piece's rows that are new positions, and the indices of these rows among the new positions."""
    spans = piece.spans
    first, last = max(piece.start, spans.past), min(piece.start + piece.rows, spans.end)
    return slice(first - piece.start, last - piece.start), slice(first - spans.past, last - spans.past)


def windows(piece: Piece, x: Tensor) -> Tensor:
    """Return, for every window of a piece, the 2w rows up to the window's end, (G blocks, 2w, d)."""
    w, start = piece.spans.window, (piece.block - piece.spans.first) * piece.spans.window
    rows = x[:, start : start + (piece.blocks + 1) * w]
    return rows.unfold(1, 2 * w, w).transpose(2, 3).reshape(-1, 2 * w, x.shape[2])


def add_to_windows(piece: Piece, to: Tensor, left: Tensor, right: Tensor) -> None:
    """For every window, add left^T right to the rows it covers; left (G blocks, w, 2w), right (G blocks, w, d)."""
    w, start = piece.spans.window, (piece.block - piece.spans.first) * piece.spans.window
    if piece.blocks == 1:
        to[:, start : start + 2 * w].baddbmm_(left.mT, right)
        return
    found = torch.bmm(left.mT, right).view(len(to), piece.blocks, 2, w, -1)
    for half in (0, 1):
        rows = to[:, start + half * w : start + (half + piece.blocks) * w]
        rows.view(len(to), piece.blocks, w, -1).add_(found[:, :, half])


def distances_of(piece: Piece, table: Tensor, each: int = 1) -> Tensor:
    """Return the rows of a table for the segment distances C ... 0, ``each`` rows per distance."""
    return table[:, table.shape[1] - (piece.seen + 1) * each :]


def split(piece: Piece, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Split weights into window columns, (G blocks, w, 2w), and segment columns, (G, rows, C r)."""
    w = piece.spans.window
    near, far = weights[..., : 2 * w], weights[..., 2 * w :]
    return weights.view(-1, w, weights.shape[2])[..., : 2 * w] if w else near, far


def _by_group(bias: Tensor, groups: int) -> Tensor:
    """Expand (H, d) to (G, 1, d)."""
    return bias.repeat(groups // bias.shape[0], 1)[:, None]
