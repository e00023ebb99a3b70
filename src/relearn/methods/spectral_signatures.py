r"""Spectral signatures: drop the points with the largest component along their class's first principal direction.

Tran, Li, Madry, "Spectral Signatures in Backdoor Attacks", NeurIPS 2018, algorithm 1. Not in zhu2022. It was made for backdoors;
clean-label poisons share no trigger, so it need not find them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from relearn.methods.detector import Detector, centred_svd, nearest_of_row, share_of


def spectral_scores(X: Tensor) -> tuple[Tensor, Tensor]:
    """Squared components of the centred rows along the top singular direction, (s,), and their rounding error, (1,).

    Singular values that are equal up to rounding span one space; a row's score is then its squared norm in that space, so that it
    does not depend on the basis that the decomposition picks.
    """
    left, sizes, error = centred_svd(X)
    top = sizes >= sizes[:1] - error
    scores = (left[:, top] * sizes[top]).square().sum(dim=1)
    return scores, (error * (scores.max().sqrt() + error))[None]


class SpectralSignatures(Detector):
    r"""Per class, drop the share of points with the largest spectral score.

    .. math:: M_l = \big[\phi(x^{(j)}) - c_l\big]_{j : l(j) = l}, \qquad
              \tau^{(j)} = \big((\phi(x^{(j)}) - c_l)^\top v_l\big)^2, \qquad
              \text{drop the } \lfloor \rho\, s_l \rfloor \text{ points of largest } \tau

    ======  ======================================  ============  ========
    symbol  meaning                                 code          shape
    ======  ======================================  ============  ========
    φ(x)    features                                ``X``         (n, d)
    c_l     mean of the class's features            -             (d,)
    v_l     top right singular vector of M_l        -             (d,)
    ρ       share to drop, of each class            ``fraction``  ()
    s_l     points in class l                       -             ()
    ======  ======================================  ============  ========

    Ties: among points with equal scores (up to float64 rounding) the one with the larger index is dropped first. All
    computations are in float64.

    The publication drops 1.5 ε s_l points, where ε bounds the share of poisons. The default is that number for 5 poisons among 50
    images, ε = 0.1.

    Args:
        fraction: share of each class to drop, 0 <= fraction < 1.
    """

    def __init__(self, fraction: float = 0.15) -> None:
        self.fraction = fraction

    def _keep(self, X: Tensor, y: NDArray[np.int64], member: int) -> NDArray[np.bool_]:
        share_of(self.fraction, 0)  # validates the parameter even for an empty set
        keep = np.ones(len(y), dtype=bool)
        for label in np.unique(y):
            rows = np.flatnonzero(y == label)
            kept = len(rows) - share_of(self.fraction, len(rows))
            scores, tie = spectral_scores(X[rows])
            near = nearest_of_row(scores[None], kept, tie)[0] if kept else scores < 0
            keep[rows] = near.cpu().numpy()
        return keep
