"""The nearest candidates of some queries among many points on the CPU, without a row of all distances; single precision.

A row's distances come from a product with one block of points after the other. A limit, estimated from a sample of the points, rejects
nearly all of them in one vectorised comparison; the others collect in a pool, which is cut to the nearest ``width`` (and the
limit to the last of them) whenever it is full. A limit that was too low leaves fewer than ``width`` in the pool, so a
row that has them has the right ones, whatever the sample was.

Product, cut and order are NumPy's: its sort of whole numbers is vectorised, and a distance and its index are one int64, the distance
above. Its product follows ``OMP_NUM_THREADS``, not ``torch.set_num_threads``.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

CHUNK = 2048
"""Points of one product; a row of the pool has room for two such blocks more than it must keep."""
SAMPLE = 1024
"""Points that the first limit is estimated from."""
ROWS = 1024
"""Queries at a time: more do not make the product faster, but its result leaves the cache."""
EMPTY = torch.iinfo(torch.int64).max


def worthwhile(points: Tensor, width: int) -> bool:
    """Whether the pool can be used and saves more than it costs: for many points, of which few are wanted."""
    suits = points.device.type == "cpu" and points.dtype == torch.float32
    return suits and len(points) >= 4 * CHUNK and 8 * width <= len(points)


def bytes_a_query(dimensions: int, width: int) -> int:
    """Memory that a query needs here."""
    return 4 * (dimensions + 1 + SAMPLE) + 5 * CHUNK + 16 * _room(width)


@torch.no_grad()
def streamed(
    queries: Tensor, table: Tensor, width: int, first: int = 0, self_rule: float | None = None
) -> tuple[Tensor, Tensor]:
    """The ``width`` nearest points of every query, nearest first; of equal ones the smaller index.

    Args:
        queries: (R, d).
        table: (N, d + 1), a point and its squared norm in every row.
        width: number of candidates.
        first, self_rule: unless ``self_rule`` is None, query i is point ``first + i``, and this is its distance to itself.

    Returns:
        ‖b‖² - 2a·b of the candidates (R, width) and their indices, int64. A row whose last index is -1 found too few and is to be
        searched again in another way.
    """
    rows, points = len(queries), len(table)
    asked = torch.cat([queries * -2, queries.new_ones(rows, 1)], dim=1)
    limit = _estimate(asked, table, width)
    room = _room(width)
    pool = torch.full((rows, room), EMPTY)
    count = torch.zeros(rows, dtype=torch.int64)
    base = torch.arange(rows) * room
    distances, below = table.new_empty(rows * CHUNK), torch.empty(rows * CHUNK, dtype=torch.bool)
    for start in range(0, points, CHUNK):
        block = table[start : start + CHUNK]
        columns = len(block)
        distance, mask = distances[: rows * columns], below[: rows * columns]
        _product(asked, block, distance.view(rows, columns))
        low, high = max(start, first), min(start + columns, first + rows)
        if self_rule is not None and low < high:
            own = distance.view(rows, columns)[low - first : high - first, low - start : high - start]
            own.fill_diagonal_(self_rule)
        torch.lt(distance.view(rows, columns), limit, out=mask.view(rows, columns))
        flat = _true(mask)
        row = flat.div(columns, rounding_mode="floor")
        found = torch.bincount(row, minlength=rows)
        place = (base + count - found.cumsum(0) + found).index_select(0, row).add_(torch.arange(len(row)))
        pool.view(-1).scatter_(
            0, place, _packed(distance.index_select(0, flat), flat - row * columns + start)
        )
        count += found
        if int(count.max()) > room - CHUNK:
            pool.numpy().partition(width - 1, axis=1)
            pool[:, width:] = EMPTY
            last = pool[:, width - 1 : width]
            limit = torch.where(last < EMPTY, _distance(last), limit)
            count.fill_(width)  # also where fewer were found: they stand anywhere among the first ones
    kept = pool[:, : max(width, int(count.max()))].numpy()
    kept.partition(width - 1, axis=1)
    kept[:, :width].sort(axis=1)
    nearest = torch.from_numpy(kept[:, :width])
    return _distance(nearest), torch.where(nearest < EMPTY, nearest & (2**32 - 1), -1)


def _room(width: int) -> int:
    return width + max(2 * CHUNK, width)


def _estimate(asked: Tensor, table: Tensor, width: int) -> Tensor:
    """A distance (R, 1) that more than ``width`` points are below in almost all rows: of a sample's distances, one whose rank is four
    standard deviations above the expected rank of the one sought."""
    sample = table[:: max(1, len(table) // SAMPLE)][:SAMPLE].contiguous()
    expected = width * len(sample) / len(table)
    rank = min(len(sample), math.ceil(expected + 4 * math.sqrt(expected)) + 4)
    distance = table.new_empty(len(asked), len(sample))
    _product(asked, sample, distance)
    limit = distance.topk(rank, dim=1, largest=False, sorted=False).values.amax(dim=1, keepdim=True)
    return torch.nextafter(limit, torch.full_like(limit, math.inf))


def _product(asked: Tensor, block: Tensor, out: Tensor) -> None:
    np.matmul(asked.numpy(), block.numpy().T, out=out.numpy())


def _true(mask: Tensor) -> Tensor:
    """Indices of the true entries of a mask (n,), ascending; eight at a time are skipped where all are false."""
    if len(mask) % 8:
        return mask.nonzero()[:, 0]
    words = mask.view(torch.int64)
    word = words.nonzero()[:, 0]
    inner = words.index_select(0, word).view(torch.bool).nonzero()[:, 0]
    return word.index_select(0, inner >> 3).mul_(8).add_(inner & 7)


def _packed(distance: Tensor, index: Tensor) -> Tensor:
    """One int64 that is ordered by the distance, then by the index."""
    bits = (distance + 0.0).view(torch.int32)  # + 0 turns -0 into 0
    return (bits ^ ((bits >> 31) & 0x7FFFFFFF)).long().mul_(2**32).add_(index)


def _distance(packed: Tensor) -> Tensor:
    bits = (packed >> 32).int()
    return (bits ^ ((bits >> 31) & 0x7FFFFFFF)).view(torch.float32)
