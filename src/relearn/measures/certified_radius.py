r"""Certified radii: how far an image may move before a network with a known Lipschitz constant can change its answer.

Let f be the logits and L a bound on their Lipschitz constant in the 2-norm. If the answer c leads by the margin
m = f_c(x) - max_{j≠c} f_j(x), it stays the same for every change of the image by less than

.. math:: r = \frac{m}{\sqrt 2\, L}

because f_c - f_j changes by at most ‖e_c - e_j‖₂ L ‖δ‖ = √2 L ‖δ‖. If the last layer is linear with rows w_j and the part before
it has the bound K, the difference changes by at most ‖w_c - w_j‖ K ‖δ‖:

.. math:: r = \min_{j \neq c} \frac{f_c(x) - f_j(x)}{K\, \|w_c - w_j\|_2}

The second is never smaller if L = K ‖W‖₂, because ‖w_c - w_j‖ ≤ √2 ‖W‖₂. Both hold in exact arithmetic.

:func:`attack` tests certificates. It is projected gradient ascent on the lead of the best other class,

.. math:: \delta \leftarrow \Pi_{\|\delta\|_2 \le \rho}\Big(\delta + \eta \rho\, \frac{g}{\|g\|_2}\Big), \qquad
          g = \nabla_\delta \Big(\max_{j \ne c} f_j - f_c\Big)(x + \delta)

A certificate that is right survives every attack with ρ below its radius. The converse does not hold: an attack that fails proves nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn


def certified_radius(logits: Tensor, bound: float, weight: Tensor | None = None) -> Tensor:
    """Radius in the 2-norm within which the answer cannot change: logits (B, C) → (B,), in float64; 0 where they are not finite.

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
    finite, logits = logits.isfinite().all(dim=1), logits.double()  # in half precision quotients overflow
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
    return torch.where(finite, radius.scatter(1, best, torch.inf).amin(dim=1), 0.0)


def certified_accuracy(radius: Tensor, correct: Tensor, radii: Sequence[float]) -> list[float]:
    """Share of images that are classified correctly and whose radius exceeds each of these radii."""
    return [float((correct & (radius > one)).double().mean()) for one in radii]


def attack(
    network: nn.Module, images: Tensor, radius: Tensor | float, *, steps: int = 40, step: float = 0.25
) -> Tensor:
    """Changes δ of images (B, ...) within these radii ρ, a number or (B,), that the formula above finds from δ = 0.

    The images may leave the range of pixels, which only helps the attack. The answer c is that of the unchanged image.

    Args:
        network: in evaluation mode; images → logits (B, C).
        steps, step: number of steps and η.

    Raises:
        ValueError: a network in training mode, or a radius that is negative or not finite.
    """
    if network.training:
        raise ValueError("network: found training mode, allowed: eval()")
    away = [1] * (images.dim() - 1)
    limit = torch.as_tensor(radius, dtype=images.dtype, device=images.device)
    if not bool((limit.isfinite() & (limit >= 0)).all()):
        raise ValueError(
            f"radius: found {limit.min():g} to {limit.max():g}, allowed: finite numbers of at least 0"
        )
    limit = limit.expand(len(images)).view(-1, *away)
    with torch.no_grad():
        answer = network(images).argmax(1, keepdim=True)
    delta = torch.zeros_like(images)
    for _ in range(steps):
        delta.requires_grad_()
        with torch.enable_grad():
            logits = network(images + delta)
            lead = logits.scatter(1, answer, -torch.inf).amax(1) - logits.gather(1, answer)[:, 0]
            (slope,) = torch.autograd.grad(lead.sum(), delta)
        moved = delta.detach() + step * limit * slope / _size(slope, away)
        delta = moved * (limit / _size(moved, away)).clamp_max(1.0)
    return delta


def _size(delta: Tensor, away: Sequence[int]) -> Tensor:
    size = torch.linalg.vector_norm(delta.flatten(1), dim=1)
    return size.clamp_min(torch.finfo(delta.dtype).tiny).view(-1, *away)
