r"""A linear SVM in the plane that two poisons lead astray, or do not: figure 2.1 of zhu2022 with points of our own.

The same two classes and the same target in both panels. In the first the two poisons lie close to the target
(a small collision loss, eq. 2.2) on the side of their class; the SVM that is trained on them too can still
pass between. In the second they lie further away, but with the target between them: every linear classifier
that takes both for their class takes the target too (proposition 1). Which side the target is on is computed
by training, never stated.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

#: the target's class, the poisons' class, the target
CLASS_A = np.array(
    [[-0.75, 0.15], [-0.9, -0.7], [-1.0, 0.8], [-1.5, 0.4], [-1.6, -0.5], [-2.0, 0.0], [-1.8, 1.0]]
)
CLASS_B = np.array([[0.9, -0.2], [1.0, 0.7], [1.1, -0.8], [1.5, 0.2], [1.7, -0.6], [2.0, 0.4], [1.8, 1.0]])
TARGET = np.array([-0.5, 0.0])
POISONS = {
    "feature_collision": np.array([[0.12, 0.2], [0.12, -0.2]]),
    "convex_polytope": np.array([[-0.5, 0.85], [-0.5, -0.85]]),
}
PENALTY = 1e4  # large: a hard margin, the classes are separable
REACH = 2.4  # how far the boundaries are drawn, up and down


def panels() -> list[dict[str, Any]]:
    """The rows of both panels: panel, kind, x, y.

    Kinds: ``class_a`` (the target's class), ``class_b`` (the poisons'), ``poison``, ``target``, and
    ``boundary_before`` and ``boundary_after``, two points each, ordered so that the poisons' class lies on the
    right of the way from the first to the second.
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
    """Weights (2,) and offset of the widest-margin classifier, positive on the right-hand class."""
    from sklearn.svm import SVC

    labels = np.r_[np.zeros(len(left)), np.ones(len(right))]
    machine = SVC(kernel="linear", C=PENALTY).fit(np.vstack([left, right]), labels)
    return machine.coef_[0], float(machine.intercept_[0])


def ends(weights: NDArray[np.float64], offset: float) -> NDArray[np.float64]:
    """Two points (2, 2) of the line w.z + b = 0, REACH to both sides of its point nearest to the origin.

    Raises:
        ValueError: weights of 0, which have no line.
    """
    norm = np.linalg.norm(weights)
    if norm == 0:
        raise ValueError("weights are 0; a boundary needs a direction")
    nearest = -offset * weights / norm**2
    along = np.array([-weights[1], weights[0]]) / norm  # w points to the right of it
    return np.stack([nearest - REACH * along, nearest + REACH * along])


def on_the_right(point: NDArray[np.float64], line: NDArray[np.float64]) -> bool:
    """Whether a point lies to the right of the way along a line (2, 2) of ``ends``."""
    (dx, dy), (px, py) = line[1] - line[0], point - line[0]
    return bool(dx * py - dy * px < 0)
