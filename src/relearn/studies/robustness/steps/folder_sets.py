"""ImageNet and its derived sets as folders: images, masks and labels, and a network's rows on each set.

=====  =====================================  ==============================  =====================================
set    folder                                 rows                            classes
=====  =====================================  ==============================  =====================================
val    <class>/*.JPEG                         val                             all of the network
real   the same images                        real                            ReaL's lists; images without one: left out
v2     <0 to 999>/*.JPEG                      v2                              all of the network
c      <corruption>/<severity>/<class>/…      c, 15 × 5 of them               all of the network
a      <class>/*.JPEG                         a (masked), a_unmasked          200 of 1,000
r      <class>/*.JPEG                         r (masked), r_unmasked          200 of 1,000
nine   <variant>/[val/]<group>/*.JPEG         nine_original, _same, _rand     9 groups of 370 of 1,000
=====  =====================================  ==============================  =====================================

Images of c and nine are published at 224 × 224, already resized and cropped, so these sets have a separate crop ratio (1: the crop is
the whole image).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from relearn.studies.robustness.steps.folder_pixels import Bad, Decoding, Policy, pixels, protocol_of, sound
from relearn.studies.robustness.steps.image_sets import Row, answers, counted

if TYPE_CHECKING:
    from torch import Tensor

    from relearn.data.imagenet_folder import Listing
    from relearn.models.vision_classifier import VisionClassifier

NAMES = ("val", "real", "v2", "c", "a", "r", "nine")
THOUSAND = ("real", "a", "r", "nine")  # sets that require a network with ImageNet's classes


@dataclass(frozen=True)
class Part:
    """Images that are evaluated in one pass."""

    name: str
    images: Listing
    source: str
    wanted: Sequence[int]
    """The classes that the set has."""
    mask: Sequence[int] | None = None
    corruption: str | None = None
    severity: int | None = None
    real: bool = False
    """Whether ReaL's labels are evaluated too."""


@dataclass
class Found:
    """Rows of all sets, and the images that could not be decoded."""

    rows: list[Row] = field(default_factory=list)
    bad: list[Bad] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def check(sets: Mapping[str, Path], how: Decoding | None, *, classes: int, size: int) -> None:
    """Check the names of the sets, and that the network has their classes and image size.

    Raises:
        ValueError: a check failed; the message names the set or key.
    """
    for name in sets:
        if name not in NAMES:
            raise ValueError(f"set {name!r} is unknown; allowed: {', '.join(NAMES)}")
        if name in THOUSAND and classes != 1000:
            raise ValueError(f"set {name}: the network has {classes} classes; allowed: ImageNet's 1000")
    for name in set(sets) & {"val", "real"}:
        if all((sets[name] / part).is_dir() for part in ("train", "val")):
            raise ValueError(f"set {name}: {sets[name]} holds train and val; allowed: its folder val")
    if sets and how is None:
        raise ValueError("protocol is null; allowed with sets: a protocol")
    if sets and how is not None and how.size != size:
        raise ValueError(f"protocol.size is {how.size}; allowed: {size}, of the network")


def parts(
    sets: Mapping[str, Path], *, classes: int, names: Sequence[str], severities: Sequence[int]
) -> Iterator[Part]:
    """Every folder to be evaluated; ``real`` is a separate part only if ``val`` is absent or a different folder.

    Raises:
        ValueError, OSError: a folder that the readers reject.
    """
    from relearn.data import imagenet_c, imagenet_nine, imagenet_subsets
    from relearn.data.imagenet_classes import label_by_class

    everything = range(classes)
    # a network with other classes has its own test folder
    title = "ImageNet validation" if classes == 1000 else "images in class folders"
    real = "real" in sets and sets.get("val") == sets["real"]
    if "val" in sets:
        yield Part("val", label_by_class(sets["val"], classes=classes), title, everything, real=real)
    if "real" in sets and not real:
        yield Part("real", label_by_class(sets["real"], classes=classes), title, everything, real=True)
    if "v2" in sets:
        yield Part("v2", label_by_class(sets["v2"], classes=classes), "ImageNet-V2", everything)
    if "c" in sets:
        for (name, level), folder in imagenet_c.corrupted_folders(
            sets["c"], names=names, severities=severities
        ).items():
            images = label_by_class(folder, classes=classes)
            yield Part("c", images, "ImageNet-C, released files", everything, None, name, level)
    for name, title in (("a", "ImageNet-A"), ("r", "ImageNet-R")):
        if name in sets:
            mask = imagenet_subsets.classes_of(name)
            yield Part(name, label_by_class(sets[name], classes=classes), title, mask, mask)
    if "nine" in sets:
        for name in imagenet_nine.VARIANTS:
            images = imagenet_nine.variant(sets["nine"], name)
            yield Part(name, images, f"ImageNet-9 {imagenet_nine.VARIANTS[name]}", range(9))


def listed(
    sets: Mapping[str, Path],
    how: Decoding,
    *,
    classes: int,
    images: int,
    names: Sequence[str],
    severities: Sequence[int],
    found: Found,
) -> list[Part]:
    """The parts with the images to be evaluated. All folders are listed before the first pass, so that a wrong one is reported at once.

    Args:
        sets: name → folder.
        classes: number of the network's classes.
        images: number of images per folder, evenly spaced; 0: all.
        names, severities: corruptions and severities of ImageNet-C, one or more each.
        found: receives a note for each set with missing classes.

    Raises:
        ValueError: missing classes if the policy is to fail, or a folder that the readers reject.
    """
    every = []
    for one in parts(sets, classes=classes, names=names, severities=severities):
        _look_for_missing(one, how.on_missing_class, classes, found)
        every.append(replace(one, images=one.images.evenly_spaced(images)))
    return every


def batches_of(every: Sequence[Part], how: Decoding) -> int:
    """The number of progress ticks of :func:`evaluate` if every image can be decoded."""
    return sum(-(-len(one.images) // how.batch_size) for one in every)


def evaluate(
    net: VisionClassifier,
    every: Sequence[Part],
    how: Decoding,
    found: Found,
    *,
    real_labels: Path | None = None,
    precision: str = "fp32",
    tick: Callable[[], object] = lambda: None,
) -> None:
    """Evaluate all parts and add their rows to ``found``.

    Args:
        every: result of :func:`listed`.
        found: receives the rows and the images that cannot be decoded.
        real_labels: a file in ReaL's format; None: the official one.
        tick: called after each batch.

    Raises:
        ValueError: an image cannot be decoded and the policy is to fail, no image can be decoded, or a logit is not finite.
    """
    for one in every:
        _part(net, one, how, real_labels, precision, tick, found)


def _look_for_missing(one: Part, policy: Policy, classes: int, found: Found) -> None:
    from relearn.data.imagenet_subsets import missing, name_of

    gone = missing(one.images, one.wanted)
    if gone:
        what = (
            f"set {one.name}: {len(gone)} of {len(one.wanted)} classes missing, the first is "
            f"{name_of(gone[0], classes)}"
        )
        place = one.images.files[0].parents[1]
        if policy == "fail":
            raise ValueError(f"{place}: {what}; allowed: all of them, or on_missing_class skip")
        if what not in found.notes:  # the 75 folders of c lack the same classes
            found.notes.append(what)


def _part(
    net: VisionClassifier,
    one: Part,
    how: Decoding,
    real_labels: Path | None,
    precision: str,
    tick: Callable[[], object],
    found: Found,
) -> None:
    """Evaluate one part and add its rows."""
    import torch

    from relearn.data import imagenet_real
    from relearn.data.imagenet_nine import group_of_class
    from relearn.measures.background_gap import group_accuracy
    from relearn.measures.real_accuracy import real_accuracy

    images = one.images
    # before the pass over all images, so that file names that do not match ReaL are reported at once
    allowed = (
        imagenet_real.classes_of_files(images.files, imagenet_real.load(real_labels)) if one.real else ()
    )
    faults: dict[int, str] = {}
    digests: dict[Path, str] = {}
    labels: list[Tensor] = []

    def batches() -> Iterator[Tensor]:
        for batch, wanted in pixels(images, how, one.name, faults, digests):
            labels.append(wanted)
            yield batch
            tick()

    free, bound = answers(net, batches(), precision=precision, mask=one.mask)
    kept = sound(images, faults, one.name, found.bad)
    y, protocol = torch.cat(labels), protocol_of(kept, how, one.name, one.source, len(faults), digests)
    if one.mask is not None:
        found.rows.append(counted(one.name, bound == y, protocol.masked(f"{len(one.mask)} classes")))
        found.rows.append(counted(f"{one.name}_unmasked", free == y, protocol))
    elif one.name.startswith("nine"):
        right = round(group_accuracy(free, y, group_of_class()) * len(y))
        found.rows.append(Row(one.name, len(y), right, protocol.masked("none, the class's group of 9")))
    elif one.name != "real":
        found.rows.append(
            counted(one.name, free == y, protocol, corruption=one.corruption, severity=one.severity)
        )
    if one.real:
        share, count = real_accuracy(free, [one for place, one in enumerate(allowed) if place not in faults])
        found.rows.append(
            Row("real", count, round(share * count), protocol.masked("none, any of ReaL's labels"))
        )
