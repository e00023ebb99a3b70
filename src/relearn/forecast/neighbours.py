r"""Cost of Deep k-NN on internet-scale data: exact search over shards, and memory of an approximate index.

For each of N points, its k nearest neighbours among all N are searched. The points are split over G GPUs; each GPU stores one
shard and processes all queries in blocks of B rows; the G lists of k candidates are merged.

.. math::
    \text{operations} = 2 N^2 d, \qquad
    \text{bytes} = N^2 \cdot 4 \cdot 2 + \lceil N / B \rceil N d \cdot 4, \qquad
    \text{hours} = \frac{1}{3600\,G}\Bigl(\frac{\text{operations}}{P} + \frac{\text{bytes}}{W}\Bigr)

P and W are the rates of :mod:`relearn.forecast.machine`: assumed shares of published peaks. Products are in FP32, because the
exact search does not allow TF32. A block's distances are written once and read once by the top-k selection; the shard is read
once per block. Not included: features (a forward pass of every point), the merge, faults, and recomputation of near ties.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from relearn.forecast.machine import Machine

FLOAT = 4
"""Bytes of a number: the exact search computes in float32."""
ID = 8
"""Bytes of a point's number."""
USABLE = 0.8
"""Share of a device's memory that the shard may take; the rest holds a block's distances."""


@dataclass(frozen=True)
class Search:
    """Cost of an exact search over shards.

    Args:
        operations: floating point operations of all GPUs.
        moved: bytes that all GPUs read and write in their own memory.
        exchanged: bytes sent between GPUs: every query to every shard, and its candidates back.
        stored: bytes of all points.
        gpus: number of GPUs that hold the shards.
        hours: time of each GPU.
    """

    operations: float
    moved: float
    exchanged: float
    stored: float
    gpus: int
    hours: float

    @property
    def gpu_hours(self) -> float:
        """Total hours of all GPUs."""
        return self.gpus * self.hours


def exact(
    points: float,
    dimensions: int,
    k: int,
    machine: Machine,
    *,
    memory_gb: float = 80,
    gpus: int | None = None,
    block: int = 4096,
) -> Search:
    """Cost of an exact search for every point's neighbours.

    Args:
        points: N.
        dimensions: d, the dimension of a point.
        k: number of neighbours.
        machine: one GPU.
        memory_gb: memory of one GPU, in 1e9 bytes.
        gpus: number of GPUs; None: the fewest that hold all points.
        block: B, queries per block.

    Raises:
        ValueError: too few GPUs to hold all points.
    """
    stored = points * dimensions * FLOAT
    fewest = max(1, math.ceil(stored / (USABLE * memory_gb * 1e9)))
    used = fewest if gpus is None else gpus
    if used < fewest:
        raise ValueError(f"gpus: found {used}, allowed: at least {fewest}, which hold {stored / 1e12:.3g} TB")
    operations = 2 * points**2 * dimensions
    moved = 2 * points**2 * FLOAT + math.ceil(points / block) * stored
    exchanged = used * points * (dimensions * FLOAT + k * (FLOAT + ID))
    seconds = operations / machine.products + moved / machine.bandwidth
    return Search(operations, moved, exchanged, stored, used, seconds / used / 3600)


@dataclass(frozen=True)
class Index:
    """An IVF-PQ index: its size, and what a search reads.

    Args:
        stored: bytes of codes, ids, list centres and code book.
        read: bytes of codes scanned by all queries together.
        visited: number of points that one query is compared with.
    """

    stored: float
    read: float
    visited: float


def inverted_lists(points: float, dimensions: int, *, code: int, lists: int, probes: int) -> Index:
    """An index with ``code`` bytes per point in ``lists`` lists of equal length, of which a query reads ``probes``.

    The model does not predict its recall, which depends on the features.

    Args:
        points: N; every point is also a query.
        dimensions: d.
        code: bytes of a point's code; the raw vectors of ``IVF,Flat`` are codes of 4 d bytes.
        lists, probes: as above.

    Raises:
        ValueError: probes outside 1 to ``lists``.
    """
    if not 1 <= probes <= lists:
        raise ValueError(f"probes: found {probes}, allowed: 1 to {lists}, the lists")
    book = 256 * dimensions * FLOAT  # 256 entries for every byte of the code, each with d / code numbers
    stored = points * (code + ID) + lists * dimensions * FLOAT + book
    visited = points * probes / lists
    return Index(stored, points * visited * code, visited)
