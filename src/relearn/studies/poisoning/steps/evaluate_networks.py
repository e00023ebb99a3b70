"""evaluate_networks: measure clean accuracy, calibration and robustness of one trained network.

Settings: calibration_bins, pgd {eps, steps, restarts, images}, corruptions {images, names}; names defaults to all corruptions.
Inputs: data, network.
Outputs: trials.csv (kind, name, level, accuracy_frac, error_frac, count), loss_curves.csv (eps, restart, step, loss_nats).

Overall and per-class accuracy and calibration use the whole test set. PGD, with its checks for masked gradients, and the
common corruptions use only its first images.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

NEEDS_TORCH = True
COLUMNS = ("kind", "name", "level", "accuracy_frac", "error_frac", "count")
EXTRA_ATTACKS = 2  # besides one attack per ε: a stronger attack and an unbounded one
BATCH = {"cpu": 100}  # images attacked at once; 500 on other devices


@dataclass(frozen=True, kw_only=True)
class Pgd:
    eps: Sequence[float]
    steps: int
    restarts: int
    images: int


@dataclass(frozen=True, kw_only=True)
class Corruptions:
    images: int
    names: Sequence[str] | None = None


@dataclass(frozen=True, kw_only=True)
class Settings:
    calibration_bins: int
    pgd: Pgd
    corruptions: Corruptions


def run(run, settings: Settings, inputs: dict[str, list[Path]], device: str, precision: str) -> None:
    from itertools import count

    import torch

    from relearn.data.arrays import load_prepared
    from relearn.data.corruptions import NAMES
    from relearn.measures.accuracy import accuracy, per_class_accuracy
    from relearn.measures.calibration import calibration
    from relearn.measures.embed import embed
    from relearn.models import files
    from relearn.runs.console import Progress

    data = load_prepared(inputs["data"][0])
    net = files.load(inputs["network"][0], device)
    images, labels = data.test()
    with torch.no_grad():
        logits = net.head(embed(net, images, precision=precision)).float().cpu()
    if not bool(logits.isfinite().all()):
        run.finish(
            {"test_count": len(labels)},
            trials=(COLUMNS, []),
            outcome="diverged",
            outcome_reason="logits of the test images are not finite",
        )
        return
    clean = accuracy(logits, labels)
    rows = [_row("clean", "test", "", clean, len(labels))]
    counts = torch.bincount(labels, minlength=logits.shape[1]).tolist()
    each = per_class_accuracy(logits, labels, classes=logits.shape[1]).tolist()
    rows += [_row("class", c, "", value, n) for c, (value, n) in enumerate(zip(each, counts)) if n]
    names = NAMES if settings.corruptions.names is None else settings.corruptions.names
    total = len(settings.pgd.eps) + EXTRA_ATTACKS + len(names)
    ticks = count(1)
    with Progress("evaluate") as progress:

        def tick() -> None:
            progress(next(ticks), total)

        attacked, notes = _attacks(run, net, images, labels, settings.pgd, precision, rows, tick)
        first = settings.corruptions.images
        corrupted, more = _corruptions(run, net, images[:first], labels[:first], names, precision, rows, tick)
    run.finish(
        {
            "test_accuracy_frac": clean,
            **calibration(logits, labels, bins=settings.calibration_bins),
            "test_count": len(labels),
            **attacked,
            **corrupted,
        },
        trials=(COLUMNS, rows),
        notes=[*notes, *more],
    )


def _attacks(run, net, images, labels, settings: Pgd, precision, rows, tick):
    """Run PGD at every ε on the first images and return metrics and notes. Appends to ``rows`` and writes the loss curves."""
    import csv
    from functools import partial

    from relearn.maths.eval_mode import frozen
    from relearn.measures.robustness import STEP, robustness
    from relearn.methods.pgd import forward, pgd

    device = next(net.parameters()).device
    count = min(settings.images, len(images))
    images, labels = images[:count].to(device).float() / 255.0, labels[:count].to(device)
    eps, steps, restarts = settings.eps, settings.steps, settings.restarts
    batch = BATCH.get(device.type, 500)

    def attack(*, eps, **how):
        found = pgd(net, images, labels, eps=eps, **how, batch=batch, precision=precision)
        tick()
        return found

    with frozen(net):
        found = robustness(
            attack,
            partial(forward, net, precision=precision),
            images,
            labels,
            eps=eps,
            steps=steps,
            restarts=restarts,
            seed=run.seed,
            batch=batch,
        )
    rows += [_row("pgd", "linf", radius, value, count) for radius, value in zip(found.eps, found.accuracy)]
    rows.append(_row("noise", "uniform", found.checked_eps, found.noise_accuracy, count))
    rows.append(_row("check", "unbounded", 1.0, found.unbounded_accuracy, count))
    with run.output("loss_curves.csv").open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["eps", "restart", "step", "loss_nats"])
        for radius, curves in found.curves.items():
            for restart, curve in enumerate(curves.tolist()):
                table.writerows([radius, restart, step, loss] for step, loss in enumerate(curve))
    notes = [
        f"pgd: l-infinity, untargeted, cross-entropy, first {count} test images, eps in [0,1] pixel scale {eps}, {steps} steps of "
        f"{STEP:g} eps/steps, {restarts} random starts, worst visited point, clean errors count as broken, network in eval mode",
        f"masked gradients, checked at eps {found.checked_eps:g}: " + "; ".join(map(str, found.checks)),
    ]
    if found.masked:
        notes.append("the PGD accuracies are NOT to be trusted: a check for masked gradients failed")
    return found.metrics(), notes


def _corruptions(run, net, images, labels, names, precision, rows, tick):
    """Measure accuracy under each corruption and severity and return metrics and notes. Appends to ``rows``."""
    import torch

    from relearn.data.corruptions import LEVELS, SYNTHESISED, corrupt
    from relearn.measures.accuracy import accuracy
    from relearn.measures.corruption_error import mean_corruption_accuracy
    from relearn.measures.embed import embed

    count, pixels = len(images), images.numpy()
    found: dict[str, list[float]] = {}
    for name in names:
        changed = [torch.from_numpy(corrupt(pixels, name, level, seed=run.seed)) for level in LEVELS]
        with torch.no_grad():
            logits = net.head(embed(net, torch.cat(changed), precision=precision)).float().cpu()
        found[name] = [accuracy(some, labels) for some in logits.split(count)]
        rows += [_row("corruption", name, level, value, count) for level, value in zip(LEVELS, found[name])]
        tick()
    mean = mean_corruption_accuracy(found)
    metrics = {f"corruption_{name}_accuracy_frac": sum(row) / len(row) for name, row in found.items()}
    metrics |= {
        "corruption_accuracy_frac": mean,
        "corruption_error_frac": 1 - mean,
        "corruption_count": float(count),
    }
    notes = [
        f"corruptions: {len(names)} x {len(LEVELS)} severities with the constants of CIFAR-10-C, made from the first {count} test "
        "images by our own generator, not the released arrays; plain mean of accuracy, not mCE, which needs a reference network",
    ]
    side = min(images.shape[2:])
    if side != 32:
        notes.append(f"corruptions: images of {side} pixels; lengths are multiples of side/32")
    notes += [
        f"corruptions: {name} is synthesised, not the published photographs"
        for name in SYNTHESISED
        if name in found
    ]
    return metrics, notes


def _row(kind: str, name: Any, level: Any, accuracy: float, count: int) -> list[Any]:
    return [kind, name, level, accuracy, 1 - accuracy, count]
