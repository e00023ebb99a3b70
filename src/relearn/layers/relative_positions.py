"""Sinusoidal encodings of distances, from which relative positions are computed."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def sinusoids(distances: Tensor, dim: int) -> Tensor:
    r"""Return the rows :math:`[\sin(t \omega_i)]_i, [\cos(t \omega_i)]_i` for distances t, (len(distances), dim).

    :math:`\omega_i = 10000^{-2i/D}`, i = 0 ... D/2 - 1 (Dai et al. 2019, "Transformer-XL", section 3.3); for an odd ``dim`` the last
    cosine is omitted. Angles are computed in float64; the result has the type of ``distances``.
    """
    steps = torch.arange(math.ceil(dim / 2), device=distances.device, dtype=torch.float64)
    angles = distances.double()[:, None] * torch.exp(steps * (-2 * math.log(10000.0) / dim))
    return torch.cat([angles.sin(), angles.cos()], 1)[:, :dim].to(distances.dtype)
