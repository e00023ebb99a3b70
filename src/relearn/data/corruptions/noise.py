"""Noise, independent for every value. x: (n, C, H, W) in [0, 1]; the constants are in ``severities``."""

from __future__ import annotations

import numpy as np

from relearn.data.corruptions.draws import Draws, Floats


def gaussian(x: Floats, std: float, draws: Draws, scale: float) -> Floats:
    """x + σ·N(0, 1), as in low light."""
    return x + np.float32(std) * draws.normal(*x.shape[1:])


def shot(x: Floats, photons: float, draws: Draws, scale: float) -> Floats:
    """Poisson(c·x) / c: photon noise with c photons for a white pixel; variance x/c."""
    return draws.poisson(x * np.float32(photons)) / np.float32(photons)


def impulse(x: Floats, amount: float, draws: Draws, scale: float) -> Floats:
    """Salt-and-pepper noise: a fraction of the values becomes 1 or 0, half of it each."""
    u = draws.uniform(*x.shape[1:])
    return np.where(u < amount / 2, np.float32(0), np.where(u >= 1 - amount / 2, np.float32(1), x))
