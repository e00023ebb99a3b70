r"""Images in class folders, as in ImageNet: ``<folder>/<class>/<name>.JPEG``, decoded on the fly.

Training images are cropped and resized at random (Szegedy et al., 2015) and flipped horizontally with probability 1/2, in
threads that decode ahead (decoding and resizing release Python's GIL). The crop covers a fraction of the image's area drawn from
U(``scale``), and the logarithm of its ratio of width to height is drawn from U(log ``ratio``). A crop that does not fit is drawn
again, at most ten times; then the largest central crop within ``ratio`` is used. Each image of an epoch has its own random
numbers, seeded by the epoch's generator and its position in the listing, so the result does not depend on the threads.

Validation images are resized to ``resize`` on their shorter side and cropped centrally, once, into one uint8 tensor that can be
stored in a file (ImageNet's 50,000 at 224: 7.5 GB, memory-mapped).

Classes are the folders in alphabetical order, which for ImageNet is the usual order of its 1,000 classes. The images are
available at https://image-net.org under their own terms; nothing is downloaded here.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import math
import os
import random
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from relearn.data.class_folders import SUFFIXES, files_of
from relearn.data.evenly_spaced import evenly_spaced_places

TRIES = 10
AHEAD = 2  # batches decoded in advance
Box = tuple[int, int, int, int]
Range = tuple[float, float]


@dataclass(frozen=True)
class Listing:
    """The files of a folder, ordered by class and name; ``labels[i]`` is the position of ``files[i]``'s class."""

    files: tuple[Path, ...]
    labels: Tensor
    """(N,) int64."""
    classes: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.files)

    def take(self, positions: Sequence[int]) -> Listing:
        """A subset of the files, with the same classes."""
        return Listing(tuple(self.files[i] for i in positions), self.labels[list(positions)], self.classes)

    def evenly_spaced(self, count: int) -> Listing:
        """``count`` evenly spaced files (0: all); they are sorted by class, so the first ones would cover few classes."""
        return self.take(evenly_spaced_places(len(self), count)) if 0 < count < len(self) else self


def decoding_threads() -> int:
    """Number of decoding threads: the cores of this process, at most 16; it does not change the images."""
    own = getattr(os, "sched_getaffinity", None)
    return max(2, min(16, len(own(0)) if own else os.cpu_count() or 2))


def listing(folder: Path, *, classes: Sequence[str] | None = None) -> Listing:
    """Find the images of ``<folder>/<class>/``. A hidden folder is no class: it would come first and shift every label.

    Args:
        folder: such as ``imagenet/train``.
        classes: the classes in order, for example those of the training folder; None: the folders found, alphabetically.

    Raises:
        ValueError: no class folder, a class without an image, or a folder that is not one of the classes.
        OSError: the folder cannot be read.
    """
    found = files_of(folder)
    if not found:
        raise ValueError(
            f"{folder}: no class folders; required: {folder.name}/<class>/*.JPEG, one folder per class"
        )
    if classes is not None and (strange := sorted(set(found) - set(classes))):
        raise ValueError(
            f"{folder}: class {strange[0]!r} is unknown; allowed: the {len(classes)} given classes"
        )
    named = tuple(found if classes is None else classes)
    files: list[Path] = []
    labels: list[int] = []
    for label, name in enumerate(named):
        images = [folder / name / file for file in found.get(name, ())]
        if not images:
            raise ValueError(f"{folder / name}: no images; allowed: at least one of {', '.join(SUFFIXES)}")
        files += images
        labels += [label] * len(images)
    return Listing(tuple(files), torch.tensor(labels, dtype=torch.int64), named)


def crop_box(width: int, height: int, draw: random.Random, *, scale: Range, ratio: Range) -> Box:
    """(left, top, right, bottom) of a random crop; see the module."""
    for _ in range(TRIES):
        area = width * height * draw.uniform(*scale)
        shape = math.exp(draw.uniform(math.log(ratio[0]), math.log(ratio[1])))
        w, h = round(math.sqrt(area * shape)), round(math.sqrt(area / shape))
        if 0 < w <= width and 0 < h <= height:
            left, top = draw.randint(0, width - w), draw.randint(0, height - h)
            return left, top, left + w, top + h
    shape = min(max(width / height, ratio[0]), ratio[1])
    w, h = min(width, max(1, round(height * shape))), min(height, max(1, round(width / shape)))
    left, top = (width - w) // 2, (height - h) // 2
    return left, top, left + w, top + h


class FolderBatches:
    """A source of augmented batches for ``relearn.methods.fit``: (pixels (B, 3, S, S) uint8, labels (B,) int64), on the CPU.

    A last batch of one image is dropped, because batch normalisation cannot use it.

    Args:
        images: result of ``listing``.
        batch_size: B.
        size: S, pixels.
        scale: smallest and largest fraction of the area.
        ratio: smallest and largest ratio of width to height.
        flip: flip horizontally with probability 1/2.
        workers: decoding threads.
        part: (rank, number of processes): decode only this process's share of every batch, contiguous rows as in
            `relearn.methods.batch_source.share`. The labels are those of the whole batch.

    Raises:
        ValueError: a number is out of range, there are fewer than 2 images, or a process has no share of the last batch;
            during iteration, an image cannot be decoded (the message names it).
    """

    def __init__(
        self,
        images: Listing,
        *,
        batch_size: int,
        size: int = 224,
        scale: Range = (0.08, 1.0),
        ratio: Range = (3 / 4, 4 / 3),
        flip: bool = True,
        workers: int = 8,
        part: tuple[int, int] = (0, 1),
    ) -> None:
        for name, value, least in (("batch_size", batch_size, 2), ("size", size, 1), ("workers", workers, 1)):
            if value < least:
                raise ValueError(f"{name} is {value}; allowed: {least} or more")
        if not 0 < scale[0] <= scale[1] <= 1:
            raise ValueError(f"scale is {scale}; allowed: 0 < smallest <= largest <= 1")
        if not 0 < ratio[0] <= ratio[1]:
            raise ValueError(f"ratio is {ratio}; allowed: 0 < smallest <= largest")
        if len(images) < 2:
            raise ValueError(f"images: {len(images)}; allowed: 2 or more")
        last = len(images) % batch_size
        last = last if last > 1 else min(batch_size, len(images))
        if last < part[1]:
            raise ValueError(
                f"batch_size: the last batch has {last} rows for {part[1]} processes; choose another batch size"
            )
        self.images, self.batch_size, self.size, self.flip = images, batch_size, size, flip
        self.scale, self.ratio, self.workers, self.part = scale, ratio, workers, part
        self.batches_per_epoch = len(images) // batch_size + (len(images) % batch_size > 1)

    def __len__(self) -> int:
        """Images per epoch."""
        return len(self.images)

    def epoch(self, generator: torch.Generator) -> Iterator[tuple[Tensor, Tensor]]:
        """The batches of one epoch; order and one seed are drawn from ``generator`` before the first batch."""
        order = torch.randperm(len(self.images), generator=generator)
        seed = int(torch.randint(2**62, (1,), generator=generator))
        groups = [group for group in order.split(self.batch_size) if len(group) > 1]
        pool = ThreadPoolExecutor(self.workers)
        waiting: deque[list[Future[NDArray[np.uint8]]]] = deque()
        try:
            for number in range(len(groups) + AHEAD):
                if number < len(groups):
                    positions = groups[number].tolist()
                    rank, size = self.part
                    own = positions[rank * len(positions) // size : (rank + 1) * len(positions) // size]
                    waiting.append([pool.submit(self.one, i, seed) for i in own])
                if number >= AHEAD:
                    pixels = np.stack([future.result() for future in waiting.popleft()])
                    yield torch.from_numpy(pixels), self.images.labels[groups[number - AHEAD]]
        finally:  # also if the iterator is not exhausted
            pool.shutdown(cancel_futures=True)

    def pools(self, *, seed: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Endless batches, pixels as float32 in [0, 1], for an initialisation, with a separate generator."""
        generator = torch.Generator().manual_seed(seed)
        while True:
            for pixels, labels in self.epoch(generator):
                yield pixels.float() / 255.0, labels

    def one(self, position: int, seed: int) -> NDArray[np.uint8]:
        """(3, S, S) uint8, augmented with random numbers that depend on ``seed`` and ``position`` only."""
        draw = random.Random(f"{seed} {position}")
        image = decode_rgb(self.images.files[position])
        box = crop_box(*image.size, draw, scale=self.scale, ratio=self.ratio)
        image = image.crop(box).resize((self.size, self.size), Image.Resampling.BILINEAR)
        if self.flip and draw.random() < 0.5:
            image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        return _channels_first(image)


def central(
    image: Image.Image,
    *,
    size: int,
    resize: int,
    interpolation: Image.Resampling = Image.Resampling.BILINEAR,
    squash: bool = False,
) -> Image.Image:
    """Resize the shorter side (both sides if ``squash``) to ``resize``, then crop the central ``size`` × ``size`` pixels.

    Raises:
        ValueError: the crop is larger than the resized image.
    """
    if not 1 <= size <= resize:
        raise ValueError(f"size is {size}; allowed: 1 to resize = {resize}")
    width, height = image.size
    short = min(width, height)
    if squash:
        width = height = resize
    else:
        width, height = resize * width // short, resize * height // short
    image = image.resize((width, height), interpolation)
    left, top = round((width - size) / 2), round((height - size) / 2)
    return image.crop((left, top, left + size, top + size))


def validation(
    images: Listing, *, size: int = 224, resize: int = 256, workers: int = 8, cache: Path | None = None
) -> Tensor:
    """All images as (N, 3, size, size) uint8, in the listing's order; labels are ``images.labels``.

    Args:
        images: result of ``listing``.
        size: side of the crop (pixels).
        resize: shorter side before cropping (pixels).
        workers: decoding threads.
        cache: a folder for the decoded pixels; the file's name is a hash of everything they depend on (names, sizes and
            times of the images, size, resize), and the file is memory-mapped. None keeps them in memory.

    Raises:
        ValueError: an image cannot be decoded (the message names it).
        OSError: the cache cannot be written.
    """
    shape = (len(images), 3, size, size)
    if cache is None:
        pixels = np.empty(shape, np.uint8)
        _fill(pixels, images, size, resize, workers)
        return torch.from_numpy(pixels)
    digest = hashlib.sha256(f"{size} {resize}\n".encode())
    for path in images.files:
        state = path.stat()
        digest.update(f"{path.parent.name}/{path.name} {state.st_size} {state.st_mtime_ns}\n".encode())
    place = cache / f"validation-{digest.hexdigest()[:32]}.npy"
    if (kept := _kept(place, shape)) is None:
        cache.mkdir(parents=True, exist_ok=True)
        part = place.with_name(f".{place.name}.{os.getpid()}.part")
        try:
            mapped = np.lib.format.open_memmap(part, mode="w+", dtype=np.uint8, shape=shape)
            _reserve(part)
            _fill(mapped, images, size, resize, workers)
            mapped.flush()
            os.replace(part, place)
        finally:
            part.unlink(missing_ok=True)
        kept = _kept(place, shape)
    assert kept is not None  # it has just been written
    return kept


def _kept(place: Path, shape: tuple[int, ...]) -> Tensor | None:
    """The pixels in the cache; None if there are none, or a torn file."""
    try:
        # Copy on write: torch requires writable memory, but writes must not reach the file.
        found = np.load(place, mmap_mode="c", allow_pickle=False)
    except (FileNotFoundError, ValueError, EOFError):
        return None
    return torch.from_numpy(found) if found.shape == shape else None


def _reserve(path: Path) -> None:
    """Allocate the blocks of a file: on a full disk, writing through a map ends the process (SIGBUS)."""
    with path.open("r+b") as file, contextlib.suppress(AttributeError):  # macOS has no such call
        try:
            os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
        except OSError as fault:
            if fault.errno in (errno.ENOSPC, errno.EDQUOT):  # others: the file system cannot reserve
                raise OSError(fault.errno, fault.strerror, str(path)) from None


def decode_rgb(path: Path, content: bytes | None = None) -> Image.Image:
    """The image as RGB; ``content`` is that of the file, if it has been read already.

    Raises:
        ValueError: it cannot be decoded.
    """
    try:
        with Image.open(path if content is None else io.BytesIO(content)) as image:
            return image.convert("RGB")
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as fault:
        raise ValueError(
            f"{path}: not an image that can be decoded ({' '.join(str(fault).split())})"
        ) from None


def _fill(pixels: NDArray[np.uint8], images: Listing, size: int, resize: int, workers: int) -> None:
    def one(position: int) -> None:
        image = central(decode_rgb(images.files[position]), size=size, resize=resize)
        pixels[position] = _channels_first(image)

    with ThreadPoolExecutor(workers) as pool:
        for _ in pool.map(one, range(len(images))):
            pass


def _channels_first(image: Image.Image) -> NDArray[np.uint8]:
    return np.ascontiguousarray(np.asarray(image, np.uint8).transpose(2, 0, 1))
