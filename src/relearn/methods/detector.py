"""Base class of the defences: the interface of scikit-learn's outlier detectors, without importing scikit-learn.

A defence is a class whose constructor only stores its arguments and whose ``fit_predict(X, y)`` returns 1 (keep) or -1 (drop) for
every training point. ``get_params``, ``set_params`` and ``sklearn.base.clone`` work. The base class validates the inputs for all
defences and applies each of them to a stack of training sets (one per target).
"""

from __future__ import annotations

import inspect
import math
from fractions import Fraction
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

Features = Tensor | NDArray[Any]
Labels = Tensor | ArrayLike


class Detector:
    """Base of the defences.

    A subclass implements ``__init__`` (which only stores its arguments) and ``_keep(X, y, member)``. X is a finite float tensor (n, d) on
    the caller's device, y holds the labels as codes 0..C-1 in ascending order of the labels, and ``member`` is the position of the set in
    a stack (0 for a single set). ``_keep`` returns a bool array (n,), True = keep.
    """

    _estimator_type = "outlier_detector"

    def _keep(self, X: Tensor, y: NDArray[np.int64], member: int) -> NDArray[np.bool_]:
        raise NotImplementedError

    def fit_predict(self, X: Features, y: Labels) -> NDArray[np.int64]:
        """Decide which training points to keep.

        Args:
            X: features (n, d), or a stack of sets (T, n, d); a torch tensor on any device, or numpy.
            y: labels (n,), or (T, n) if the sets of a stack have their own labels; any sortable values.

        Returns:
            numpy int64 array (n,) or (T, n): 1 keep, -1 drop.

        Raises:
            ValueError: wrong shapes, features that are not finite (the message names the rows), or a parameter out of range.
        """
        features = as_features(X)
        labels = as_labels(y, features)
        if features.ndim == 2:
            return signs(self._keep(features, labels, 0))
        kept = [self._keep(one, own, member) for member, (one, own) in enumerate(zip(features, labels))]
        return signs(np.stack(kept)) if kept else np.empty(features.shape[:2], dtype=np.int64)

    @classmethod
    def _names(cls) -> list[str]:
        return sorted(name for name in inspect.signature(cls).parameters)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The constructor's arguments by name; ``deep`` is ignored (scikit-learn's interface)."""
        return {name: getattr(self, name) for name in self._names()}

    def set_params(self, **params: Any) -> Detector:
        """Set constructor arguments by name.

        Raises:
            ValueError: a name that the constructor does not have.
        """
        names = self._names()
        for name, value in params.items():
            if name not in names:
                raise ValueError(
                    f"{type(self).__name__} has no parameter {name!r}; allowed: {', '.join(names)}"
                )
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={value!r}" for name, value in self.get_params().items())
        return f"{type(self).__name__}({values})"


def signs(keep: NDArray[np.bool_]) -> NDArray[np.int64]:
    """True → 1 (keep), False → -1 (drop)."""
    return np.where(keep, 1, -1).astype(np.int64)


def as_features(X: Features, name: str = "X") -> Tensor:
    """A detached float tensor on the caller's device; half precision and integers are widened.

    Raises:
        ValueError: complex, not 2-D or 3-D, or not finite (naming the rows).
    """
    if isinstance(X, Tensor):
        features = X.detach()
    else:
        array = np.asarray(X)
        # torch warns about read-only memory, so such arrays are copied
        features = torch.from_numpy(np.require(array, requirements=["C", "W"]))
    if features.is_complex():
        raise ValueError(f"{name} has dtype {features.dtype}; allowed: real numbers")
    if features.dtype in (torch.float16, torch.bfloat16):
        features = features.float()
    elif not features.is_floating_point():
        features = features.double()
    if features.ndim not in (2, 3) or features.shape[-1] == 0:
        shape = tuple(features.shape)
        raise ValueError(f"{name} has shape {shape}; allowed: (n, d) or a stack (T, n, d), with d >= 1")
    if not bool(features.sum().isfinite()):  # one cheap pass; a finite sum has no infinite term
        rows = (~features.isfinite().all(dim=-1)).nonzero()
        if len(rows) == 0:
            return features
        found = ", ".join(str(row[0]) if len(row) == 1 else str(tuple(row)) for row in rows[:5].tolist())
        more = "" if len(rows) <= 5 else f" and {len(rows) - 5} more"
        raise ValueError(
            f"{name} has NaN or infinite features in rows {found}{more}; all features must be finite"
        )
    return features


def as_labels(y: Labels, features: Tensor) -> NDArray[np.int64]:
    """Labels as codes 0..C-1 (ascending), with the shape of the features without their last axis.

    Raises:
        ValueError: the number of labels differs from the number of points, or a label is NaN.
    """
    labels = y.detach().cpu().numpy() if isinstance(y, Tensor) else np.asarray(y)
    wanted = tuple(features.shape[:-1])
    if labels.shape != wanted and labels.shape != wanted[-1:]:
        also = f" or {wanted[-1:]}" if len(wanted) == 2 else ""
        raise ValueError(
            f"y has shape {labels.shape}, X {tuple(features.shape)}; allowed for y: {wanted}{also}"
        )
    if (labels != labels).any():
        raise ValueError("y has NaN labels; every point needs a label")
    codes = np.unique(labels, return_inverse=True)[1].reshape(labels.shape)
    return np.broadcast_to(codes, wanted).astype(np.int64)


def share_of(fraction: float, count: int, rounding: Literal["floor", "ceil"] = "floor") -> int:
    """``fraction`` of ``count`` points, rounded to a whole number.

    The decimal notation counts, not its binary approximation: 0.29 of 100 is 29, although 0.29 * 100 is 28.999999999999996 in
    floating point.

    Raises:
        ValueError: fraction outside [0, 1) or an unknown rounding.
    """
    if not 0 <= fraction < 1:
        raise ValueError(f"fraction is {fraction}; allowed: 0 <= fraction < 1")
    if rounding not in ("floor", "ceil"):
        raise ValueError(f"rounding is {rounding!r}; allowed: floor, ceil")
    exact = Fraction(str(float(fraction))) * count
    return math.floor(exact) if rounding == "floor" else math.ceil(exact)


def centred_svd(X: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Left singular vectors and singular values of the centred rows, in float64, and the rounding error of the values."""
    points = X.double()
    centred = points - points.mean(dim=0)
    centred = centred - centred.mean(dim=0)  # twice, because the first mean is rounded
    left, sizes, _ = torch.linalg.svd(centred, full_matrices=False)
    norm = torch.linalg.vector_norm(points, dim=1).max()
    eps = 16 * torch.finfo(torch.float64).eps * (math.sqrt(X.shape[1]) + 8)
    return left, sizes, eps * norm * math.sqrt(len(X))


def nearest_of_row(distance: Tensor, k: int, tie: Tensor) -> Tensor:
    """Mask of the k nearest candidates of every row, with exactly k True per row; ties go to the smaller index.

    Args:
        distance: (R, M), with columns in ascending order of the candidates' indices; the k-th smallest is finite.
        k: 1 <= k <= M.
        tie: (R,) distances that differ by at most this much are ties.
    """
    # not kthvalue, which has no deterministic CUDA implementation
    kth, tie = distance.topk(k, dim=1, largest=False).values[:, -1:], tie[:, None]
    surely = distance < kth - tie
    tied = (distance - kth).abs() <= tie
    return surely | (tied & (tied.cumsum(dim=1) <= k - surely.sum(dim=1, keepdim=True)))
