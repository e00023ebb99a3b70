"""One-class SVM filter: per class, drop the outliers of a one-class SVM with RBF kernel.

Zhu 2022, section 2.3.3 (a baseline for Deep k-NN); Schölkopf et al. 2001 for the one-class SVM itself.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from relearn.methods.detector import Detector


class OneClassSVMFilter(Detector):
    r"""Per class l, fit a one-class SVM on φ(x) of that class alone and drop the points outside its boundary.

    .. math:: \text{drop } x \iff \sum_j \alpha_j \exp(-\gamma \|\phi(x^{(j)}) - \phi(x)\|_2^2) - \rho < 0

    This uses scikit-learn's ``OneClassSVM`` (libsvm, RBF kernel) on the raw features, without standardisation. ν bounds the share of
    training points outside the boundary only up to the solver's tolerance (1e-3). Points on the boundary have decision values within
    this tolerance of zero and fall on either side. In high dimensions nearly all points are support vectors, so many
    more than ν·s_l points are dropped. This is a property of the plain method and is not corrected here. A point with a decision value of
    exactly zero is kept.

    A class of one point, or of identical points, is kept whole. libsvm receives the points in the caller's order and is deterministic for
    a given order.

    Differs from the paper: the paper states the kernel and 0.01 (the symbol is not legible; it is read as ν), but not γ. Here γ is
    scikit-learn's default ``scale`` = 1 / (d · Var[φ]).

    Args:
        nu: 0 < ν < 1 (at 1 every point is outside the boundary, and ρ is undefined).
        gamma: ``scale``, ``auto`` (1/d) or a positive number.
    """

    def __init__(self, nu: float = 0.01, gamma: float | Literal["scale", "auto"] = "scale") -> None:
        self.nu = nu
        self.gamma = gamma

    def _keep(self, X: Tensor, y: NDArray[np.int64], member: int) -> NDArray[np.bool_]:
        if not 0 < self.nu < 1:
            raise ValueError(f"nu is {self.nu}; allowed: 0 < nu < 1")
        if self.gamma not in ("scale", "auto") and (isinstance(self.gamma, str) or not self.gamma > 0):
            raise ValueError(f"gamma is {self.gamma!r}; allowed: scale, auto or a number > 0")
        from sklearn.svm import OneClassSVM  # slow to import, and no other defence needs it

        points = X.cpu().double().numpy()
        keep = np.ones(len(y), dtype=bool)
        for label in np.unique(y):
            rows = np.flatnonzero(y == label)
            own = points[rows]
            if (own == own[0]).all():  # one point, or all the same
                continue
            svm = OneClassSVM(kernel="rbf", nu=self.nu, gamma=self.gamma)
            svm.random_state = 0  # not used by the solver, but drawn from numpy's global state if unset
            keep[rows] = svm.fit_predict(own) == 1
        return keep
