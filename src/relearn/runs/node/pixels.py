r"""Store 8-bit images losslessly in fewer bytes, as residuals of a prediction from the neighbouring pixels.

Green is subtracted from red and from blue, then from every pixel its median edge prediction (LOCO-I)

.. math:: p = \begin{cases} \min(W, N) & NW \ge \max(W, N) \\ \max(W, N) & NW \le \min(W, N) \\ W + N - NW & \text{else}
          \end{cases}

from its western, northern and north-western neighbours, all modulo 256. The length of a file does not change: only the bytes of its
image tensors are replaced, (N, C, H, W) of type U8 in safetensors. zlib compresses CIFAR-10 to 92% of its size, and to 60% after this.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
CHUNK = 5000  # images at once


def shrunk(content: bytes) -> bytes:
    """The content of a safetensors file with its images replaced by residuals."""
    return _each_image(content, residuals)


def restore(content: bytes) -> bytes:
    """The inverse of :func:`shrunk`."""
    return _each_image(content, images)


def residuals(pixels: Bytes) -> Bytes:
    """(N, C, H, W) images to residuals."""
    found = pixels.copy()
    if pixels.shape[1] == 3:
        found[:, 0] -= pixels[:, 1]
        found[:, 2] -= pixels[:, 1]
    west, north, corner = (np.zeros_like(found) for _ in range(3))
    west[..., 1:] = found[..., :-1]
    north[..., 1:, :] = found[..., :-1, :]
    corner[..., 1:, 1:] = found[..., :-1, :-1]
    return found - _median_edge(west, north, corner)


def images(left: Bytes) -> Bytes:
    """Residuals to (N, C, H, W) images."""
    # pixel axes first, so that each step of the scan works on contiguous memory
    ordered = np.ascontiguousarray(left.transpose(2, 3, 0, 1))
    nothing = np.zeros_like(ordered[0, 0])
    for y in range(ordered.shape[0]):
        for x in range(ordered.shape[1]):
            west = ordered[y, x - 1] if x else nothing
            north = ordered[y - 1, x] if y else nothing
            corner = ordered[y - 1, x - 1] if x and y else nothing
            ordered[y, x] += _median_edge(west, north, corner)
    found = np.ascontiguousarray(ordered.transpose(2, 3, 0, 1))
    if found.shape[1] == 3:
        found[:, 0] += found[:, 1]
        found[:, 2] += found[:, 1]
    return found


def _median_edge(west: Bytes, north: Bytes, corner: Bytes) -> Bytes:
    low, high = np.minimum(west, north), np.maximum(west, north)
    return np.where(corner >= high, low, np.where(corner <= low, high, west + north - corner))


def _each_image(content: bytes, change: Callable[[Bytes], Bytes]) -> bytes:
    whole = bytearray(content)
    for start, shape in image_tensors(content):
        count, size = shape[0], int(np.prod(shape[1:]))
        for first in range(0, count, CHUNK):
            rows = min(CHUNK, count - first)
            at = start + first * size
            part = np.frombuffer(content, np.uint8, rows * size, at).reshape(rows, *shape[1:])
            whole[at : at + rows * size] = change(part).tobytes()
    return bytes(whole)


def image_tensors(content: bytes) -> Iterator[tuple[int, list[int]]]:
    """Offset in the file and shape of every image tensor."""
    length = int.from_bytes(content[:8], "little")
    header: dict[str, Any] = json.loads(content[8 : 8 + length])
    for name, one in header.items():
        if name != "__metadata__" and one["dtype"] == "U8" and len(one["shape"]) == 4:
            yield 8 + length + one["data_offsets"][0], one["shape"]
