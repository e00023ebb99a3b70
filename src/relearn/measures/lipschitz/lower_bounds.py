r"""Lower bounds on the Lipschitz constant of L2 attention at D = H = 1, from inputs with few distinct points.

With weights 1 (kim2020, figures 2 and 7) a row of L2 attention is :math:`F_i = \sum_j P_{ij} x_j`,
:math:`P_{ij} \propto e^{-(x_i - x_j)^2}`, and

.. math:: J_{ij} = P_{ij} + 2 P_{ij} (x_j - \mu_i)(x_i - x_j) + 2 \delta_{ij}\, \mathrm{Var}_i, \qquad
          \mu_i = \sum_k P_{ik} x_k, \quad \mathrm{Var}_i = \sum_k P_{ik} (x_k - \mu_i)^2

Tokens at the same point have the same row, so the norm of J needs only one row per point, however many tokens there are.

The construction: one token at 0 and all others at two points on either side, about half of them at each (kim2020, lemma F.2: the
bound's maximum has :math:`x_j^2 = 1 + c(N)`). Its row sum is :math:`4c + 1 - 2c/(1+c)`, up to the rounding of (N - 1)/2 and the
adjustment of the points, so the factor 4 of theorem 3.2 cannot be reduced (errata, K1). For p = two, the token at 0 alone
gives about :math:`2c`.

Other weights at D = H = 1 scale the input by :math:`|w^Q|` and multiply the norm by :math:`(w^Q)^2 |w^V w^O|`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Construction:
    """An input and the norm of the Jacobian at it.

    Attributes:
        value: ‖J(x)‖_p, exact.
        points, counts: the distinct points and the number of tokens at each.
    """

    value: float
    points: tuple[float, ...]
    counts: tuple[int, ...]

    @property
    def inputs(self) -> Tensor:
        """Return x (N, 1), float64."""
        points = torch.tensor(self.points, dtype=torch.float64)
        return points.repeat_interleave(torch.tensor(self.counts)).unsqueeze(1)


def clustered_norm(points: Sequence[float], counts: Sequence[int], p: str = "inf") -> float:
    r"""Return ‖J‖_p of L2 attention (D = H = 1, weights 1) for ``counts[k]`` tokens at ``points[k]``, at the cost of one token each.

    On vectors that are constant on each point, J is a matrix with one row per point, in an orthonormal basis
    :math:`\sqrt{m_k m_l}\, E_{kl} + 2 \delta_{kl} \mathrm{Var}_k` with E the terms above without δ; on vectors supported at one point
    with sum 0 it is :math:`2 \mathrm{Var}_k`, which the matrix has on its diagonal, plus :math:`P_{kk} > 0`.

    Raises:
        ValueError: lists of different lengths, a count below 1, or an unknown p.
    """
    if p not in ("inf", "two"):
        raise ValueError(f"p: {p!r} (allowed: inf, two)")
    if len(points) != len(counts) or not counts or min(counts) < 1:
        raise ValueError(
            f"points {list(points)}, counts {list(counts)} (allowed: as many of each, counts >= 1)"
        )
    x = torch.tensor(points, dtype=torch.float64)
    m = torch.tensor(counts, dtype=torch.float64)
    gap = x[:, None] - x
    weights = (m.log() - gap.square()).softmax(1)  # summed over all tokens at a point
    mean = weights @ x
    variance = (weights * (x - mean[:, None]).square()).sum(1)
    each = weights / m  # P of a single token
    entries = each + 2 * each * (x - mean[:, None]) * gap
    if p == "inf":
        return float(
            ((m * entries.abs()).sum(1) + 2 * variance).max()
        )  # E_ii = P_ii is not negative, so its modulus is itself
    whole = entries * (m[:, None] * m).sqrt() + (2 * variance).diag()
    return float(torch.linalg.matrix_norm(whole, 2))


def two_point(length: int, p: str = "inf") -> Construction:
    """Place one token at 0 and the others at two points, optimised to maximise the norm of J.

    Args:
        length: N, at least 2.
        p: "inf" or "two".

    Raises:
        ValueError: fewer than 2 tokens, or an unknown p.
    """
    if length < 2:
        raise ValueError(f"length: {length} (allowed: at least 2 tokens)")
    from scipy.optimize import minimize

    from relearn.maths.lambert import covariance_bound

    reach = math.sqrt(1 + covariance_bound(length))
    few = (length - 1) // 2
    counts = (1, length - 1) if few == 0 else (1, length - 1 - few, few)
    found = minimize(
        lambda places: -clustered_norm([0.0, *places], counts, p),
        [reach, -reach][: len(counts) - 1],
        method="Nelder-Mead",
        options={"xatol": 1e-7, "fatol": 1e-11, "maxiter": 2000},
    )
    return Construction(-float(found.fun), (0.0, *map(float, found.x)), counts)
