r"""What Deep k-NN would cost at the size of the internet: the exact search over shards, and the memory of an approximate index.

Every one of N points asks for its k nearest among all N. The points are split over G GPUs; each GPU keeps one shard and sees all
queries, in blocks of B rows, and the G lists of k candidates are merged.

.. math::
    \text{operations} = 2 N^2 d, \qquad
    \text{bytes} = N^2 \cdot 4 \cdot 2 + \lceil N / B \rceil N d \cdot 4, \qquad
    \text{hours} = \frac{1}{3600\,G}\Bigl(\frac{\text{operations}}{P} + \frac{\text{bytes}}{W}\Bigr)

P and W are the rates of :mod:`relearn.forecast.machine`: assumed shares of published peaks, and the product is FP32 because the exact
search allows no TF32. A block's distances are written once and read once by the selection of the nearest; the shard is read once a block.
Left out: features (a forward pass of every point), the merge, faults, and the recomputed near ties.
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
    """What an exact search over shards takes.

    Args:
        operations: floating point operations of all GPUs.
        moved: bytes that all GPUs read and write in their own memory.
        exchanged: bytes between GPUs: every query to every shard, its candidates back.
        stored: bytes of all points.
        gpus: that hold the shards.
        hours: of each GPU.
    """

    operations: float
    moved: float
    exchanged: float
    stored: float
    gpus: int
    hours: float

    @property
    def gpu_hours(self) -> float:
        """Hours of all GPUs."""
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
    """An exact search of every point's neighbours.

    Args:
        points: N.
        dimensions: d, numbers of a point.
        k: neighbours.
        machine: one GPU.
        memory_gb: of one GPU, 1e9 bytes.
        gpus: how many there are; None: as few as hold all points.
        block: B, queries at a time.

    Raises:
        ValueError: fewer GPUs than hold all points.
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
    """An IVF-PQ index: what it stores, and what its search reads.

    Args:
        stored: bytes of codes, ids, list centres and code book.
        read: bytes of codes that all queries scan.
        visited: points that one query compares itself with.
    """

    stored: float
    read: float
    visited: float


def inverted_lists(points: float, dimensions: int, *, code: int, lists: int, probes: int) -> Index:
    """An index that keeps ``code`` bytes a point in ``lists`` lists of equal length, of which a query reads ``probes``.

    Its recall is no result of this model: it depends on the features.

    Args:
        points: N; every point is a query as well.
        dimensions: d.
        code: bytes of a point's code; the raw vectors of ``IVF,Flat`` are a code of 4 d bytes.
        lists, probes: as above.

    Raises:
        ValueError: more probes than lists.
    """
    if not 1 <= probes <= lists:
        raise ValueError(f"probes: found {probes}, allowed: 1 to {lists}, the lists")
    book = 256 * dimensions * FLOAT  # 256 entries for every byte of the code, each of d / code numbers
    stored = points * (code + ID) + lists * dimensions * FLOAT + book
    visited = points * probes / lists
    return Index(stored, points * visited * code, visited)
