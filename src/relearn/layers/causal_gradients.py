"""Backward pass of causal long-short attention, a few windows at a time."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad

from relearn.layers.causal_inplace import InPlace
from relearn.layers.causal_scores import Side, heads_first
from relearn.layers.causal_windows import Piece

softmax_backward = torch.ops.aten._softmax_backward_data  # one pass over memory instead of three
threshold_backward = torch.ops.aten.threshold_backward


def gradients(work: InPlace, grad: Tensor, kept: tuple[Tensor, ...]) -> tuple[Tensor | None, ...]:
    """Return the gradients of the tensors of a call, given that of the mixtures (B, n, H, d) and the weights, if they were stored."""
    spans, side = work.spans, work.side
    batch = len(grad)
    ahead = heads_first(grad, spans.past - spans.base, spans.rows)
    to = Side(*(None if one is None else one.new_zeros(one.shape) for one in side))  # type: ignore[arg-type]
    to_table = None if work.table is None else torch.zeros_like(work.table)
    for number, piece in enumerate(work.pieces):
        keys = work.keys(piece)
        weights = kept[number] if kept else work.weights(piece, keys[0])
        if weights.shape[2]:
            _add(work, piece, weights, keys, ahead, to, to_table)
    start = spans.past - spans.base

    def by_batch(x: Tensor, axis: int = 0) -> Tensor:
        return x.unflatten(axis, (batch, -1))

    def whole(x: Tensor) -> Tensor:
        """From the rows of windows (…, t, d) to all positions."""
        lead = max(0, spans.oldest)
        rows = x[..., max(0, -spans.oldest) :, :][..., : spans.end - lead, :]
        return pad(rows, (0, 0, lead, 0)) if lead else rows

    ends: list[Tensor | None] = [None, None]
    if to_table is not None:
        ends = [
            None if part is None else by_batch(to_table[:, place]).sum(0).transpose(0, 1)
            for place, part in zip(work.places[::-1], (side.rw, side.rc))
        ]
    by_key = None if to.by_key is None else by_batch(whole(to.by_key))[..., 0].transpose(1, 2)
    by_distance = None if to.by_distance is None else by_batch(to.by_distance)[..., 0].sum(0).T
    near = by_batch(whole(to.near), 1).permute(1, 3, 0, 2, 4)
    if not spans.window:
        near = near.new_zeros(batch, spans.end, *near.shape[2:])
    return (
        by_batch(to.q[:, start : start + spans.new]).transpose(1, 2),
        near,
        by_batch(to.far, 1).permute(1, 3, 0, 2, 4),
        *ends,
        by_key,
        by_distance,
    )


def _add(
    work: InPlace,
    piece: Piece,
    weights: Tensor,
    keys: Tensor,
    ahead: Tensor,
    to: Side,
    to_table: Tensor | None,
) -> None:
    """Add the gradients of one piece."""
    w, side, used = work.spans.window, work.side, weights
    g, q = work.by_block(piece, ahead), work.by_block(piece, side.q)
    slopes = work.buffer("slopes", *weights.shape)
    shape = (*q.shape[:2], weights.shape[2])
    blocks = slopes.view(shape)
    torch.bmm(g, keys[1].mT, out=blocks)
    if work.form.dropout:
        threshold_backward(slopes, weights, 0, grad_input=slopes)
        used = torch.clamp_min(weights, 0, out=work.buffer("used", *weights.shape))
    found = work.buffer("gradients", *keys.shape)
    torch.bmm(used.view(shape).mT, g, out=found[1])
    if work.form.dropout:
        weights = torch.abs(weights, out=used)
    softmax_backward(slopes, weights, 2, weights.dtype, grad_input=slopes)
    torch.bmm(blocks.mT, q, out=found[0])
    found = found.unflatten(1, (len(side.q), -1))
    if w:
        piece.add_to_windows(to.near, found)
    if piece.seen:
        to.far[:, :, : piece.seen * work.spans.rank].add_(found[..., 2 * w :, :].sum(2))
    to.q[:, piece.here].add_(torch.bmm(blocks, keys[0]).view(len(side.q), piece.rows, -1))
    near, far = piece.near(slopes), piece.far(slopes)
    if to.by_key is not None:
        piece.add_to_windows(to.by_key[None], near.sum(2)[None, ..., None])
    if work.table is None or to_table is None:
        return
    rows, columns = side.q[:, piece.whole], work.columns(piece)
    table = work.table[:, columns]
    distances = work.buffer("distances", *rows.shape[:2], table.shape[1]).zero_()
    if side.rw is not None:
        piece.by_distance(distances).copy_(near)
    if side.rc is not None and piece.seen:
        one = far if far.shape[3] == work.form.each else far.sum(3, keepdim=True)
        if piece.rows < rows.shape[1]:
            one = pad(one, (0, 0, 0, 0, piece.front, rows.shape[1] - piece.front - piece.rows))
        shifted = piece.by_segment_distance(distances, piece.last, work.form.each)
        shifted.copy_(one.unflatten(1, shifted.shape[1:3]))
    if to.by_distance is not None:
        to.by_distance.add_(distances[..., -2 * w :].sum(1)[..., None])
    to.q[:, piece.whole].baddbmm_(distances, table)
    to_table[:, columns].baddbmm_(distances.mT, rows)
