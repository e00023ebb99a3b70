"""The inverse of c ↦ c e^(c+1) by Lambert's W function; it bounds the covariance in L2 self-attention."""

from __future__ import annotations

import math


def phi(c: float) -> float:
    r"""φ(c) = c e^{c+1}, increasing on c ≥ 0 (kim2020, theorem 3.2).

    Raises:
        ValueError: c is negative or not finite.
    """
    return c * math.exp(_non_negative("c", c) + 1)


def phi_inverse(y: float) -> float:
    r"""Return the c ≥ 0 with φ(c) = y, from the principal branch of Lambert's W at y/e.

    .. math:: \varphi^{-1}(y) = W_0(y / e), \qquad \varphi^{-1}(0) = 0

    Where the paper needs φ⁻¹(N - 1), it gives W_0(N/e), which is φ⁻¹(N) and too large (errata, K2).

    Raises:
        ValueError: y is negative or not finite.
    """
    if _non_negative("y", y) == 0:
        return 0.0
    # Plain arithmetic, because torch.compile cannot trace scipy's lambertw; it takes the logarithm's argument as a constant.
    log_z = math.log(y) - 1
    c = math.log1p(math.exp(log_z))
    for _ in range(6):  # Halley's method for c = z exp(-c); six steps reach the last bits from any z
        f = c - math.exp(log_z - c)
        c -= f / (c + 1 - (c + 2) * f / (2 * c + 2))
    return c


def covariance_bound(length: int) -> float:
    r"""c(N) = φ⁻¹(N - 1), at most log N: the largest Σ_j P_j z_j² of a row of L2 attention that sees itself.

    .. math:: c(N) = \max_{z \in \mathbb{R}^{N-1}} \frac{\sum_j z_j^2 e^{-z_j^2}}{1 + \sum_j e^{-z_j^2}}

    The row's own key has z = 0; the maximum is attained if every other z_j² = 1 + c (kim2020, lemma F.2).
    Hence the trace of the covariance of the keys under the row's probabilities is at most c(N).

    Args:
        length: N, the number of keys that the row sees, including its own.

    Raises:
        ValueError: length is not an integer of at least 1.
    """
    return phi_inverse(whole_length(length) - 1)


def whole_length(length: int, name: str = "length") -> int:
    """Return ``length`` as an int; ValueError if it is not an integer of at least 1."""
    if isinstance(length, bool) or length != length // 1 or length < 1:
        raise ValueError(f"{name} is {length!r}: a whole number of tokens, at least 1, is needed")
    return int(length)


def _non_negative(name: str, value: float) -> float:
    if not 0 <= value < math.inf:
        raise ValueError(f"{name} is {value!r}: a finite number, at least 0, is needed")
    return value
