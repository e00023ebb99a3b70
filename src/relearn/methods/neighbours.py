"""Exact k nearest neighbours in Euclidean distance, in blocks of rows, on CPU and GPU.

The squared distances come from one matrix product per block, ‖a‖² + ‖b‖² - 2a·b, in the features' own precision (‖a‖² is omitted
because it does not change the order within a row). This product is fast but rounds, and the rounding depends on block size and device.
Where the k-th and (k+1)-th distances differ by less than the rounding error, the few candidates concerned are therefore recomputed in
float64 by direct differences. The resulting set of neighbours is exact and does not depend on the block, the device or the offset of
the features.

**Tie rule**: squared distances closer than the rounding of a float64 product, 2ε(√d + 8)(‖a‖² + max‖b‖²) with norms about the mean of
the features and ε = 2.2e-16, are ties; ties go to the smaller index.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from relearn.methods import streamed_search
from relearn.methods.detector import Features, as_features, nearest_of_row

BLOCK_BYTES = 256 * 2**20
"""Bytes of one block of rows if the caller does not choose its size."""
PAIRS_BYTES = 64 * 2**20
"""Bytes of the float64 numbers that resolve near ties."""
WINDOW = 16
"""Near ties that extend farther than this beyond the k-th neighbour are resolved over the whole row."""


def nearest(
    X: Features,
    k: int,
    *,
    queries: Features | None = None,
    include_self: bool = False,
    block: int | None = None,
) -> tuple[Tensor, Tensor]:
    """The k nearest rows of X for every query, nearest first.

    All n·k distances returned are recomputed in float64, so they are accurate to X's precision even between
    near duplicates.

    Args:
        X: points (N, d).
        k: number of neighbours, 1 <= k <= N (N - 1 if a point is not its own neighbour).
        queries: points (n, d); None searches the neighbours of X's own rows.
        include_self: whether a row of X is its own first neighbour; ignored if queries are given.
        block: number of query rows at a time; None chooses by memory (256 MiB, not counting the result).

    Returns:
        indices (n, k) int64 and squared distances (n, k) in X's precision, both on X's device.

    Raises:
        ValueError: k out of range, wrong shapes, features that are not finite.
        TypeError: k is not a whole number.
    """
    search = NeighbourSearch(X, queries=queries, include_self=include_self, block=block)
    search.check(k)
    shape = (len(search.queries), k)
    indices = torch.empty(shape, dtype=torch.int64, device=search.points.device)
    squared = torch.empty(shape, dtype=search.points.dtype, device=search.points.device)
    for part in search.blocks(k):
        chosen = part.order[:, :k].clone()
        rows, members = part.settle(k)
        chosen[rows] = members
        chosen = chosen.sort(
            dim=1
        ).values  # sorted by index first, so that the stable sort by distance obeys the tie rule
        query = torch.arange(part.start, part.stop, device=chosen.device)
        exact = search.measure(query.repeat_interleave(k), chosen.flatten()).view_as(chosen)
        if search.self_rule == -math.inf:
            exact[chosen == query[:, None]] = -1.0  # its own first neighbour, even among duplicates
        exact, order = exact.sort(dim=1, stable=True)
        indices[part.start : part.stop] = chosen.gather(1, order)
        squared[part.start : part.stop] = (exact.clamp(min=0) / search.scale / search.scale).to(squared.dtype)
    return indices, squared


@dataclass
class Block:
    """Query rows ``start`` to ``stop`` with their nearest candidates in the order given by the product.

    ``order`` (rows, L) are candidate indices, ``shifted`` (rows, L) their squared distances less ‖a‖²,
    ascending; L is the largest requested k plus ``WINDOW``, or all candidates.
    """

    search: NeighbourSearch
    start: int
    stop: int
    shifted: Tensor
    order: Tensor

    def settle(self, k: int) -> tuple[Tensor, Tensor]:
        """Rows whose first k entries of ``order`` may be wrong because of rounding, together with their exact k neighbours.

        Rounding changes a distance, and hence the k-th smallest one, by at most half of ``resolution``. Candidates whose distance differs
        from the k-th by more than ``resolution`` are therefore certainly in or out; the others are recomputed.

        Returns:
            rows (R,) relative to the block, members (R, k) candidate indices, not ordered by distance.
        """
        search, width = self.search, self.order.shape[1]
        if k >= search.candidates:  # all candidates are neighbours
            return self.order.new_empty(0), self.order[:0, :k]
        near = search.resolution[self.start : self.stop, None]
        rows = (self.shifted[:, k : k + 1] - self.shifted[:, k - 1 : k] <= near).flatten().nonzero().flatten()
        if len(rows) == 0:
            return rows, self.order[:0, :k]
        left, right = max(0, k - WINDOW), min(width, k + WINDOW)
        shifted, order = self.shifted[rows, left:right], self.order[rows, left:right]
        kth = self.shifted[rows, k - 1 : k]
        unclear = (shifted - kth).abs() <= near[rows]
        wide = (unclear[:, 0] & (left > 0)) | (unclear[:, -1] & (right < search.candidates))
        exact = torch.where(shifted < kth, -math.inf, math.inf).double()
        pair_row, pair_column = unclear.nonzero(as_tuple=True)
        exact[unclear] = search.measure(rows[pair_row] + self.start, order[pair_row, pair_column])
        order, by_index = order.sort(dim=1)
        chosen = nearest_of_row(exact.gather(1, by_index), k - left, search.tie[rows + self.start])
        members = self.order[rows, :k]
        members[:, left:] = order[chosen].view(len(rows), k - left)
        if bool(wide.any()):
            members[wide] = search.whole_rows(rows[wide] + self.start, k)
        return rows, members


class NeighbourSearch:
    """A search over fixed points: ``blocks`` iterates over the queries, ``Block.settle`` makes a block exact.

    Args: as in :func:`nearest`. Attributes: ``points`` and ``queries`` as given, ``candidates`` the largest allowed k.
    """

    def __init__(
        self,
        X: Features,
        *,
        queries: Features | None = None,
        include_self: bool = False,
        block: int | None = None,
    ) -> None:
        self.points = as_features(X)
        own = queries is None
        self.queries = self.points if queries is None else as_features(queries, "queries").to(self.points)
        for name, rows in (("X", self.points), ("queries", self.queries)):
            if rows.ndim != 2 or rows.shape[1] != self.points.shape[1]:
                raise ValueError(
                    f"{name} has shape {tuple(rows.shape)}; allowed: (n, {self.points.shape[-1]})"
                )
        if block is not None and (
            isinstance(block, bool) or not isinstance(block, numbers.Integral) or block < 1
        ):
            raise ValueError(f"block is {block!r}; allowed: at least 1 row, a whole number")
        self.block = block
        # value that replaces a row's distance to itself; None if rows and candidates are different points
        self.self_rule = (-math.inf if include_self else math.inf) if own else None
        self.candidates = max(0, len(self.points) - (own and not include_self))
        if self.candidates == 0:
            return
        # Centring minimises the norms and thereby the rounding error. Scaling by a power of two is exact and avoids overflow of the
        # squares. Both may be approximate, because near ties are resolved on the original features.
        mean = self.points.mean(dim=0)
        self.centre = torch.where(mean.isfinite(), mean, 0)
        # On the CPU the squared norms are a further column, so that the product adds them.
        self.table = self.points.new_empty(
            len(self.points), self.points.shape[1] + (self.points.device.type == "cpu")
        )
        self.ready = self.table[:, : self.points.shape[1]]
        torch.sub(self.points, self.centre, out=self.ready)
        self.ready_queries = self.ready if own else self.queries - self.centre
        different = [self.ready] if own else [self.ready, self.ready_queries]
        largest = max(float(side.abs()) for rows in different if len(rows) for side in rows.aminmax())
        limit = math.frexp(torch.finfo(self.points.dtype).max)[1] - 8
        self.scale = math.ldexp(1.0, min(limit, -math.frexp(largest)[1]))
        for rows in different:
            rows.mul_(self.scale)
        self.norms = torch.linalg.vector_norm(self.ready, dim=1).square()
        self.table[:, self.points.shape[1] :] = self.norms[:, None]
        size = torch.linalg.vector_norm(self.ready_queries, dim=1).double().square() + self.norms.amax()
        # twice the error bound of one distance: a dot product of d terms, the sums, the centring
        twice = (math.sqrt(self.points.shape[1]) + 8) * size
        self.tie = 2 * torch.finfo(torch.float64).eps * twice
        self.resolution = torch.finfo(self.points.dtype).eps * twice + self.tie

    def check(self, k: int) -> None:
        """Raise a TypeError or ValueError unless k is a whole number from 1 to ``candidates``."""
        if isinstance(k, bool) or not isinstance(k, numbers.Integral):
            raise TypeError(f"k is {k!r}; allowed: a whole number")
        if not 1 <= k <= self.candidates:
            own = " other than itself" if self.self_rule == math.inf else ""
            raise ValueError(f"k is {k}; allowed: 1 to {self.candidates}, the points{own} in the set")

    def blocks(self, k: int) -> Iterator[Block]:
        """The queries in blocks, each with its nearest candidates for any number of neighbours up to k."""
        width, item = min(k + WINDOW, self.candidates), self.points.element_size()
        votes = width * (item + 8) + k * 24
        streams = streamed_search.worthwhile(self.points, width)
        if streams:
            per_row = streamed_search.bytes_a_query(self.points.shape[1], width) + votes
            rows = self.block or max(1, min(BLOCK_BYTES // per_row, streamed_search.ROWS))
        else:
            rows = self.block or max(1, BLOCK_BYTES // (len(self.points) * item + votes))
            rows = min(rows, len(self.queries))
            # One buffer for all blocks, because allocating new pages takes longer than the computation.
            buffer = self.points.new_empty(rows, len(self.points))
        for start in range(0, len(self.queries), max(1, rows)):
            stop = min(start + rows, len(self.queries))
            if streams:
                found = streamed_search.streamed(
                    self.ready_queries[start:stop], self.table, width, start, self.self_rule
                )
                short = (found[1][:, -1] < 0).nonzero().flatten()
                self.search_again(start, short, *found)
            else:
                found = self.product(slice(start, stop), width, buffer[: stop - start])
            yield Block(self, start, stop, *found)

    def search_again(self, start: int, rows: Tensor, shifted: Tensor, order: Tensor) -> None:
        """Replace the candidates of some rows of a block that starts at query ``start``, by the distances to all points."""
        step = max(1, BLOCK_BYTES // (self.points.element_size() * len(self.points)))
        for some in rows.split(step):
            shifted[some], order[some] = self.product(some + start, order.shape[1])

    def product(self, rows: slice | Tensor, width: int, out: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Squared distances less ‖a‖² and indices of the ``width`` nearest candidates of query rows, by the distances to all points."""
        with plain_precision(self.points.device):
            distance = torch.addmm(self.norms, self.ready_queries[rows], self.ready.T, alpha=-2, out=out)
        if self.self_rule is not None:
            if isinstance(rows, slice):
                distance.diagonal(rows.start).fill_(self.self_rule)
            else:
                distance.scatter_(1, rows[:, None], self.self_rule)
        found = distance.topk(width, dim=1, largest=False)
        return found.values, found.indices

    def measure(self, rows: Tensor, columns: Tensor) -> Tensor:
        """Scaled squared distances of pairs (query row, candidate), by float64 differences."""
        squared = torch.empty(len(rows), dtype=torch.float64, device=rows.device)
        step = max(1, PAIRS_BYTES // (24 * max(1, self.points.shape[1])))
        for start in range(0, len(rows), step):
            part = slice(start, start + step)
            difference = self.queries[rows[part]].double().sub_(self.points[columns[part]])
            squared[part] = difference.mul_(self.scale).square_().sum(dim=1)
        return squared

    def whole_rows(self, rows: Tensor, k: int) -> Tensor:
        """The k neighbours of query rows, by float64 products with all points; used for large groups of near duplicates.

        Their rounding error is below the threshold of the tie rule.
        """
        members = torch.empty(len(rows), k, dtype=torch.int64, device=rows.device)
        points = (self.points.double() - self.centre).mul_(self.scale)
        norms = points.square().sum(dim=1)
        step = max(1, PAIRS_BYTES // (24 * len(self.points)))
        for start in range(0, len(rows), step):
            some = rows[start : start + step]
            query = (self.queries[some].double() - self.centre).mul_(self.scale)
            with plain_precision(rows.device):
                exact = torch.addmm(norms, query, points.T, alpha=-2)
            if self.self_rule is not None:
                exact.scatter_(1, some[:, None], self.self_rule)
            chosen = nearest_of_row(exact, k, self.tie[some])
            members[start : start + step] = chosen.nonzero()[:, 1].view(len(some), k)
        return members


@contextmanager
def plain_precision(device: torch.device) -> Iterator[None]:
    """Context without autocast, TF32 and gradients, so that distances are computed at full precision."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        with torch.no_grad(), torch.autocast(device.type, enabled=False):
            yield
    finally:
        torch.set_float32_matmul_precision(before)
