"""Deep k-NN with a FAISS index for the neighbour search: the exact flat index, or an approximate one.

No step of a study uses this module. FAISS is an optional dependency (``pip install 'relearn[faiss]'``), imported when a search starts.

``index="Flat"`` gives the results of :class:`~relearn.methods.deep_knn.DeepKNN`, ties included: FAISS proposes the candidates, and
where the k-th and (k+1)-th distances differ by less than its rounding error, the exact search decides. Any other index misses some
neighbours. How many depends on the features, so measure it on a sample with :func:`recall` before you rely on it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from relearn.methods.deep_knn import DeepKNN, agrees
from relearn.methods.detector import Features
from relearn.methods.neighbours import BLOCK_BYTES, WINDOW, Block, NeighbourSearch

BYTES_A_CANDIDATE = 40
"""FAISS's distance and id, our copies of both, and the masks between them."""


class FaissDeepKNN(DeepKNN):
    """Deep k-NN (:class:`~relearn.methods.deep_knn.DeepKNN`) on a FAISS index.

    Args:
        k, include_self, label_ties, block: as in ``DeepKNN``.
        index: a description for ``faiss.index_factory``, for example ``Flat`` (exact), ``IVF1024,Flat``, ``HNSW32`` or
            ``IVF4096,PQ64``. FAISS seeds the k-means of an IVF or PQ index, so its results are reproducible. The graph of an HNSW
            index depends on the number of threads that build it.
        parameters: search settings for ``faiss.ParameterSpace``, for example ``nprobe=32`` or ``efSearch=128``.

    Raises (from ``fit_predict`` and ``sweep``):
        ImportError: FAISS is not installed.
        ValueError: FAISS rejects the index or a parameter, or an error of ``DeepKNN``.
    """

    def __init__(
        self,
        k: int = 50,
        include_self: bool = False,
        label_ties: Literal["keep", "smallest"] = "keep",
        block: int | None = None,
        index: str = "Flat",
        parameters: str = "",
    ) -> None:
        super().__init__(k, include_self, label_ties, block)
        self.index = index
        self.parameters = parameters

    def _keep_for(self, X: Tensor, y: NDArray[np.int64], ks: Sequence[int]) -> NDArray[np.bool_]:
        if self.label_ties not in ("keep", "smallest"):
            raise ValueError(f"label_ties is {self.label_ties!r}; allowed: keep, smallest")
        search = FaissSearch(
            X,
            include_self=self.include_self,
            block=self.block,
            index=self.index,
            parameters=self.parameters,
        )
        labels = torch.from_numpy(y).to(X.device)
        return agrees(search, labels, labels, ks, self.label_ties).cpu().numpy()


class FaissSearch(NeighbourSearch):
    """A :class:`~relearn.methods.neighbours.NeighbourSearch` whose candidates come from a FAISS index.

    A query for which the index returns too few points is searched exactly.

    Args:
        X, queries, include_self, block: as in :func:`relearn.methods.neighbours.nearest`.
        index, parameters: as in :class:`FaissDeepKNN`.
    """

    def __init__(
        self,
        X: Features,
        *,
        queries: Features | None = None,
        include_self: bool = False,
        block: int | None = None,
        index: str = "Flat",
        parameters: str = "",
    ) -> None:
        faiss = _faiss()
        super().__init__(X, queries=queries, include_self=include_self, block=block)
        if self.candidates == 0:
            return
        # FAISS computes in float32 and adds ‖a‖². Twice the bound for a float32 product covers both roundings.
        self.resolution = 2 * (self.resolution - self.tie) + self.tie
        if self.points.dtype == torch.float64:
            coarser = torch.finfo(torch.float32).eps / torch.finfo(torch.float64).eps
            self.resolution = coarser * (self.resolution - self.tie) + self.tie
        self.index = _built(faiss, _numbers(self.ready), index, parameters)

    def blocks(self, k: int) -> Iterator[Block]:
        """The queries in blocks, each with the candidates returned by the index, nearest first."""
        width = min(k + WINDOW, self.candidates)
        rows = self.block or max(1, BLOCK_BYTES // (width * BYTES_A_CANDIDATE))
        for start in range(0, len(self.queries), rows):
            stop = min(start + rows, len(self.queries))
            yield Block(self, start, stop, *self._candidates(start, stop, width))

    def _candidates(self, start: int, stop: int, width: int) -> tuple[Tensor, Tensor]:
        """Squared distances and indices (stop - start, width) of the candidates of some queries."""
        wanted = width + (self.self_rule == math.inf)  # a point finds itself, which does not count
        found = self.index.search(_numbers(self.ready_queries[start:stop]), wanted)
        device = self.points.device
        shifted = torch.from_numpy(found[0]).to(device, self.points.dtype)
        order = torch.from_numpy(found[1]).to(device)
        if self.self_rule is not None:
            shifted, order = self._with_the_rule(start, shifted, order)
        short = (order < 0).any(dim=1).nonzero().flatten()
        self.search_again(start, short, shifted, order)
        return shifted, order

    def _with_the_rule(self, start: int, shifted: Tensor, order: Tensor) -> tuple[Tensor, Tensor]:
        """Remove each point from its own candidates; with ``include_self``, put it first instead."""
        row = torch.arange(start, start + len(order), device=order.device)[:, None]
        own = order == row
        own[:, -1] |= ~own.any(dim=1)  # a point lost among its duplicates: drop the last candidate
        others = (len(order), order.shape[1] - 1)
        shifted, order = shifted[~own].view(others), order[~own].view(others)
        if self.self_rule == math.inf:
            return shifted, order
        return torch.cat([torch.full_like(shifted[:, :1], -math.inf), shifted], 1), torch.cat([row, order], 1)


def recall(
    X: Features, k: int, queries: Features, *, index: str, parameters: str = "", block: int | None = None
) -> float:
    """Share of the queries' exact k nearest points that an index finds; ties follow the tie rule of ``neighbours``.

    Args:
        X: points (N, d).
        k: neighbours, 1 <= k <= N.
        queries: points (n, d), a sample of the queries of interest.
        index, parameters: as in :class:`FaissDeepKNN`.
        block: query rows at a time.

    Raises:
        ImportError: FAISS is not installed.
        ValueError: k out of range, wrong shapes, or an index that FAISS rejects.
    """
    quick = FaissSearch(X, queries=queries, block=block, index=index, parameters=parameters)
    return shared(quick, NeighbourSearch(X, queries=queries, block=block), k)


def shared(one: NeighbourSearch, other: NeighbourSearch, k: int) -> float:
    """Mean share of the k neighbours that two searches of the same queries have in common."""
    mine, theirs = members(one, k).sort(dim=1).values, members(other, k)
    place = torch.searchsorted(mine, theirs).clamp(max=k - 1)
    return (mine.gather(1, place) == theirs).double().mean().item()


def members(search: NeighbourSearch, k: int) -> Tensor:
    """The indices (n, k) of every query's k neighbours, in arbitrary order."""
    search.check(k)
    chosen = []
    for part in search.blocks(k):
        own = part.order[:, :k].clone()
        rows, settled = part.settle(k)
        own[rows] = settled
        chosen.append(own)
    return torch.cat(chosen)


def _built(faiss: Any, points: NDArray[np.float32], index: str, parameters: str) -> Any:
    """A trained index of the points."""
    try:
        built = faiss.index_factory(points.shape[1], index)
        built.train(points)
        built.add(points)
        if parameters:
            faiss.ParameterSpace().set_index_parameters(built, parameters)
    except RuntimeError as error:
        reason = str(error).strip().splitlines()[-1]
        raise ValueError(
            f"index is {index!r}, parameters {parameters!r}, for {len(points)} points of {points.shape[1]} numbers; "
            f"FAISS refuses them: {reason}"
        ) from None
    return built


def _numbers(rows: Tensor) -> NDArray[np.float32]:
    return np.ascontiguousarray(rows.float().cpu().numpy())


def _faiss() -> Any:
    try:
        import faiss
    except ImportError:
        raise ImportError("FaissDeepKNN needs FAISS: pip install 'relearn[faiss]'") from None
    return faiss
