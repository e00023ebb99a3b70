r"""Distance awareness: whether a classifier's uncertainty grows with the distance from the data.

Liu et al. 2020 (SNGP, arXiv 2006.10108, definition 1) require a measure of predictive uncertainty to grow with the distance of a
point from the training data. Here a ray starts at each image, in one of two spaces:

.. math:: x_n(t) = x_n + t\, \sigma \odot u_n, \qquad u_n \sim N(0, I), \text{ scaled to } \|u_n\|_2 = \sqrt{d}

so that t counts standard deviations of the data per coordinate, and for scalar σ the point is t σ √d away from the start.

- **pixels**: x are images in [0, 1], σ is per channel. Points are not clipped to [0, 1], because clipped images lie in a box of
  bounded diameter. For large t these are no longer images.
- **features**: x is the input of the head, σ the root mean square over coordinates of their standard deviations over these
  images; only the head is evaluated. A Gaussian process on features is distance-aware in this space; only the rays in pixel space
  show the effect of the trunk.

Along each ray we measure the entropy of the prediction (mean field for a Gaussian-process head) and the head's variance. Far away
in feature space the logits of a dense head are proportional to t, so its entropy decreases; M random features are bounded, and
their phases become independent, so v tends to :math:`\mathrm{tr}(\Sigma) / M` on average, which is at most the prior variance
:math:`\|\Phi\|^2 / \tau` and falls with the number of training images.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from relearn.measures import ood

Outputs = Callable[[Tensor], tuple[Tensor, Tensor | None]]
"""Function from points (n, ...) to logits (n, C) and variances (n, 1 or C), or None without a variance."""


class Along(NamedTuple):
    """Means over the rays at one distance; ``max_share`` is the entropy divided by its maximum, log C."""

    distance: float
    entropy_nats: float
    max_share: float
    variance: float | None


def along_rays(
    outputs: Outputs, points: Tensor, scale: Tensor, distances: Sequence[float], *, seed: int
) -> list[Along]:
    """Return entropy and variance at each distance along one random ray per point.

    Args:
        outputs: the network, or its head alone: points → (logits, variance or None).
        points: (n, ...), the starts of the rays.
        scale: σ, broadcastable to one point.
        distances: t, ascending, not negative.
        seed: seed of the directions, which are the same for all distances.

    Raises:
        ValueError: no points or distances, distances that are not ascending or negative, or a scale that is not positive.
    """
    if not len(points) or not len(distances):
        raise ValueError(f"{len(points)} points, {len(distances)} distances (allowed: at least one of each)")
    if distances[0] < 0 or any(near >= far for near, far in pairwise(distances)):
        raise ValueError(f"distances: {list(distances)} (allowed: ascending, not below 0)")
    if not bool((scale > 0).all()):
        raise ValueError("scale: a coordinate does not vary (allowed: positive)")
    step = scale * directions(points, seed=seed)
    found = []
    for distance in distances:
        logits, variance = outputs(points + distance * step)
        nats = float(ood.entropy(logits).mean())
        spread = None if variance is None else float(variance.double().mean())
        most = float(torch.tensor(logits.shape[1], dtype=torch.float64).log())
        found.append(Along(float(distance), nats, nats / most, spread))
    return found


def directions(points: Tensor, *, seed: int) -> Tensor:
    """Return u_n with the points' shape, type and device; drawn on the CPU, so that it is the same on every device."""
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randn(points.shape, generator=generator, dtype=torch.float64)
    flat = drawn.flatten(1)
    drawn *= (flat.shape[1] ** 0.5 / flat.norm(dim=1)).reshape(-1, *[1] * (points.dim() - 1))
    return drawn.to(points)


def feature_scale(features: Tensor) -> Tensor:
    """Return σ of features (n, D): the square root of the mean over coordinates of their variances.

    Raises:
        ValueError: fewer than two points.
    """
    if len(features) < 2:
        raise ValueError(f"features: {len(features)} points (allowed: at least 2, for a spread)")
    return features.var(dim=0).mean().sqrt()


def rise(path: Sequence[Along]) -> float:
    """Return the entropy at the largest distance minus that at the smallest, in nats."""
    return path[-1].entropy_nats - path[0].entropy_nats


def monotone_share(path: Sequence[Along]) -> float:
    """Return the fraction of steps between consecutive distances at which the mean entropy does not decrease.

    Raises:
        ValueError: fewer than two distances.
    """
    if len(path) < 2:
        raise ValueError(f"{len(path)} distances (allowed: at least 2)")
    grows = [far.entropy_nats >= near.entropy_nats for near, far in pairwise(path)]
    return sum(grows) / len(grows)
