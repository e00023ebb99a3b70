r"""Pathfinder: are the two discs the ends of one dashed curve? (Linsley et al. 2018; Tay et al. 2021, section 3.1).

An image shows two long dashed curves of ``dashes`` dashes each, ``distractors`` short ones of ``distractor_dashes``, and two
discs. Label 1: the discs lie at both ends of one long curve. Label 0: each lies at an end of a different one. The task can only
be solved by following the dashes. A sequence consists of the image's grey values row by row.

A curve is a walk with steps of ``dash + gap`` pixels. Its direction changes at each step by an angle uniform in :math:`[-\delta, \delta]`,
:math:`\delta` = ``turn`` radians; a dash is centred in its step. No curve comes closer than ``clearance`` pixels to another one, to itself
or to the border. Many walks grow at once in an image, and a walk that cannot continue is replaced by a copy of one that can; if there is
none, the image is restarted. Dashes and discs have soft edges: the value of a pixel is
:math:`255 \cdot \mathrm{clip}(\rho + 1/2 - t, 0, 1)` for its distance :math:`t` from a dash (:math:`\rho` = half its thickness) or from the
centre of a disc (:math:`\rho` its radius), and the maximum over all of them.

The positions of the discs, and the directions there, could reveal the label: the ends of one curve are closer to each other than
to those of another curve, and a curve with little curvature continues in its direction. Images therefore come in pairs, label 0
before label 1. In the second image a curve joins the discs; in the first, two curves start at the two ends with the same first
dash as that curve and then continue elsewhere. The two images of a pair share the discs and the dashes under them, and a pair is
regenerated if one of its curves cannot be completed, so neither of these carries information about the label. The other long curve and
the short ones are drawn for each image.

Remaining shortcuts, measured on 2,048 images (three quarters for training): boosted trees on positions, distance and the directions of the
first dash are right for 50%, of the first two dashes for 60% (default form; 79% with 16 pixels and 6 dashes, where two dashes are
a third of a curve); sums of pixels for 50%. Without pairs, with ends at equal distance (version 1), the first two reached 85% and
92%. Knowing which four ends belong to long curves gives 97% (version 1: 95%), but requires telling long curves from short ones.
:func:`distance_shortcut` measures the distance alone: 50%.

The arena's images come from the generator of Linsley et al. at 32 × 32 with the numbers that the arena's builder states: curves of 14
dashes of 2 pixels with gaps of 1, 5 distractors of 4 dashes, markers of radius 1.5 (:data:`PUBLISHED_FORM`, which scale paper uses). The
defaults of :class:`Form` are easier. This module is an independent implementation without any of their code, and its pairs have
fewer shortcuts, so accuracies on the two versions cannot be compared. :mod:`relearn.data.lra.pathfinder_files` reads the arena's images.

A seed's images depend on the processor: NumPy's float32 ``arctan2``, the heading of a curve that is continued, rounds otherwise with
AVX-512 than without: one pixel in 4 of 1,024 images. In float64 it would not, but the images of the published runs would change.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from relearn.data.lra.samples import Samples, Task

Floats = NDArray[np.floating[Any]]
PUBLISHED = {"train": 160_000, "valid": 20_000, "test": 20_000}
PUBLISHED_FORM: dict[str, Any] = {
    "size": 32,
    "dashes": 14,
    "distractors": 5,
    "distractor_dashes": 4,
    "dash": 2.0,
    "gap": 1.0,
    "clearance": 1.5,  # not stated; ours: the largest with which these curves fit
    "radius": 1.5,
}
"""What the arena's builder states, as arguments of :class:`Form`."""
VERSION = 2  # 1: a negative image used one end of each long curve, at the same distance as the ends of the first curve
TOGETHER = 256  # images made at once; the images of a seed depend on it
WALKS = 48  # parallel walks per curve
SHARED = 2  # points shared with the counterpart: the first dash
ROUNDS = 200  # rounds without an image before the curves are considered impossible


@dataclass(frozen=True)
class Form:
    """Parameters of an image; see the module.

    Raises:
        ValueError: a number out of range.
    """

    size: int = 32
    dashes: int = 9
    distractors: int = 3
    distractor_dashes: int = 3
    dash: float = 1.5
    gap: float = 1.5
    thickness: float = 1.0
    turn: float = 0.6
    clearance: float = 2.5
    radius: float = 1.6

    def __post_init__(self) -> None:
        for name, least in (("size", 8), ("dashes", 2), ("distractors", 0), ("distractor_dashes", 1)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} is {getattr(self, name)}; allowed: {least} or more")
        for name in ("dash", "thickness", "clearance", "radius"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} is {getattr(self, name)}; allowed: above 0 pixels")
        if self.gap < 0 or not 0 <= self.turn <= np.pi:
            raise ValueError(f"gap, turn: {self.gap}, {self.turn}; allowed: from 0, and from 0 to pi radians")


@dataclass(frozen=True)
class Scenes:
    """Curves before rendering; points are (x, y) in pixels, and pixel (i, j) has its centre at (j + 1/2, i + 1/2).

    Attributes:
        curves: end points of the steps of each curve, (N, dashes + 1, 2); the two long ones first, starting with those with discs.
        discs: centres of the discs, (N, 2, 2).
        labels: (N,).
    """

    curves: list[Floats]
    discs: Floats
    labels: NDArray[np.int64]


def make(samples: Mapping[str, int], *, seed: int = 0, form: Form | None = None) -> Task:
    """The task with the given numbers of images in train, valid and test; 0 is the arena's number. Half of each part is positive.
    Even numbers keep pairs together.

    Raises:
        ValueError: a negative number, or curves that do not fit into the image.
    """
    counts = {part: samples[part] or number for part, number in PUBLISHED.items()}
    if min(counts.values()) < 0:
        raise ValueError(f"samples is {min(counts.values())}; allowed: 0 (as published) or more")
    form = form or Form()
    images, labels = draw(sum(counts.values()), seed=seed, form=form)
    parts: dict[str, Any] = {}
    start = 0
    for part, count in counts.items():
        rows = slice(start, start + count)
        parts[part] = Samples([one.tobytes() for one in images[rows]], labels[rows].tolist())
        start += count
    source = {"from": "relearn.data.lra.pathfinder", "version": VERSION, "seed": seed}
    return Task("pathfinder", "generated", 256, 2, **parts, source=source)


def draw(
    count: int, *, seed: int = 0, form: Form | None = None
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """``count`` images (N, size, size) uint8 and their labels; negative and positive ones alternate.

    Raises:
        ValueError: curves that do not fit into the image.
    """
    form = form or Form()
    images, labels = [], []
    for block in range(-(-count // TOGETHER)):
        # Blocks have their own generators, so the first images do not depend on the total number.
        made = scenes(TOGETHER, np.random.default_rng([seed, block]), form)
        images.append(render(made, form))
        labels.append(made.labels)
    if not images:
        return np.empty((0, form.size, form.size), np.uint8), np.empty(0, np.int64)
    return np.concatenate(images)[:count], np.concatenate(labels)[:count]


def scenes(count: int, generator: np.random.Generator, form: Form) -> Scenes:
    """``count`` scenes with labels 0, 1, 0, 1, …; each 0 and the next 1 share their discs and the dashes under them.

    Raises:
        ValueError: curves that do not fit into the image.
    """
    found: list[list[Floats]] = []
    have = rounds = 0
    while 2 * have < count:
        curves, whole = _counterparts(-(-count // 2), generator, form)
        if (rounds := rounds + 1) > ROUNDS and not have:
            raise ValueError(
                f"dashes, distractors: {form.dashes}, {form.distractors} in {form.size} pixels; allowed: as many as fit"
            )
        found.append([points[whole] for points in curves])
        have += int(whole.sum())
    curves = [np.concatenate(each).reshape(-1, *each[0].shape[2:])[:count] for each in zip(*found)]
    labels = np.arange(count) % 2
    return Scenes(curves, _discs(curves, labels), labels)


def _counterparts(
    count: int, generator: np.random.Generator, form: Form
) -> tuple[list[Floats], NDArray[np.bool_]]:
    """Curves of images with label 0 and of their counterparts with label 1, (N, 2, dashes + 1, 2) each, and whether all are complete."""
    empty = np.zeros((count, form.size, form.size), bool)
    joined, whole = _walks(empty, form.dashes, generator, form)
    start, end = joined[:, :SHARED], joined[:, ::-1][:, :SHARED]
    pairs: list[list[Floats]] = []
    # Label 0: the curve from one end avoids the first dash at the other; label 1: the second long curve has no disc.
    for placed, more in (([], [(start, [end]), (end, [])]), ([joined], [(None, [])])):
        for begun, kept_free in more:
            points, grown = _walks(
                _taken(empty, placed + kept_free, form), form.dashes, generator, form, begun
            )
            placed, whole = [*placed, points], whole & grown
        for _ in range(form.distractors):
            points, grown = _walks(_taken(empty, placed, form), form.distractor_dashes, generator, form)
            placed, whole = [*placed, points], whole & grown
        pairs.append(placed)
    return [np.stack(both, 1) for both in zip(*pairs)], whole


def _taken(empty: NDArray[np.bool_], curves: list[Floats], form: Form) -> NDArray[np.bool_]:
    """Pixels closer to one of the curves than the clearance."""
    taken = empty
    for points in curves:
        taken = taken | (_distance(points, form.size) < form.clearance)
    return taken


def render(made: Scenes, form: Form) -> NDArray[np.uint8]:
    """Scenes as images (N, size, size)."""
    share = form.gap / (form.dash + form.gap) / 2
    value = np.zeros((len(made.labels), form.size, form.size), np.float32)
    for curve in made.curves:
        start, end = curve[:, :-1], curve[:, 1:]
        near = _to_segments(start + share * (end - start), end - share * (end - start), form.size)
        np.maximum(value, form.thickness / 2 + 0.5 - near, out=value)
    near = _to_segments(made.discs, made.discs, form.size)
    np.maximum(value, form.radius + 0.5 - near, out=value)
    return np.rint(255 * value.clip(0, 1)).astype(np.uint8)


def distance_shortcut(made: Scenes) -> float:
    """The best accuracy of a classifier that thresholds the distance of the two discs."""
    distance = np.linalg.norm(made.discs[:, 0] - made.discs[:, 1], axis=-1)
    order = np.argsort(distance)
    last = np.append(np.diff(distance[order]) > 0, True)  # no threshold separates equal distances
    positive = np.cumsum(made.labels[order] * 2 - 1)[last]
    swing = np.concatenate([[0], positive])  # positives minus negatives below each threshold
    negatives = int((made.labels == 0).sum())
    below = negatives + swing  # correct answers if "near" means positive
    return float(max(below.max(), len(made.labels) - below.min())) / len(made.labels)


def _discs(curves: list[Floats], labels: NDArray[np.int64]) -> Floats:
    first, second = curves[0], curves[1]
    joined, apart = np.stack([first[:, 0], first[:, -1]], 1), np.stack([first[:, 0], second[:, 0]], 1)
    return np.where(labels[:, None, None] == 1, joined, apart)


def _walks(
    taken: NDArray[np.bool_],
    length: int,
    generator: np.random.Generator,
    form: Form,
    begun: Floats | None = None,
) -> tuple[Floats, NDArray[np.bool_]]:
    """A walk of ``length`` steps in each image that avoids taken pixels: points (N, length + 1, 2), and whether it is complete.

    ``begun``: the first points of each, (N, at least 2, 2); None: random.
    """
    images, step = len(taken), form.dash + form.gap
    shape = (images, WALKS)
    points = np.zeros((*shape, length + 1, 2), np.float32)
    if begun is None:
        points[:, :, 0] = generator.uniform(form.clearance, form.size - form.clearance, (*shape, 2))
        heading, known = generator.uniform(-np.pi, np.pi, shape), 1
    else:
        known = begun.shape[1]
        points[:, :, :known] = begun[:, None]
        along = begun[:, -1] - begun[:, -2]
        heading = np.broadcast_to(np.arctan2(along[:, 1], along[:, 0])[:, None], shape)
    alive = np.ones(shape, bool)
    for place in range(known):
        alive &= _free(taken, points[:, :, place], form)
    each = np.arange(images)[:, None]
    for place in range(known, length + 1):
        # A walk that ended is replaced by a copy of a random surviving one of its image.
        order = np.argsort(~alive, axis=1, kind="stable")
        living = np.maximum(alive.sum(1, keepdims=True), 1)
        pick = order[each, (generator.random(shape) * living).astype(np.int64)]
        source = np.where(alive, np.arange(WALKS), pick)
        points, heading, alive = points[each, source], heading[each, source], alive[each, source]
        heading = heading + generator.uniform(-form.turn, form.turn, shape)
        move = step * np.stack([np.cos(heading), np.sin(heading)], -1).astype(np.float32)
        new = points[:, :, place - 1] + move
        points[:, :, place] = new
        alive &= _free(taken, new, form) & _free(taken, new - move / 2, form)
        far = np.linalg.norm(points[:, :, : place - 1] - new[:, :, None], axis=-1) >= step
        alive &= far.all(-1)
    return points[np.arange(images), alive.argmax(1)], np.asarray(alive.any(1))


def _free(taken: NDArray[np.bool_], points: Floats, form: Form) -> NDArray[np.bool_]:
    """Whether points (N, W, 2) are away from the border and not on a taken pixel."""
    inside = ((points >= form.clearance) & (points <= form.size - form.clearance)).all(-1)
    pixel = points.astype(np.int64).clip(0, form.size - 1)
    return inside & ~taken[np.arange(len(points))[:, None], pixel[..., 1], pixel[..., 0]]


def _distance(points: Floats, size: int) -> Floats:
    """Distance of each pixel's centre from a polyline: (N, size, size)."""
    return _to_segments(points[:, :-1], points[:, 1:], size)


def _to_segments(start: Floats, end: Floats, size: int) -> Floats:
    """Distance of each pixel's centre from the nearest segment (N, S, 2), or point if both ends coincide."""
    least = np.full((len(start), size, size), np.inf, np.float32)
    centre = np.arange(size, dtype=np.float32) + 0.5
    for a, b in zip(np.moveaxis(start, 1, 0), np.moveaxis(end, 1, 0)):
        along = b - a
        squared = np.maximum((along**2).sum(-1), 1e-12)
        x, y = centre - a[:, :1], centre - a[:, 1:]  # (N, size) each
        u = (y[:, :, None] * along[:, 1, None, None] + x[:, None, :] * along[:, 0, None, None]) / squared[
            :, None, None
        ]
        u = u.clip(0, 1)
        dx = x[:, None, :] - u * along[:, 0, None, None]
        dy = y[:, :, None] - u * along[:, 1, None, None]
        np.minimum(least, dx**2 + dy**2, out=least)
    return np.sqrt(least)
