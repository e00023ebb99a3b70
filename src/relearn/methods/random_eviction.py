"""Random point eviction: drop a uniformly random share of the training set, regardless of the features.

Zhu 2022, section 2.3.3: the control among the baselines for Deep k-NN (1% against feature collision, 10% against the convex polytope
attack).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from relearn.methods.detector import Detector, share_of


class RandomEviction(Detector):
    """Drop floor(fraction · n) of the n points; every subset of that size has the same probability.

    The draw depends on the seed, on n and, in a stack of sets, on the set's position (each set has its own random stream; a single set
    has stream 0), but never on X or y. There are no ties. An empty set stays empty.

    Differs from the paper: the paper does not state the rounding; here it is floor.

    Args:
        fraction: share of all points to drop, 0 <= fraction < 1.
        seed: seed of the random generator, a non-negative integer.
    """

    def __init__(self, fraction: float = 0.01, seed: int = 0) -> None:
        self.fraction = fraction
        self.seed = seed

    def _keep(self, X: Tensor, y: NDArray[np.int64], member: int) -> NDArray[np.bool_]:
        evicted = share_of(self.fraction, len(y))
        if isinstance(self.seed, bool) or not isinstance(self.seed, (int, np.integer)) or self.seed < 0:
            raise ValueError(f"seed is {self.seed!r}; allowed: an integer >= 0")
        stream = np.random.SeedSequence(int(self.seed), spawn_key=(member,))
        keep = np.ones(len(y), dtype=bool)
        keep[np.random.default_rng(stream).choice(len(y), evicted, replace=False)] = False
        return keep
