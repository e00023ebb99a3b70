"""Attacks on test images: this package's PGD, and AutoAttack if its library is installed; one row per attack and radius.

AutoAttack (Croce & Hein, 2020; standard version: APGD on cross-entropy, targeted APGD and FAB, Square) comes from ``torchattacks``,
an optional library that is used only here. Install it with ``pip install --no-deps torchattacks``: it pins an old version of a
library that it needs only for downloads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

    from relearn.models.vision_classifier import VisionClassifier
    from relearn.studies.robustness.steps.image_sets import Protocol

ATTACKS = ("attack", "norm", "eps", "steps", "restarts", "samples_count", "accuracy_frac", "protocol")
BATCH = {"cpu": 100}  # images attacked at once; 500 on other devices
CHECKS = 2  # attacks besides one per ε: a stronger attack and an unbounded one
KEYS = {"pgd": ("eps", "steps", "restarts", "images", "checks"), "autoattack": ("eps", "images")}


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


def pgd(
    net: VisionClassifier,
    images: Tensor,
    labels: Tensor,
    protocol: Protocol,
    *,
    eps: list[float],
    steps: int,
    restarts: int,
    checks: bool,
    seed: int,
    precision: str,
    tick: Callable[[], object] = lambda: None,
) -> Attacked:
    """Run l-infinity, untargeted PGD on the cross-entropy, with step size 2.5 ε / steps and random starts.

    See :mod:`relearn.methods.pgd`.

    Args:
        images: (n, C, H, W) uint8.
        protocol: protocol of the images.
        eps: radii in [0,1] pixel scale, ascending.
        checks: also check for masked gradients, at about (radii + 3) / radii times the cost; see :mod:`relearn.measures.robustness`.
        tick: called after each attack.

    Raises:
        ValueError: radii not ascending in (0, 1], or arguments that :func:`relearn.methods.pgd.pgd` rejects.
    """
    from functools import partial

    from relearn.measures.robustness import STEP, robustness
    from relearn.methods import pgd as method

    _check_radii("pgd", eps)
    _check_rounds(steps, restarts)
    device = next(net.parameters()).device
    batch = BATCH.get(device.type, 500)
    x, y = images.to(device).float() / 255.0, labels.to(device)

    def attack(*, eps: float, **how: Any) -> Any:
        found = method.pgd(net, x, y, eps=eps, **how, batch=batch, precision=precision)
        tick()
        return found

    notes = [
        f"pgd: l-infinity, untargeted, cross-entropy, {len(y)} images, {steps} steps of {STEP:g} eps/steps, {restarts} random "
        "starts, worst visited point, clean errors count as broken, network in eval mode"
    ]
    metrics: dict[str, float] = {}
    if checks:
        with method.attack_mode(net):
            told = robustness(
                attack,
                partial(method.forward, net, precision=precision),
                x,
                y,
                eps=eps,
                steps=steps,
                restarts=restarts,
                seed=seed,
                batch=batch,
            )
        shares = dict(zip(told.eps, told.accuracy))
        metrics["masked_gradient_flags_count"] = float(sum(not check.passed for check in told.checks))
        notes.append(
            f"masked gradients, checked at eps {told.checked_eps:g}: " + "; ".join(map(str, told.checks))
        )
        if told.masked:
            notes.append("the PGD accuracies are NOT to be trusted: a check for masked gradients failed")
    else:
        shares = {}
        for radius in eps:
            found = attack(
                eps=radius, step_size=STEP * radius / steps, steps=steps, restarts=restarts, seed=seed
            )
            shares[radius] = float((~found.fooled).double().mean())
    rows = [
        Attack("pgd", radius, len(y), share, protocol, steps, restarts) for radius, share in shares.items()
    ]
    metrics |= {f"pgd_eps_{_name(radius)}_255_acc_frac": share for radius, share in shares.items()}
    return Attacked(rows, {**metrics, "pgd_acc_frac": shares[eps[-1]], "pgd_count": float(len(y))}, notes)


def autoattack(
    net: VisionClassifier,
    images: Tensor,
    labels: Tensor,
    protocol: Protocol,
    *,
    eps: list[float],
    seed: int,
    tick: Callable[[], object] = lambda: None,
) -> Attacked:
    """Run AutoAttack's standard version in the l-infinity ball on the correctly classified images; all others count as broken.

    Raises:
        ImportError: the library is not installed.
    """
    import torch

    from relearn.methods.pgd import attack_mode

    library = _library()
    device = next(net.parameters()).device
    size = BATCH.get(device.type, 500)
    rows, metrics = [], {}
    for radius in eps:
        robust = 0
        with attack_mode(net):
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


def count(name: str, settings: Mapping[str, Any] | None) -> int:
    """The number of progress ticks of the attack."""
    if settings is None:
        return 0
    return len(settings["eps"]) + (CHECKS if settings.get("checks") else 0)


def check(name: str, settings: Mapping[str, Any]) -> None:
    """Check an attack's settings before anything is measured.

    Raises:
        ValueError: unknown or missing key, or value out of range; the message names the key.
        ImportError: AutoAttack without its library.
    """
    if odd := sorted(set(settings) ^ set(KEYS[name])):
        raise ValueError(f"{name}.{odd[0]}: missing or unknown; allowed: {', '.join(KEYS[name])}")
    if not isinstance(settings["images"], int) or settings["images"] < 1:
        raise ValueError(f"{name}.images is {settings['images']!r}; allowed: 1 or more")
    _check_radii(name, settings["eps"])
    if name == "pgd":
        _check_rounds(settings["steps"], settings["restarts"])
    else:
        _library()


def _check_radii(name: str, eps: Sequence[float]) -> None:
    if not eps or list(eps) != sorted(set(eps)) or not 0 < eps[0] <= eps[-1] <= 1:
        raise ValueError(f"{name}.eps is {list(eps)}; allowed: ascending, in (0, 1], [0,1] pixel scale")


def _check_rounds(steps: int, restarts: int) -> None:
    for key, value in (("steps", steps), ("restarts", restarts)):
        if value < 1:
            raise ValueError(f"pgd.{key} is {value}; allowed: at least 1")


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
