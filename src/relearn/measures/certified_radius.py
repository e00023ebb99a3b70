r"""Certified radii: how far an image may move before a network with a known Lipschitz constant can change its answer.

Let f be the logits and L a bound on their Lipschitz constant in the 2-norm. If the answer c leads by the margin
m = f_c(x) - max_{j≠c} f_j(x), it stays the same for every change of the image by less than

.. math:: r = \frac{m}{\sqrt 2\, L}

because f_c - f_j changes by at most ‖e_c - e_j‖₂ L ‖δ‖ = √2 L ‖δ‖. If the last layer is linear with rows w_j and the part before
it has the bound K, the difference changes by at most ‖w_c - w_j‖ K ‖δ‖:

.. math:: r = \min_{j \neq c} \frac{f_c(x) - f_j(x)}{K\, \|w_c - w_j\|_2}

The second is never smaller if L = K ‖W‖₂, because ‖w_c - w_j‖ ≤ √2 ‖W‖₂. Both hold in exact arithmetic.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def certified_radius(logits: Tensor, bound: float, weight: Tensor | None = None) -> Tensor:
    """Radius in the 2-norm within which the answer cannot change: logits (B, C) → (B,), in their dtype.

    Args:
        logits: f(x).
        bound: L of the whole network; with ``weight`` K of the part before the last layer.
        weight: rows w_j of the linear last layer, (C, d).

    Raises:
        ValueError: a bound that is not positive, fewer than two classes, or a weight of another number of rows.
    """
    if not bound > 0:
        raise ValueError(f"bound: found {bound}, allowed: a positive number")
    if logits.dim() != 2 or logits.shape[1] < 2:
        raise ValueError(f"logits: found shape {tuple(logits.shape)}, allowed: (B, C) with C >= 2")
    best = logits.argmax(dim=1, keepdim=True)
    lead = logits.gather(1, best) - logits
    if weight is None:
        slope = torch.full_like(lead, 2**0.5)
    else:
        if len(weight) != logits.shape[1]:
            raise ValueError(f"weight: found {len(weight)} rows, allowed: {logits.shape[1]}, one a class")
        rows = weight.detach().to(logits)
        slope = torch.linalg.vector_norm(rows[best.squeeze(1)][:, None] - rows[None], dim=2)
    # two classes with equal rows never change places, unless they are level already
    radius = torch.where(slope > 0, lead / (bound * slope), torch.where(lead > 0, torch.inf, 0.0))
    return radius.scatter(1, best, torch.inf).amin(dim=1)


def certified_accuracy(radius: Tensor, correct: Tensor, radii: Sequence[float]) -> list[float]:
    """Share of images that are classified correctly and whose radius exceeds each of these radii."""
    return [float((correct & (radius > one)).double().mean()) for one in radii]
