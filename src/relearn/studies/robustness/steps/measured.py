"""All measurements of one network: clean, corrupted and derived images, and attacks."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from relearn.studies.robustness.steps import array_sets, folder_pixels, folder_sets
from relearn.studies.robustness.steps import attacks as attack_rows
from relearn.studies.robustness.steps.image_sets import (
    Protocol,
    Row,
    answers,
    counted,
    hash_of_pixels,
    logits_of,
)
from relearn.studies.robustness.steps.metrics import metrics_of

if TYPE_CHECKING:
    from torch import Tensor

    from relearn.models.vision_classifier import VisionClassifier

BATCH = 500


@dataclass(frozen=True, kw_only=True)
class Measurements:
    """What is measured; see :mod:`relearn.studies.robustness.steps.evaluate_robustness`."""

    images: int
    corruptions: Literal["all"] | Sequence[str]
    severities: Sequence[int]
    protocol: folder_pixels.Decoding | None
    pgd: attack_rows.Pgd | None
    autoattack: attack_rows.AutoAttack | None


@dataclass
class Measured:
    """All results of one network."""

    rows: list[Row] = field(default_factory=list)
    attacks: list[attack_rows.Attack] = field(default_factory=list)
    bad: list[folder_pixels.Bad] = field(default_factory=list)
    metrics: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    learned: bool = True
    """Whether the accuracy on the test images is above chance."""


@dataclass(frozen=True)
class Base:
    """Images in memory to be corrupted or attacked."""

    images: Tensor
    """(n, C, H, W) uint8."""
    labels: Tensor
    protocol: Protocol


def measure(
    net: VisionClassifier,
    settings: Measurements,
    sets: Mapping[str, Path],
    *,
    test: tuple[Tensor, Tensor] | None,
    named: str,
    reference: Path | None = None,
    real_labels: Path | None = None,
    seed: int = 0,
    precision: str = "fp32",
    progress: Any = None,
) -> Measured:
    """Run all requested measurements.

    Args:
        sets: name → folder. For c and cifar_c, the named corruptions are measured, or all if none is named.
        test: images (n, C, H, W) uint8 and labels (n,); None: only folders.
        named: name of the test images.
        progress: called as ``progress(done, total)``.

    Raises:
        NotFinite: a logit is not finite. ValueError: nothing to measure, or invalid settings or folders.
    """
    from relearn.data.corruptions import NAMES, check

    names = list(NAMES if settings.corruptions == "all" else settings.corruptions)
    severities, how = settings.severities, settings.protocol
    made = net.description
    arrays = sets.get(array_sets.NAME)
    released = arrays is not None or "c" in sets
    sets = {name: folder for name, folder in sets.items() if name != array_sets.NAME}
    folder_sets.check(sets, how, classes=made["classes"], size=made["size"])
    attacks = [one for one in (settings.pgd, settings.autoattack) if one is not None]
    for one in attacks:
        one.check()
    if test is None and not sets and arrays is None:
        raise ValueError("sets is empty and there is no data; allowed: at least one of them")
    generated = names if test is not None or not released else []
    read = names or list(NAMES)  # a given folder is measured even if no corruptions are named
    if released and not severities:
        raise ValueError("severities: none; allowed with c or cifar_c: one or more of 1 to 5")
    for name, severity in itertools.product(generated, severities):
        check(name, severity)
    found, folders = Measured(), folder_sets.Found()
    every = []
    if how is not None:
        every = folder_sets.listed(
            sets,
            how,
            classes=made["classes"],
            images=settings.images,
            names=read,
            severities=severities,
            found=folders,
        )
    opened = None if arrays is None else array_sets.opened(arrays, net, names=read, severities=severities)
    total = len(generated) + sum(one.ticks for one in attacks)
    total += 0 if how is None else folder_sets.batches_of(every, how)
    total += 0 if opened is None else len(opened.names)
    ticks = itertools.count(1)

    def tick() -> None:
        if progress is not None:
            progress(next(ticks), total)

    if test is not None:
        _fits(net, test)
        _clean(net, _some(test, settings.images, named), precision, found)
    if how is not None:
        folder_sets.evaluate(
            net, every, how, folders, real_labels=real_labels, precision=precision, tick=tick
        )
    found.rows += folders.rows
    if opened is not None:
        found.rows += array_sets.rows(net, opened, images=settings.images, precision=precision, tick=tick)
    found.bad += folders.bad
    found.notes += folders.notes
    for one in attacks:
        base = _base(net, settings, sets, test, named, one.images)
        attacked = one.run(
            net, base.images, base.labels, base.protocol, seed=seed, precision=precision, tick=tick
        )
        found.attacks += attacked.rows
        found.metrics |= attacked.metrics
        found.notes += attacked.notes
    if generated:
        base = _base(net, settings, sets, test, named, settings.images)
        _generated(net, base, generated, severities, seed, precision, tick, found)
    metrics, notes = metrics_of(found.rows, reference)
    found.metrics |= metrics
    found.metrics["parameters_count"] = float(sum(weights.numel() for weights in net.parameters()))
    found.notes += notes
    return found


def _clean(net: VisionClassifier, base: Base, precision: str, found: Measured) -> None:
    """Add the row of the test images and record whether their accuracy is above chance."""
    import torch
    from torch.nn.functional import cross_entropy

    from relearn.steps.trained.chance import learned

    with torch.inference_mode():
        logits = torch.cat([logits_of(net, part, precision) for part in base.images.split(BATCH)])
    row = counted("test", logits.argmax(1) == base.labels, base.protocol)
    found.rows.append(row)
    loss = float(cross_entropy(logits, base.labels))
    found.learned = learned(loss, row.accuracy_frac, base.labels, logits.shape[1])


def _generated(net, base: Base, names, severities, seed, precision, tick, found: Measured) -> None:
    """Evaluate each corruption at each severity, generated by this package."""
    import torch

    from relearn.data.corruptions import SYNTHESISED, corrupt

    side = min(base.images.shape[2:])
    for name in names:
        words = f"{base.protocol.source}, corrupted by relearn.data.corruptions with CIFAR-10-C's constants, seed {seed}"
        words += "" if side == 32 else f", lengths times {side}/32"
        words += ", texture synthesised" if name in SYNTHESISED else ""
        for level in severities:
            changed = torch.from_numpy(corrupt(base.images.numpy(), name, level, seed=seed))
            free, _ = answers(net, changed.split(BATCH), precision=precision)
            how = replace(base.protocol, source=words)
            found.rows.append(counted("corrupted", free == base.labels, how, corruption=name, severity=level))
        tick()


def _base(net, settings: Measurements, sets, test, named: str, count: int) -> Base:
    """Images to corrupt or attack: the test images, or else those of the first folder with clean images."""
    import torch

    if test is not None:
        return _some(test, settings.images, named, count)
    from relearn.data.imagenet_classes import label_by_class

    name, how = next((one for one in ("val", "real", "v2", "a", "r") if one in sets), None), settings.protocol
    if name is None or how is None:
        raise ValueError(
            "corruptions and attacks need images; allowed: data, or one of the sets val, real, v2, a, r"
        )
    listed = label_by_class(sets[name], classes=net.description["classes"])
    images = listed.evenly_spaced(settings.images).evenly_spaced(count)
    faults: dict[int, str] = {}
    batches = list(folder_pixels.pixels(images, how, name, faults))
    kept = folder_pixels.sound(images, faults, name, [])
    protocol = folder_pixels.protocol_of(kept, how, name, f"set {name}", len(faults))
    return Base(
        torch.cat([pixels for pixels, _ in batches]), torch.cat([labels for _, labels in batches]), protocol
    )


def _some(test: tuple[Tensor, Tensor], count: int, named: str, fewer: int = 0) -> Base:
    """At most ``count`` evenly spaced test images, and of these at most ``fewer``; 0: all."""
    from relearn.data.evenly_spaced import evenly_spaced

    images, labels = (evenly_spaced(evenly_spaced(rows, count), fewer) for rows in test)
    return Base(images, labels, Protocol(f"test images of {named}", subset=hash_of_pixels(images, labels)))


def _fits(net: VisionClassifier, test: tuple[Tensor, Tensor]) -> None:
    """Check that the network fits the images.

    Raises:
        ValueError: it does not; the message states the sizes of both.
    """
    made, (images, labels) = net.description, test
    network = (made["in_channels"], made["size"])
    if network != (images.shape[1], images.shape[-1]) or made["classes"] <= int(labels.max()):
        raise ValueError(
            f"network {made['name']}: for {network[0]} x {network[1]} x {network[1]} pixels and {made['classes']} classes; the data "
            f"have {' x '.join(map(str, images.shape[1:]))} pixels and {int(labels.max()) + 1} classes"
        )
