"""L2-norm outliers: drop the points farthest from the centroid of their class.

Zhu 2022, section 2.3.3 (a baseline for Deep k-NN). The idea is older than deep networks.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from relearn.methods.detector import Detector, nearest_of_row, share_of


def distances_to_centroid(X: Tensor) -> Tensor:
    """‖x⁽ʲ⁾ - c‖₂² where c is the mean of the rows: (s, d) → (s,), in float64."""
    points = X.double()
    centred = points - points.mean(dim=0)
    return (
        (centred - centred.mean(dim=0)).square().sum(dim=1)
    )  # centred twice, because the first mean is rounded


def rounding_of(distances: Tensor, X: Tensor) -> Tensor:
    """Bound on the float64 rounding error of the largest distance; distances closer than this are ties: (1,)."""
    size = torch.linalg.vector_norm(X.double(), dim=1).max() * distances.max().sqrt()
    return (2 * torch.finfo(torch.float64).eps * (math.sqrt(X.shape[1]) + 8) * size)[None]


class L2Outliers(Detector):
    r"""Per class, drop the share of points that lie farthest from the class centroid.

    .. math:: c_l = \frac{1}{s_l} \sum_{j : l(j) = l} \phi(x^{(j)}), \qquad
              \text{drop the } \lfloor \epsilon s_l \rfloor \text{ points of largest } \|\phi(x^{(j)}) - c_l\|

    ======  ==============================  ============  =======
    symbol  meaning                         code          shape
    ======  ==============================  ============  =======
    φ(x)    features                        ``X``         (n, d)
    ε       share to drop, of each class    ``fraction``  ()
    s_l     points in class l               -             ()
    ======  ==============================  ============  =======

    Ties: among equally distant points (up to float64 rounding) the one with the larger index is dropped first.
    A class of one point is its own centroid; it loses that point only with ``rounding="ceil"`` and a positive
    fraction. Distances are Euclidean and computed in float64 for any dtype of the features.

    Differs from the paper: ε is not stated there (the default 0.1 is ours: 5 poisons in a class of 50), and the rounding symbol
    is not legible in the text. The default is ``floor``; ``ceil`` is available.

    Args:
        fraction: share of each class to drop, 0 <= fraction < 1.
        rounding: ``floor`` or ``ceil`` of ε·s_l.
    """

    def __init__(self, fraction: float = 0.1, rounding: Literal["floor", "ceil"] = "floor") -> None:
        self.fraction = fraction
        self.rounding = rounding

    def _keep(self, X: Tensor, y: NDArray[np.int64], member: int) -> NDArray[np.bool_]:
        share_of(self.fraction, 0, self.rounding)  # validates the parameters even for an empty set
        keep = np.ones(len(y), dtype=bool)
        for label in np.unique(y):
            rows = np.flatnonzero(y == label)
            kept = len(rows) - share_of(self.fraction, len(rows), self.rounding)
            far = distances_to_centroid(X[rows])
            near = nearest_of_row(far[None], kept, rounding_of(far, X[rows]))[0] if kept else far < 0
            keep[rows] = near.cpu().numpy()
        return keep
