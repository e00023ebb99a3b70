r"""A linear SVM in the plane with two poisons that do or do not mislead it: figure 2.1 of zhu2022 with our own points.

Both panels have the same two classes and the same target. In the first, the two poisons are close to the target
(a small collision loss, eq. 2.2) on the side of their class; an SVM trained with them can still separate the target from them.
In the second they are further away, but the target is between them: every linear classifier
that assigns both to their class also assigns the target to it (proposition 1). The boundaries are computed by
training.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

#: points of the target's class and of the poisons' class, and the target
CLASS_A = np.array(
    [[-0.75, 0.15], [-0.9, -0.7], [-1.0, 0.8], [-1.5, 0.4], [-1.6, -0.5], [-2.0, 0.0], [-1.8, 1.0]]
)
CLASS_B = np.array([[0.9, -0.2], [1.0, 0.7], [1.1, -0.8], [1.5, 0.2], [1.7, -0.6], [2.0, 0.4], [1.8, 1.0]])
TARGET = np.array([-0.5, 0.0])
POISONS = {
    "feature_collision": np.array([[0.12, 0.2], [0.12, -0.2]]),
    "convex_polytope": np.array([[-0.5, 0.85], [-0.5, -0.85]]),
}
PENALTY = 1e4  # large, for a hard margin; the classes are separable
REACH = 2.4  # half the length of the drawn boundaries


def panels() -> list[dict[str, Any]]:
    """Return the rows of both panels: panel, kind, x, y.

    Kinds: ``class_a`` (the target's class), ``class_b`` (the poisons'), ``poison``, ``target``, and
    ``boundary_before`` and ``boundary_after`` with two points each, ordered such that the poisons' class is to the
    right when going from the first to the second.
    """
    rows = []
    for panel, poisons in POISONS.items():
        before = fit(CLASS_A, CLASS_B)
        after = fit(CLASS_A, np.vstack([CLASS_B, poisons]))
        groups = {"class_a": CLASS_A, "class_b": CLASS_B, "poison": poisons, "target": TARGET[None]}
        groups |= {"boundary_before": ends(*before), "boundary_after": ends(*after)}
        for kind, points in groups.items():
            rows += [{"panel": panel, "kind": kind, "x": float(x), "y": float(y)} for x, y in points]
    return rows


def fit(left: NDArray[np.float64], right: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
    """Return weights (2,) and offset of the maximum-margin classifier, positive on the right-hand class."""
    from sklearn.svm import SVC

    labels = np.r_[np.zeros(len(left)), np.ones(len(right))]
    machine = SVC(kernel="linear", C=PENALTY).fit(np.vstack([left, right]), labels)
    return machine.coef_[0], float(machine.intercept_[0])


def ends(weights: NDArray[np.float64], offset: float) -> NDArray[np.float64]:
    """Return two points (2, 2) of the line w.z + b = 0, at distance REACH from its point nearest to the origin.

    Raises:
        ValueError: weights of 0, which define no line.
    """
    norm = np.linalg.norm(weights)
    if norm == 0:
        raise ValueError("weights are 0; a boundary needs a direction")
    nearest = -offset * weights / norm**2
    along = np.array([-weights[1], weights[0]]) / norm  # w points to the right of this direction
    return np.stack([nearest - REACH * along, nearest + REACH * along])


def on_the_right(point: NDArray[np.float64], line: NDArray[np.float64]) -> bool:
    """Return whether a point is to the right of the direction of a line (2, 2) from ``ends``."""
    (dx, dy), (px, py) = line[1] - line[0], point - line[0]
    return bool(dx * py - dy * px < 0)
