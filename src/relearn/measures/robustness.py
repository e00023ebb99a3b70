r"""Robust accuracy of a classifier for several ε, with checks that distinguish a strong defence from masked gradients.

Robust accuracy at ε is the fraction of images that the network classifies correctly and for which the attack finds no misclassified
point in the ε-ball. It is an upper bound of the true value, and only as good as the attack. A network with masked gradients (rounded,
saturated, random) makes a gradient attack look weak. So each number is reported with checks, after Athalye et al. 2018 (arXiv 1802.00420,
section 3), Carlini et al. 2019 (arXiv 1902.06705, section 5) and the flags of AutoAttack (Croce & Hein 2020):

===================  =====================================================================  ==================
check                value                                                                  passes if
===================  =====================================================================  ==================
repeatable           fraction of images whose prediction changes in a second pass           ≤ 0
gradient_exists      fraction of images whose input gradient is exactly zero                ≤ 0.01
loss_rises           smallest rise of the attack's mean loss over all ε, start to end, nats  > 0
loss_converged       fraction of the rise in the last quarter of the steps                  ≤ 0.25
stronger_attack      accuracy lost to twice the steps from new starts                       ≤ 0.02
noise_is_weaker      fraction of images broken by random noise but not by the attack        ≤ 0.01
monotone_in_eps      largest fraction of images broken at one ε but not at the next larger  ≤ 0.02
unbounded_wins       accuracy at ε = 1, where every image can become any other              ≤ 0.02
===================  =====================================================================  ==================

loss_converged, stronger_attack and noise_is_weaker are computed at a single ε: the one whose robust accuracy is closest to half of the
clean accuracy (the smallest in case of ties), where a weak attack is most visible. Passing is no proof of robustness; failing means
that the number cannot be trusted. The attack's step is 2.5 ε / steps (Madry et al. 2018), which is enough to cross the ball.

The attack is an argument (:func:`relearn.methods.pgd.pgd` with all arguments bound except those of :class:`Attack`), so other
attacks can be measured in the same way.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

STEP = 2.5  # step size in units of ε / steps
UNBOUNDED = 1.0
LIMITS = {
    "repeatable": 0.0,
    "gradient_exists": 0.01,
    "loss_rises": 0.0,
    "loss_converged": 0.25,
    "stronger_attack": 0.02,
    "noise_is_weaker": 0.01,
    "monotone_in_eps": 0.02,
    "unbounded_wins": 0.02,
}


class Attack(Protocol):
    """Attacks a fixed set of images; the result has ``fooled`` (n,) and ``loss_curves`` (restarts, steps + 1)."""

    def __call__(self, *, eps: float, step_size: float, steps: int, restarts: int, seed: int) -> Any: ...


@dataclass(frozen=True)
class Check:
    """One check: its value, its limit, and whether it passed."""

    name: str
    value: float
    limit: float
    passed: bool

    def __str__(self) -> str:
        verdict = "passed" if self.passed else "FAILED"
        sign = ">" if self.name == "loss_rises" else "at most"
        return f"{self.name} {verdict}: {self.value:.4g}, allowed {sign} {self.limit:g}"


@dataclass(frozen=True)
class Robustness:
    """Result of :func:`robustness`; accuracies are fractions of the n images."""

    eps: tuple[float, ...]
    accuracy: tuple[float, ...]
    """Robust accuracy at each ε."""
    clean_accuracy: float
    noise_accuracy: float
    """Accuracy under the worst of ``steps`` draws of uniform noise, at ``checked_eps``."""
    unbounded_accuracy: float
    checked_eps: float
    curves: dict[float, Tensor]
    """Mean losses in nats, (restarts, steps + 1), for each ε."""
    checks: tuple[Check, ...]
    count: int

    @property
    def masked(self) -> bool:
        """Whether a check failed, so that the accuracies may reflect a weak attack instead of a robust network."""
        return not all(check.passed for check in self.checks)

    def metrics(self) -> dict[str, float]:
        """Return all metrics for the record, named with their units; an ε in a name is in 255ths of the pixel range."""
        named = {f"pgd_accuracy_{_name(eps)}_frac": value for eps, value in zip(self.eps, self.accuracy)}
        units = {"loss_rises": "nats"}
        values = {f"check_{c.name}_{units.get(c.name, 'frac')}": c.value for c in self.checks}
        return {
            **named,
            "pgd_clean_accuracy_frac": self.clean_accuracy,
            "pgd_noise_accuracy_frac": self.noise_accuracy,
            "pgd_checked_eps_frac": self.checked_eps,
            **values,
            "masked_gradient_flags_count": float(sum(not check.passed for check in self.checks)),
            "pgd_count": float(self.count),
        }


def robustness(
    attack: Attack,
    logits: Callable[[Tensor], Tensor],
    images: Tensor,
    labels: Tensor,
    *,
    eps: Sequence[float],
    steps: int,
    restarts: int,
    seed: int = 0,
    batch: int | None = None,
) -> Robustness:
    """Return the robust accuracy at every ε and the results of the checks.

    Args:
        attack: attacks these images, see :class:`Attack`.
        logits: the network in eval mode, differentiable: pixels in [0, 1] → (B, C).
        images: (n, C, H, W) float in [0, 1], on the network's device.
        labels: (n,).
        eps: radii in [0,1] pixel scale, ascending.
        steps, restarts: parameters of the attack.
        seed: seed of attack starts and noise.
        batch: number of images processed at once outside the attack.

    Raises:
        ValueError: no ε, not ascending, or not in (0, 1]; no steps or restarts.
    """
    if not eps or list(eps) != sorted(set(eps)) or not 0 < eps[0] <= eps[-1] <= 1:
        raise ValueError(f"eps is {list(eps)}; allowed: ascending, in (0, 1], [0,1] pixel scale")
    if steps < 1 or restarts < 1:
        raise ValueError(f"steps is {steps}, restarts {restarts}; allowed: at least 1")
    clean, changed, vanished = _clean(logits, images, labels, batch)

    def attacked(radius: float, steps: int, restarts: int, seed: int) -> tuple[Tensor, Tensor]:
        found = attack(eps=radius, step_size=STEP * radius / steps, steps=steps, restarts=restarts, seed=seed)
        return found.fooled.cpu() | ~clean, found.loss_curves.cpu().double()

    broken, curves = {}, {}
    for radius in eps:
        broken[radius], curves[radius] = attacked(radius, steps, restarts, seed)
    accuracy = tuple(_share(~broken[radius]) for radius in eps)
    half = _share(clean) / 2
    checked = min(eps, key=lambda radius: abs(accuracy[eps.index(radius)] - half))
    stronger, _ = attacked(checked, 2 * steps, restarts, seed + 1)
    noise = _noise(logits, images, labels, checked, steps, seed, batch) | ~clean
    unbounded, _ = attacked(UNBOUNDED, steps, 1, seed)
    skipped = [_share(broken[small] & ~broken[large]) for small, large in pairwise(eps)]
    values = {
        "repeatable": changed,
        "gradient_exists": vanished,
        "loss_rises": min(float(curve[:, -1].mean() - curve[:, 0].mean()) for curve in curves.values()),
        "loss_converged": _late(curves[checked].mean(0)),
        "stronger_attack": _share(stronger & ~broken[checked]),
        "noise_is_weaker": _share(noise & ~broken[checked]),
        "monotone_in_eps": max(skipped, default=0.0),
        "unbounded_wins": _share(~unbounded),
    }
    return Robustness(
        eps=tuple(eps),
        accuracy=accuracy,
        clean_accuracy=_share(clean),
        noise_accuracy=_share(~noise),
        unbounded_accuracy=values["unbounded_wins"],
        checked_eps=checked,
        curves=curves,
        checks=tuple(_check(name, value) for name, value in values.items()),
        count=len(labels),
    )


def _check(name: str, value: float) -> Check:
    limit = LIMITS[name]
    passed = value > limit if name == "loss_rises" else value <= limit
    return Check(name, value, limit, bool(passed))


def _clean(
    logits: Callable[[Tensor], Tensor], images: Tensor, labels: Tensor, batch: int | None
) -> tuple[Tensor, float, float]:
    """Return which images are classified correctly, and the fractions with an unstable prediction and a zero input gradient.

    A prediction is unstable if it changes in a second pass; a gradient is zero if it is zero in every pixel.
    """
    right, changed, zero = [], [], []
    for x, y in _batches(images, labels, batch):
        x = x.detach().requires_grad_(True)
        with torch.enable_grad():
            found = logits(x)
            loss = cross_entropy(found, y, reduction="sum")
            # A network that rounds may detach the graph, so that there is no gradient at all.
            gradient = torch.autograd.grad(loss, x, allow_unused=True)[0] if loss.requires_grad else None
            again = logits(x.detach()).argmax(1)
        predicted = found.detach().argmax(1)
        right.append(((predicted == y) & ~found.isnan().any(1)).cpu())  # to argmax, NaN is the largest number
        changed.append((predicted != again).cpu())
        none = torch.ones(len(x), dtype=torch.bool)
        zero.append(none if gradient is None else (gradient.flatten(1) == 0).all(1).cpu())
    return torch.cat(right), _share(torch.cat(changed)), _share(torch.cat(zero))


@torch.no_grad()
def _noise(
    logits: Callable[[Tensor], Tensor],
    images: Tensor,
    labels: Tensor,
    eps: float,
    draws: int,
    seed: int,
    batch: int | None,
) -> Tensor:
    """Return which images are broken by any draw of uniform noise in the ball; drawn on the CPU."""
    generator = torch.Generator().manual_seed(seed)
    broken = torch.zeros(len(labels), dtype=torch.bool)
    for _ in range(draws):
        change = torch.rand(images.shape, generator=generator, dtype=images.dtype).mul_(2 * eps).sub_(eps)
        noisy = (images + change.to(images.device)).clamp(0, 1)
        found = [(logits(x), y) for x, y in _batches(noisy, labels, batch)]
        broken |= torch.cat([((z.argmax(1) != y) | z.isnan().any(1)).cpu() for z, y in found])
    return broken


def _batches(images: Tensor, labels: Tensor, batch: int | None) -> Any:
    size = batch or len(images)
    return zip(images.split(size), labels.to(images.device).split(size))


def _late(curve: Tensor) -> float:
    """Return the fraction of the curve's rise in the last quarter of its steps (at least one); 1 if it does not rise."""
    quarter = max(1, math.floor((len(curve) - 1) / 4))
    rise = float(curve[-1] - curve[0])
    return float(curve[-1] - curve[-1 - quarter]) / rise if rise > 0 else 1.0


def _share(which: Tensor) -> float:
    return float(which.double().mean())


def _name(eps: float) -> str:
    return f"eps_{round(255 * eps, 3):g}_255"
