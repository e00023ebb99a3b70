r"""Adaptive convex polytope: an attack that knows Deep k-NN. Not in zhu2022.

.. math:: \min_{\{x_p^{(j)}\}} \sum_{i=1}^m \Big( r^{(i)} + \frac{\lambda}{k} \sum_{j=1}^k \max(0, s_j^{(i)} + \mu)^2 \Big), \qquad
          s_j = \frac{\|\phi(x_p^{(j)}) - \phi(x_b^{(j)})\|^2 - \|\phi(x_p^{(j)}) - \phi(x_t)\|^2}{\|\phi(x_b^{(j)}) - \phi(x_t)\|^2}

======  ================================================  ===============  ========
symbol  meaning                                           code             shape
======  ================================================  ===============  ========
r       term of convex polytope (zhu2022, eq. 2.3)        ``polytope``     (…)
φ(x_p)  features of the poisons, substitute i             ``features``     (…, k, d)
φ(x_b)  features of their bases                           ``bases``        (…, k, d)
φ(x_t)  features of the target                            ``target``       (…, d)
s       side of a poison: -1 at its base, 1 at the target ``sides``        (…, k)
λ       weight of staying on the own side                 ``weight``       ()
μ       margin, a share of the way to the middle          ``margin``       ()
======  ================================================  ===============  ========

Deep k-NN removes an image whose nearest neighbours have other labels (zhu2022, section 2.3). The numerator of s is linear in
φ(x_p): s < 0 means that the poison is closer to its own base than to the target. Its neighbours are then those of its base, as far
as a class is a ball around its images, and the defence has no reason to remove it. The target can still lie between the poisons:
only their convex combination has to reach it, which none of them alone does.

Because s is linear in each poison, the coefficients of a convex combination that equals the target give
:math:`\sum_j c_j s_j = 1` for a common base. So not all poisons can stay on their side (all s < 0) and surround the target exactly:
the attack trades the one for the other, by λ. For bases that differ this holds up to the spread of the bases.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from relearn.methods import crafting


def sides(features: Tensor, bases: Tensor, target: Tensor) -> Tensor:
    """s: features (..., k, d), bases (..., k, d), target (..., d) → (..., k); -1 for a base with the target's features."""
    way = target.unsqueeze(-2) - bases
    # ‖p-b‖² - ‖p-t‖² = 2 (p-b)·(t-b) - ‖t-b‖², without the cancellation of two large distances
    length = way.square().sum(-1)
    return 2 * ((features - bases) * way).sum(-1) / length.clamp(min=torch.finfo(length.dtype).tiny) - 1


def penalty(features: Tensor, bases: Tensor, target: Tensor, margin: float) -> Tensor:
    """Mean over the poisons of max(0, s + μ)²: (...)."""
    return (sides(features, bases, target) + margin).clamp(min=0).square().mean(-1)


class Adaptive(crafting.Objective):
    """The objective; bases (T, k, C, H, W), or (1, k, C, H, W) for all targets."""

    def __init__(self, bases: Tensor, weight: float, margin: float) -> None:
        self.bases, self.weight, self.margin = bases, weight, margin

    def read_target(self, net: nn.Module, targets: Tensor) -> crafting.Reading:
        found = self.layers(net, torch.cat([targets, self.bases.flatten(0, 1)]))[0]
        bases = found[len(targets) :].unflatten(0, self.bases.shape[:2])
        return [found[: len(targets)], bases.expand(len(targets), *bases.shape[1:])]

    def part(self, part: slice) -> Adaptive:
        return self if len(self.bases) == 1 else Adaptive(self.bases[part], self.weight, self.margin)

    def loss(
        self, poisons: crafting.Reading, target: crafting.Reading, last: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        coefficients = crafting.convex_coefficients(poisons[0], target[0], last)
        polytope = 0.5 * crafting.relative_residual(poisons[0], target[0], coefficients)
        away = penalty(poisons[0], target[1], target[0], self.margin)
        return polytope + self.weight * away, coefficients


def craft(
    substitutes: Iterable[nn.Module],
    bases: Tensor,
    targets: Tensor,
    *,
    weight: float = 1.0,
    margin: float = 0.0,
    **options: Any,
) -> crafting.Crafted:
    """Craft poisons that surround the target and stay on their own side.

    `weight` and `margin` as above; other arguments, defaults and errors as in :func:`relearn.methods.crafting.craft`. With
    ``weight=0`` it is convex polytope.

    Raises:
        ValueError: a negative weight, or a margin outside [0, 1].
    """
    if weight < 0:
        raise ValueError(f"weight is {weight}; allowed: 0 or more")
    if not 0 <= margin <= 1:
        raise ValueError(f"margin is {margin}; allowed: 0 to 1")
    substitutes = crafting.checked(substitutes, bases, targets)
    centres = bases.reshape(-1, *bases.shape[-4:])
    if all(torch.equal(one, centres[0]) for one in centres):
        centres = centres[:1]  # read once for all targets
    return crafting.craft(Adaptive(centres, weight, margin), substitutes, bases, targets, **options)
