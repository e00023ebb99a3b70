"""Sinusoids of distances, which relative positions are made of."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def sinusoids(distances: Tensor, dim: int) -> Tensor:
    r"""Rows :math:`[\sin(t \omega_i)]_i` beside :math:`[\cos(t \omega_i)]_i`, (len(distances), dim), for distances t.

    :math:`\omega_i = 10000^{-2i/D}`, i = 0 ... D/2 - 1 (Dai et al. 2019, "Transformer-XL", section 3.3); an odd ``dim`` lacks the last
    cosine. Angles are taken in float64, the result has the type of ``distances``.
    """
    steps = torch.arange(math.ceil(dim / 2), device=distances.device, dtype=torch.float64)
    angles = distances.double()[:, None] * torch.exp(steps * (-2 * math.log(10000.0) / dim))
    return torch.cat([angles.sin(), angles.cos()], 1)[:, :dim].to(distances.dtype)
