"""Attacks on test images: this package's PGD, and AutoAttack if its library is installed; one row per attack and radius.

AutoAttack (Croce & Hein, 2020; standard version: APGD on cross-entropy, targeted APGD and FAB, Square) comes from ``torchattacks``,
an optional library that is used only here. Install it with ``pip install --no-deps torchattacks``: it pins an old version of a
library that it needs only for downloads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

    from relearn.models.vision_classifier import VisionClassifier
    from relearn.studies.robustness.steps.image_sets import Protocol

ATTACKS = ("attack", "norm", "eps", "steps", "restarts", "samples_count", "accuracy_frac", "protocol")
BATCH = {"cpu": 100}  # images attacked at once; 500 on other devices
CHECKS = 2  # attacks besides one per ε: a stronger attack and an unbounded one
Tick = Callable[[], object]


@dataclass(frozen=True)
class Attack:
    """One robust accuracy: a row of attacks.csv. ε is in [0,1] pixel scale; an image counts if correct with and without attack."""

    attack: str
    eps: float
    samples_count: int
    accuracy_frac: float
    protocol: Protocol
    steps: int | None = None
    restarts: int | None = None
    norm: str = "linf"

    def cells(self) -> list[Any]:
        return [*(getattr(self, name) for name in ATTACKS[:-1]), str(self.protocol)]

    def as_dict(self) -> dict[str, Any]:
        return {**{name: getattr(self, name) for name in ATTACKS[:-1]}, "protocol": self.protocol.as_dict()}


@dataclass(frozen=True)
class Attacked:
    """Rows, metrics and notes of one attack."""

    rows: list[Attack]
    metrics: dict[str, float]
    notes: list[str]


@dataclass(frozen=True, kw_only=True)
class Pgd:
    """L-infinity, untargeted PGD on the cross-entropy, with step size 2.5 ε / steps and random starts; see :mod:`relearn.methods.pgd`.

    Args:
        eps: radii in [0,1] pixel scale, ascending.
        images: number of attacked images.
        checks: also check for masked gradients, at about (radii + 3) / radii times the cost; see :mod:`relearn.measures.robustness`.
    """

    eps: Sequence[float]
    steps: int
    restarts: int
    images: int
    checks: bool

    def check(self) -> None:
        """Check the settings before anything is measured.

        Raises:
            ValueError: a value out of range; the message names its key.
        """
        _check("pgd", self.eps, images=self.images, steps=self.steps, restarts=self.restarts)

    @property
    def ticks(self) -> int:
        """How often :meth:`run` calls ``tick``."""
        return len(self.eps) + (CHECKS if self.checks else 0)

    def run(
        self,
        net: VisionClassifier,
        images: Tensor,
        labels: Tensor,
        protocol: Protocol,
        *,
        seed: int,
        precision: str = "fp32",
        tick: Tick = lambda: None,
    ) -> Attacked:
        """Attack images (n, C, H, W) uint8.

        Args:
            protocol: protocol of the images.
            tick: called after each attack.

        Raises:
            ValueError: arguments that :func:`relearn.methods.pgd.pgd` rejects.
        """
        from functools import partial

        from relearn.maths.eval_mode import frozen
        from relearn.measures.robustness import STEP, robustness
        from relearn.methods import pgd as method

        device = next(net.parameters()).device
        batch = BATCH.get(device.type, 500)
        x, y = images.to(device).float() / 255.0, labels.to(device)
        rounds: dict[str, int] = {"steps": self.steps, "restarts": self.restarts, "seed": seed}

        def attack(*, eps: float, **how: Any) -> Any:
            found = method.pgd(net, x, y, eps=eps, **how, batch=batch, precision=precision)
            tick()
            return found

        notes = [
            f"pgd: l-infinity, untargeted, cross-entropy, {len(y)} images, {self.steps} steps of {STEP:g} eps/steps, "
            f"{self.restarts} random starts, worst visited point, clean errors count as broken, network in eval mode"
        ]
        metrics: dict[str, float] = {}
        if self.checks:
            forward = partial(method.forward, net, precision=precision)
            with frozen(net):
                told = robustness(attack, forward, x, y, eps=self.eps, **rounds, batch=batch)
            shares = dict(zip(told.eps, told.accuracy))
            metrics["masked_gradient_flags_count"] = float(sum(not check.passed for check in told.checks))
            notes.append(
                f"masked gradients, checked at eps {told.checked_eps:g}: " + "; ".join(map(str, told.checks))
            )
            if told.masked:
                notes.append("the PGD accuracies are NOT to be trusted: a check for masked gradients failed")
        else:
            shares = {}
            for radius in self.eps:
                found = attack(eps=radius, step_size=STEP * radius / self.steps, **rounds)
                shares[radius] = float((~found.fooled).double().mean())
        rows = [
            Attack("pgd", radius, len(y), share, protocol, self.steps, self.restarts)
            for radius, share in shares.items()
        ]
        metrics |= {f"pgd_eps_{_name(radius)}_255_acc_frac": share for radius, share in shares.items()}
        metrics |= {"pgd_acc_frac": shares[self.eps[-1]], "pgd_count": float(len(y))}
        return Attacked(rows, metrics, notes)


@dataclass(frozen=True, kw_only=True)
class AutoAttack:
    """AutoAttack's standard version in the l-infinity ball on the correctly classified images; all others count as broken.

    Args:
        eps, images: as for :class:`Pgd`.
    """

    eps: Sequence[float]
    images: int

    def check(self) -> None:
        """As for :class:`Pgd`.

        Raises:
            ImportError: the library is not installed.
        """
        _check("autoattack", self.eps, images=self.images)
        _library()

    @property
    def ticks(self) -> int:
        return len(self.eps)

    def run(
        self,
        net: VisionClassifier,
        images: Tensor,
        labels: Tensor,
        protocol: Protocol,
        *,
        seed: int,
        precision: str = "fp32",
        tick: Tick = lambda: None,
    ) -> Attacked:
        """As for :class:`Pgd`, but always in fp32.

        Raises:
            ImportError: the library is not installed.
        """
        import torch

        from relearn.maths.eval_mode import frozen

        library = _library()
        device = next(net.parameters()).device
        size = BATCH.get(device.type, 500)
        rows, metrics = [], {}
        for radius in self.eps:
            robust = 0
            with frozen(net):
                made = library.AutoAttack(
                    net,
                    norm="Linf",
                    eps=radius,
                    version="standard",
                    n_classes=net.description["classes"],
                    seed=seed,
                )
                for pixels, wanted in zip(images.split(size), labels.split(size)):
                    x, y = pixels.to(device).float() / 255.0, wanted.to(device)
                    with torch.no_grad():
                        right = net(x).argmax(1) == y
                    if not bool(right.any()):
                        continue
                    x, y = x[right], y[right]
                    changed = made(x, y)
                    # project the library's result onto the ball, so that the result does not depend on its bookkeeping
                    changed = torch.minimum(torch.maximum(changed, x - radius), x + radius).clamp(0, 1)
                    with torch.no_grad():
                        robust += int((net(changed).argmax(1) == y).sum())
            rows.append(Attack("autoattack", radius, len(labels), robust / len(labels), protocol))
            metrics[f"autoattack_eps_{_name(radius)}_255_acc_frac"] = rows[-1].accuracy_frac
            tick()
        notes = [f"autoattack: standard version of torchattacks, l-infinity, {len(labels)} images"]
        return Attacked(rows, {**metrics, "autoattack_acc_frac": rows[-1].accuracy_frac}, notes)


def _check(name: str, eps: Sequence[float], **counts: int) -> None:
    if not eps or list(eps) != sorted(set(eps)) or not 0 < eps[0] <= eps[-1] <= 1:
        raise ValueError(f"{name}.eps is {list(eps)}; allowed: ascending, in (0, 1], [0,1] pixel scale")
    for key, value in counts.items():
        if value < 1:
            raise ValueError(f"{name}.{key} is {value}; allowed: at least 1")


def _library() -> Any:
    from importlib import import_module

    try:
        return import_module("torchattacks")
    except ImportError as error:
        raise ImportError(
            f"autoattack: torchattacks cannot be imported ({error}); allowed: `pip install --no-deps torchattacks`, or null"
        ) from None


def _name(eps: float) -> str:
    return f"{round(255 * eps, 3):g}"
