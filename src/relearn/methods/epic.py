r"""EPIC: drop the points that are isolated in gradient space (Yang, Liu & Mirzasoleiman, ICML 2022). Not in zhu2022.

A clean-label poison that works has a gradient near the target's, far from those of its own class. The publication therefore drops,
during training, the medoids that represent no other point.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from relearn.methods.detector import Detector, share_of

RATE = 2.0  # 1 / L: the Hessian of the mean loss is at most 1/2 for centred features of mean squared norm 1 and a bias


def standardised(X: Tensor) -> Tensor:
    """Centred features of mean squared norm 1, with a column of ones, float64: (n, d) → (n, d + 1). Equal rows stay equal: zeros."""
    points = X.double()
    centred = points - points.mean(dim=0)
    centred = centred - centred.mean(dim=0)  # twice, because the first mean is rounded
    size = centred.square().sum(dim=1).mean().sqrt()
    norm = torch.linalg.vector_norm(points, dim=1).max()
    error = 16 * torch.finfo(torch.float64).eps * (math.sqrt(X.shape[1]) + 8) * norm
    scaled = centred / size if size > error else torch.zeros_like(centred)
    return torch.cat([scaled, torch.ones_like(scaled[:, :1])], 1)


def residuals(points: Tensor, labels: Tensor, weight: Tensor) -> Tensor:
    """Gradients of each point's loss w.r.t. its logits, softmax - label: (n, d + 1), (n,), (C, d + 1) → (n, C)."""
    probabilities = (points @ weight.T).softmax(dim=1)
    return probabilities - torch.nn.functional.one_hot(labels, len(weight))


def medoids(distances: Tensor, count: int) -> Tensor:
    """Greedy facility location: at most ``count`` points that are near all points, in the order of their choice.

    Each step adds the point that lowers :math:`\\sum_i \\min_{j \\in S} d_{ij}` most; of equal ones (up to rounding) the smallest
    index. No point is added once all of them lie on chosen ones.

    Args:
        distances: (s, s).
    """
    tie = 1e-9 * distances.max() * len(distances)
    nearest = torch.full_like(distances[0], float(distances.max()))
    chosen: list[int] = []
    while len(chosen) < count:
        gains = (nearest[:, None] - distances).clamp(min=0).sum(dim=0)
        if chosen and gains.max() <= tie:
            break
        best = int((gains >= gains.max() - tie).nonzero()[0])
        chosen.append(best)
        nearest = torch.minimum(nearest, distances[best])
    return torch.tensor(chosen, dtype=torch.long, device=distances.device)


def isolated(distances: Tensor, count: int) -> Tensor:
    """The medoids that no other point is nearest to, (s,) bool; a point between two medoids belongs to the earlier one."""
    found = torch.zeros(len(distances), dtype=torch.bool, device=distances.device)
    chosen = medoids(distances, count)
    if len(chosen):
        to_chosen = distances[:, chosen]
        tie = 1e-9 * distances.max()
        owner = (to_chosen <= to_chosen.min(dim=1, keepdim=True).values + tie).int().argmax(dim=1)
        sizes = torch.bincount(owner, minlength=len(chosen))
        found[chosen] = sizes == 1
    return found


class Epic(Detector):
    r"""Train a head briefly, drop the isolated medoids of each class's gradients, and repeat on what is left.

    .. math:: g^{(j)} = \mathrm{softmax}(W \bar\phi^{(j)}) - e_{l(j)}, \qquad
              S_l \approx \arg\min_{|S| \le \lfloor \rho s_l \rfloor} \sum_{j : l(j) = l} \min_{i \in S} \|g^{(i)} - g^{(j)}\|, \qquad
              \text{drop } i \in S_l \text{ that is nearest to no other } j

    ======  ==================================================  ============  ===========
    symbol  meaning                                             code          shape
    ======  ==================================================  ============  ===========
    φ̄       features, centred and scaled, and a one             ``points``    (n, d + 1)
    W       head, trained for ``steps`` steps before each drop  ``weight``    (C, d + 1)
    g       gradient of the loss w.r.t. the logits              ``residuals`` (n, C)
    ρ       share of each class that becomes medoids            ``fraction``  ()
    s_l     points of class l that are left                     -             ()
    ======  ==================================================  ============  ===========

    ``rounds=1`` is a filter after one brief training; with more rounds the head goes on training on what is left. The defaults are
    the publication's for a frozen network: a fifth of each class, ten rounds. A class of fewer than 1/ρ points is kept. The minimum is
    found greedily. All computations are in float64 and draw no random numbers.

    Differs from the publication: the head starts at zero and takes full-batch gradient steps on scaled features, so that the
    result depends on the set alone; the number of medoids is rounded down, so that no class loses its only point; a greedy step
    weighs distances, not a similarity made of them; the victim is trained on what is left of all rounds, from its own start.

    Args:
        fraction: ρ, 0 <= fraction < 1.
        rounds: number of drops, at least 1.
        steps: gradient steps before each drop, at least 1.
    """

    def __init__(self, fraction: float = 0.2, rounds: int = 10, steps: int = 20) -> None:
        self.fraction = fraction
        self.rounds = rounds
        self.steps = steps

    def _keep(self, X: Tensor, y: NDArray[np.int64], member: int) -> NDArray[np.bool_]:
        share_of(self.fraction, 0)  # validates the parameter even for an empty set
        for name in ("rounds", "steps"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
                raise ValueError(f"{name} is {value!r}; allowed: an integer >= 1")
        keep = np.ones(len(y), dtype=bool)
        if len(y) == 0:
            return keep
        points, labels = standardised(X), torch.from_numpy(y).to(X.device)
        weight = points.new_zeros(int(y.max()) + 1, points.shape[1])
        for _ in range(self.rounds):
            left = torch.from_numpy(keep).to(X.device)
            own, classes = points[left], labels[left]
            for _ in range(self.steps):
                weight = weight - RATE / len(own) * residuals(own, classes, weight).T @ own
            gradients = residuals(points, labels, weight)
            for label in np.unique(y):
                rows = np.flatnonzero((y == label) & keep)
                own = gradients[rows]
                apart = torch.cdist(own, own, compute_mode="donot_use_mm_for_euclid_dist")
                drop = isolated(apart, share_of(self.fraction, len(rows)))
                keep[rows[drop.cpu().numpy()]] = False
        return keep
