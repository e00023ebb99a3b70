r"""Activation clustering: split each class into two clusters and drop the smaller one if it is small enough.

Chen et al., "Detecting Backdoor Attacks on Deep Neural Networks by Activation Clustering", SafeAI at AAAI 2019. Not in zhu2022. Like
spectral signatures it was made for backdoors.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from relearn.methods.detector import Detector, centred_svd

ROUNDS = 100


def principal_components(X: Tensor, count: int) -> Tensor:
    """The centred rows in their first principal directions: (s, d) → (s, min(count, s, d)), in float64.

    Directions whose singular value is zero up to rounding are zero, so that equal rows stay equal.
    """
    left, sizes, error = centred_svd(X)
    found = left * torch.where(sizes > error, sizes, 0.0)
    return found[:, :count]


def two_means(points: Tensor) -> Tensor:
    """Which of two clusters each row belongs to, (s,) bool: Lloyd's algorithm from the two rows that are farthest along the first axis.

    Points as near to one centre as to the other join the first cluster, that of the smallest first coordinate. Rows that are all
    equal form one cluster.
    """
    axis = points[:, 0]
    centres = torch.stack([points[axis.argmin()], points[axis.argmax()]])
    second = torch.zeros(len(points), dtype=torch.bool, device=points.device)
    for _ in range(ROUNDS):
        far = (points[:, None] - centres).square().sum(dim=2)
        found = far[:, 1] < far[:, 0]
        if bool((found == second).all()):
            break
        second = found
        if bool(second.all()) or not bool(second.any()):
            break
        centres = torch.stack([points[~second].mean(dim=0), points[second].mean(dim=0)])
    return second


class ActivationClustering(Detector):
    r"""Per class, drop the smaller of two clusters of the features if its share is below a threshold.

    .. math:: z^{(j)} = P_l\,(\phi(x^{(j)}) - c_l), \qquad
              \{A_l, B_l\} = \text{2-means of } \{z^{(j)}\}_{l(j) = l}, \quad |B_l| \le |A_l|, \qquad
              \text{drop } B_l \text{ if } |B_l| < \theta s_l

    ======  ===============================================  =================  ========
    symbol  meaning                                          code               shape
    ======  ===============================================  =================  ========
    φ(x)    features                                         ``X``              (n, d)
    P_l     projection on the first principal directions     ``components``     (q, d)
    θ       share below which a cluster is dropped           ``threshold``      ()
    s_l     points in class l                                -                  ()
    ======  ===============================================  =================  ========

    Of two clusters of equal size none is dropped. A class of fewer than three points is kept. All computations are in float64 and
    draw no random numbers.

    Differs from the publication: principal instead of independent components, and 2-means from one fixed start instead of several
    random ones. Of its three rules for a suspicious cluster this is the one by relative size; 0.35 is its threshold.

    Args:
        components: number of principal directions q, at least 1.
        threshold: θ, 0 < threshold <= 0.5.
    """

    def __init__(self, components: int = 10, threshold: float = 0.35) -> None:
        self.components = components
        self.threshold = threshold

    def _keep(self, X: Tensor, y: NDArray[np.int64], member: int) -> NDArray[np.bool_]:
        if (
            isinstance(self.components, bool)
            or not isinstance(self.components, (int, np.integer))
            or self.components < 1
        ):
            raise ValueError(f"components is {self.components!r}; allowed: an integer >= 1")
        if not 0 < self.threshold <= 0.5:
            raise ValueError(f"threshold is {self.threshold}; allowed: 0 < threshold <= 0.5")
        keep = np.ones(len(y), dtype=bool)
        for label in np.unique(y):
            rows = np.flatnonzero(y == label)
            second = two_means(principal_components(X[rows], int(self.components))).cpu().numpy()
            smaller = second if second.sum() <= len(rows) - second.sum() else ~second
            if smaller.sum() < self.threshold * len(rows):
                keep[rows[smaller]] = False
        return keep
