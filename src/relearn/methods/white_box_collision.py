r"""White-box feature collision (zhu2022, eq. 2.1), with optional watermark (section 2.3.3).

.. math:: x_p = \arg\min_x \|x - x_b\|_2^2 + \mu \|\phi(x) - \phi(x_t)\|_2^2
          \quad\text{s.t.}\quad \|x - x_b\|_\infty \le \varepsilon, \qquad
          x_b \leftarrow \gamma x_t + (1 - \gamma) x_b

======  ============================================  ===============  ================
symbol  meaning                                       code             shape
======  ============================================  ===============  ================
x       poisons, pixels in [0, 1]                     ``poisons[1]``   (T, k, C, H, W)
x_b     bases, with the watermark                     ``self.bases``   (T, k, C, H, W)
φ(x)    features of the poisons                       ``poisons[0]``   (T, k, d)
φ(x_t)  features of the target                        ``target[0]``    (T, d)
μ       weight of the collision                       ``mu``           ()
γ       opacity of the target's watermark on a base   ``watermark``    ()
======  ============================================  ===============  ================

Each poison collides separately: k poisons are k attacks on the same target. The only substitute is the victim.

The equation has no ball constraint. Here the images are constrained to a ball around the watermarked base, where the optimisation
starts; ``eps=1`` gives the equation alone. The watermark is meant to be visible and does not count towards ε: the change from the clean
base is up to ε + γ |x_t - x_b|. The watermarked base is rounded to 8 bits, so that poisons can be 8-bit images; ``Crafted.bases``
holds the centres of the balls.

μ is not stated in the text. The default is 4 · (pixels of an image / features)², the rule of the attack's authors (Shafahi et al.,
NeurIPS 2018) translated to this equation, times ``mu_multiple``. Differs from them: they minimise by forward-backward splitting (a
gradient step on the collision, then a proximal step on the distance); zhu2022 names no solver. Here Adam minimises both terms, as in
all other attacks, so that ε, learning rate, iterations, history and checkpoints have the same meaning.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from relearn.methods import crafting


class Collision(crafting.Objective):
    """Eq. 2.1, summed over a target's poisons; bases (T, k, C, H, W)."""

    def __init__(self, bases: Tensor, mu: float | None = None, mu_multiple: float = 1.0) -> None:
        self.bases, self.mu, self.mu_multiple = bases, mu, mu_multiple

    def read(self, net: nn.Module, poisons: Tensor) -> crafting.Reading:
        return [*super().read(net, poisons), poisons]

    def loss(
        self, poisons: crafting.Reading, target: crafting.Reading, last: Tensor | None
    ) -> tuple[Tensor, None]:
        features, images = poisons
        mu = self.mu
        if mu is None:
            mu = self.mu_multiple * 4 * (images[0, 0].numel() / features.shape[-1]) ** 2
        distance = (images - self.bases).square().flatten(1).sum(1)
        collision = (features - target[0].unsqueeze(1)).square().flatten(1).sum(1)
        return distance + mu * collision, None

    def part(self, part: slice) -> Collision:
        return Collision(self.bases[part], self.mu, self.mu_multiple)


def add_watermark(bases: Tensor, targets: Tensor, opacity: float) -> Tensor:
    """γ x_t + (1 - γ) x_b as 8-bit images: bases (..., k, C, H, W), targets (T, C, H, W) → (T, k, C, H, W).

    Without a watermark (γ = 0) the bases are returned as they are.

    Raises:
        ValueError: an opacity outside [0, 1).
    """
    if not 0 <= opacity < 1:
        raise ValueError(f"watermark is {opacity}; allowed: 0 <= watermark < 1")
    bases = bases.expand(len(targets), *bases.shape[-4:])
    if not opacity:
        return bases
    return torch.round(255 * (opacity * targets.unsqueeze(1) + (1 - opacity) * bases)) / 255


def craft(
    substitutes: Iterable[nn.Module],
    bases: Tensor,
    targets: Tensor,
    *,
    mu: float | None = None,
    mu_multiple: float = 1.0,
    watermark: float = 0.0,
    dropout: bool = False,
    **options: Any,
) -> crafting.Crafted:
    """Craft against one known network, by default without dropout.

    `mu` and `watermark` as above, and `mu_multiple` if `mu` is None; other arguments, defaults and errors as in
    :func:`relearn.methods.crafting.craft`.

    Raises:
        ValueError: more than one network, a `mu` or `mu_multiple` that is not positive, a `watermark` outside [0, 1).
    """
    substitutes = crafting.checked(substitutes, bases, targets)
    if len(substitutes) != 1:
        raise ValueError(f"substitutes: {len(substitutes)} networks; allowed: one, whose weights are known")
    for name, weight in (("mu", mu), ("mu_multiple", mu_multiple)):
        if weight is not None and not weight > 0:
            raise ValueError(f"{name} is {weight}; allowed: a positive number")
    bases = add_watermark(bases, targets, watermark)
    attack = Collision(bases, mu, mu_multiple)
    return crafting.craft(attack, substitutes, bases, targets, dropout=dropout, **options)
