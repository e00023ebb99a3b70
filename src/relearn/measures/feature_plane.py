r"""Two-dimensional view of features: the plane through two classes, for figure 2.10 of zhu2022.

The horizontal axis is the line through the two class centroids, so that moving from one class to the other is
horizontal; the vertical axis is the direction of largest variance of the remainder:

.. math:: u = \frac{m_b - m_a}{\lVert m_b - m_a\rVert}, \quad x_i = u \cdot (f_i - \tfrac12(m_a + m_b)), \quad
          y_i = v \cdot r_i, \quad r_i = (f_i - \bar f) - u\,u \cdot (f_i - \bar f),

where v is the first principal direction of the r. u and v are orthonormal, so distances in the
plane never exceed those in feature space. The paper's text contains neither the figure nor its construction; the
choice of plane is ours.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray


def project(features: ArrayLike, labels: ArrayLike, a: int, b: int) -> NDArray[np.float64]:
    """Return the coordinates (n, 2) of every point in the plane of classes a and b.

    Class a is on the left of 0 and class b on the right, with centroids equally far from 0. The sign of y is chosen
    such that v's entry of largest modulus is positive, so equal features give equal pictures.

    Args:
        features: (n, d), d at least 2.
        labels: (n,), of all points; points of other classes are projected too.
        a: the class on the left.
        b: the class on the right.

    Raises:
        ValueError: shapes that do not match, values that are not finite, a class without points, or two
            classes with the same centroid.
    """
    points = np.asarray(features, dtype=np.float64)
    classes = np.asarray(labels)
    if points.ndim != 2 or points.shape[1] < 2 or classes.shape != points.shape[:1]:
        shapes = f"features {points.shape}, labels {classes.shape}"
        raise ValueError(f"found {shapes}; allowed: (n, d) with d at least 2, and (n,)")
    if not np.isfinite(points).all():
        raise ValueError("features hold NaN or infinity; allowed: finite numbers")
    centroids = []
    for name in (a, b):
        if not (classes == name).any():
            raise ValueError(
                f"class {name} has no points; allowed: {', '.join(map(str, np.unique(classes)))}"
            )
        centroids.append(points[classes == name].mean(axis=0))
    across = centroids[1] - centroids[0]
    length = np.linalg.norm(across)
    if length == 0:
        raise ValueError(f"classes {a} and {b} have the same centroid; a line needs two points")
    across /= length
    x = (points - (centroids[0] + centroids[1]) / 2) @ across
    rest = points - points.mean(axis=0)
    rest -= np.outer(rest @ across, across)
    up = np.linalg.svd(rest, full_matrices=False)[2][0]
    up -= across * (across @ up)  # removes rounding, or an arbitrary direction if nothing is left
    size = np.linalg.norm(up)
    up = up / size if size > 0 else up
    if up[np.argmax(np.abs(up))] < 0:
        up = -up
    return np.column_stack([x, rest @ up])
