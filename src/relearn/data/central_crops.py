"""Test images in class folders, decoded in the background batch by batch, for a single pass without holding all images in memory."""

from __future__ import annotations

import hashlib
import math
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from relearn.data.imagenet_folder import AHEAD, Listing, central, decode_rgb

INTERPOLATIONS = {
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
    "lanczos": Image.Resampling.LANCZOS,
}
CROP_MODES = ("center", "squash")
"""Those of timm's 1,000-class checkpoints."""


def batches(
    images: Listing,
    *,
    size: int,
    crop_ratio: float,
    interpolation: str,
    batch_size: int,
    crop_mode: str = "center",
    workers: int = 8,
    faults: dict[int, str] | None = None,
    digests: dict[Path, str] | None = None,
) -> Iterator[tuple[Tensor, Tensor]]:
    """(pixels (B, 3, size, size) uint8, labels (B,)) of all images in order; the last batch may be smaller.

    Args:
        images: result of :func:`relearn.data.imagenet_folder.listing`.
        size: side of the crop in pixels.
        crop_ratio: side of the crop relative to the shorter side of the resized image, ⌊size / crop_ratio⌋; 0.875 is 224 of 256.
        interpolation: one of :data:`INTERPOLATIONS`.
        batch_size: B.
        crop_mode: ``center`` keeps the ratio of width to height; ``squash`` resizes both sides to ⌊size / crop_ratio⌋.
        workers: decoding threads.
        faults: receives position → error for each image that cannot be decoded, which is then skipped; None: an error is raised.
        digests: receives file → sha256 of its bytes, so that no file is read twice; None: without.

    Raises:
        ValueError: a number out of range, an unknown interpolation or crop mode, or (without ``faults``) an image that cannot be decoded,
            named in the message.
    """
    if interpolation not in INTERPOLATIONS:
        raise ValueError(f"interpolation is {interpolation!r}; allowed: {', '.join(INTERPOLATIONS)}")
    if crop_mode not in CROP_MODES:
        raise ValueError(f"crop_mode is {crop_mode!r}; allowed: {', '.join(CROP_MODES)}")
    if not 0 < crop_ratio <= 1:
        raise ValueError(f"crop_ratio is {crop_ratio}; allowed: above 0, at most 1")
    for name, value in (("size", size), ("batch_size", batch_size), ("workers", workers)):
        if value < 1:
            raise ValueError(f"{name} is {value}; allowed: 1 or more")
    resize, method = math.floor(size / crop_ratio), INTERPOLATIONS[interpolation]

    def one(position: int) -> NDArray[np.uint8] | None:
        path = images.files[position]
        try:
            content = None
            if digests is not None:
                content = path.read_bytes()
                digests[path] = hashlib.sha256(content).hexdigest()
            image = decode_rgb(path, content)
        except ValueError as fault:
            if faults is None:
                raise
            faults[position] = str(fault).removeprefix(f"{path}: ")
            return None
        image = central(image, size=size, resize=resize, interpolation=method, squash=crop_mode == "squash")
        return np.asarray(image, np.uint8).transpose(2, 0, 1)

    groups = torch.arange(len(images)).split(batch_size)
    waiting: deque[list[Future[NDArray[np.uint8] | None]]] = deque()
    pool = ThreadPoolExecutor(workers)
    try:
        for number in range(len(groups) + AHEAD):
            if number < len(groups):
                waiting.append([pool.submit(one, position) for position in groups[number].tolist()])
            if number >= AHEAD:
                found = [future.result() for future in waiting.popleft()]
                kept = [place for place, pixels in enumerate(found) if pixels is not None]
                if kept:
                    pixels = np.stack([pixels for pixels in found if pixels is not None])
                    yield torch.from_numpy(pixels), images.labels[groups[number - AHEAD][kept]]
    finally:  # also if the iterator is not exhausted
        pool.shutdown(cancel_futures=True)
