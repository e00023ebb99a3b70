r"""Proposition 1 of zhu2022 as a linear program: a target outside the poisons' convex hull can be separated from them.

The proposition: every linear classifier that assigns all poison features p_j to the attacker's class also assigns the
target t to it, if and only if t is a convex combination of the p_j. In the paper the assignment is strict:
the class's score exceeds every other. With many classes the region of a class is an intersection of
half-spaces, so it suffices to consider two classes: z is in the class iff w·z + b > 0.

A *separator* contradicts the first statement: w·p_j + b > 0 for all j, but w·t + b ≤ 0. By subtraction, it exists iff

.. math:: \exists w: \quad w \cdot (p_j - t) > 0 \quad \text{for all } j .

(Given such a w with smallest margin s > 0, the offset b = -w·t - s/2 gives the poisons scores of at least s/2 and
the target -s/2, so it does not matter whether the target's side includes the boundary.) By Gordan's theorem no such w exists
iff some c ≥ 0, Σ c = 1 satisfies Σ c_j (p_j - t) = 0, which is the second statement.

Errata. The proof uses f(z) = (u - t)·(z - u), where u is the point of the hull nearest to t. It states that a derivative
*is* zero where only ≥ 0 holds (Z1, harmless), and that f classifies the poisons strictly, although f = 0 for
those on the face that contains u (Z2). Shifting f by ‖u - t‖²/2 repairs this: the poisons get at least ‖u - t‖²/2 > 0 and
the target -‖u - t‖²/2 < 0.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from relearn.maths.simplex import simplex_least_squares

TOLERANCE = 1e-7


def separator_exists(
    poisons: Tensor, target: Tensor, *, tolerance: float = TOLERANCE, reduce: bool = True
) -> bool:
    r"""Return whether some linear classifier has all poisons strictly on one side and the target not on that side.

    Solves the linear program max s subject to w·(p_j - t) ≥ s, |w_i| ≤ 1, with points scaled to a largest
    distance ‖p_j - t‖ of 1. Its optimum is the distance of t from the hull (dual norm), 0 inside.

    Only the component of w in the span of the k differences matters, so the differences are first replaced by their
    coordinates in an orthonormal basis of that span (QR): k × k instead of k × d numbers with the same
    result.

    Args:
        poisons: (k, d).
        target: (d,).
        tolerance: a target whose distance to the hull is below this fraction of the cloud's size counts as inside; the
            float64 rounding of a target computed as a convex combination is 1e-16 of it.
        reduce: False solves the program in all d dimensions (for tests).

    Raises:
        ValueError: shapes that do not match, NaN or infinity.
        RuntimeError: the solver fails.
    """
    from scipy.optimize import linprog

    if poisons.ndim != 2 or len(poisons) < 1 or target.shape != poisons.shape[1:]:
        raise ValueError(
            f"poisons {tuple(poisons.shape)} and target {tuple(target.shape)} do not fit: (k, d) and (d,)"
        )
    if not (torch.isfinite(poisons).all() and torch.isfinite(target).all()):
        raise ValueError("poisons or target hold NaN or infinity; finite features are needed")
    differences = (poisons.double() - target.double()).cpu().numpy()
    size = np.linalg.norm(differences, axis=1).max()
    if size == 0:
        return False  # all poisons equal the target
    differences = differences / size
    if reduce:
        differences = np.linalg.qr(differences.T)[1].T
    k, d = differences.shape
    found = linprog(
        c=np.r_[np.zeros(d), -1.0],
        A_ub=np.c_[-differences, np.ones(k)],
        b_ub=np.zeros(k),
        bounds=[(-1, 1)] * d + [(0, None)],
        method="highs",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    if found.status != 0:
        raise RuntimeError(f"linear program not solved: {found.message}")
    return bool(-found.fun > tolerance)


def nearest_point_classifier(
    poisons: Tensor, target: Tensor, *, shifted: bool = True
) -> tuple[Tensor, Tensor]:
    """Return the proof's classifier z ↦ w·z + b from the hull's nearest point u, as (w (d,), b ()), in float64.

    w = u - t and b = -w·u, plus ‖u - t‖²/2 if shifted (erratum Z2).
    """
    poisons, target = poisons.double(), target.double()
    nearest = simplex_least_squares(poisons, target, tolerance=1e-12) @ poisons
    w = nearest - target
    b = -w @ nearest
    return w, b + 0.5 * w @ w if shifted else b


def check_proposition(
    dimension: int = 2048, poisons: int = 5, problems: int = 50, seed: int = 0
) -> dict[str, int]:
    """Count separators for random targets inside and outside the hull of random poison features.

    Poison features are standard normal. A target inside is a random convex combination. A target outside is on the ray from
    the mean through the poison that is extreme in a random direction, beyond that poison; every second one is moved
    further in the random direction. The others are in the poisons' affine hull, so no extra coordinate separates
    them. The proposition holds if inside_separators_count is 0 and outside_separators_count is
    outside_count.

    Args:
        dimension: dimension of the features.
        poisons: number of poisons.
        problems: number of targets on each side.
        seed: seed of poisons and targets.

    Returns:
        inside_count, inside_separators_count, outside_count, outside_separators_count (by linear program),
        outside_constructed_count (the proof's classifier, shifted, separates) and outside_printed_count (the
        printed, unshifted classifier separates: see Z2).

    Raises:
        ValueError: an argument below 1.
    """
    if min(dimension, poisons, problems) < 1:
        raise ValueError(f"dimension {dimension}, poisons {poisons}, problems {problems}: must be at least 1")
    generator = torch.Generator().manual_seed(seed)
    inside = outside = constructed = printed = 0
    for problem in range(problems):
        cloud = _normal(generator, poisons, dimension)
        c = torch.softmax(_normal(generator, poisons), 0)
        inside += separator_exists(cloud, c @ cloud)

        direction = _normal(generator, dimension)
        extreme, mean = cloud[(cloud @ direction).argmax()], cloud.mean(0)
        target = mean + 1.5 * (extreme - mean)  # direction·target > direction·p for every poison p
        if problem % 2 or poisons == 1:
            target = target + direction
        outside += separator_exists(cloud, target)
        constructed += _separates(*nearest_point_classifier(cloud, target), cloud, target)
        printed += _separates(*nearest_point_classifier(cloud, target, shifted=False), cloud, target)
    return {
        "inside_count": problems,
        "inside_separators_count": inside,
        "outside_count": problems,
        "outside_separators_count": outside,
        "outside_constructed_count": constructed,
        "outside_printed_count": printed,
    }


def _separates(w: Tensor, b: Tensor, poisons: Tensor, target: Tensor) -> bool:
    rounding = 1e-9 * (w @ w)  # the printed classifier gives some poisons 0 up to rounding
    return bool((poisons @ w + b > rounding).all() and target @ w + b <= 0)


def _normal(generator: torch.Generator, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=generator, dtype=torch.float64)
