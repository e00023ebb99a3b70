"""Pathfinder as the arena released it: ``pathfinder32/curv_contour_length_14/{imgs/<n>/<name>.png, metadata/<n>.npy}``.

The metadata are plain text despite their suffix: one line per image, with columns separated by blanks. The first two columns are the
image's folder and name, and the fourth is its label, 1 or 0. The hardest setting, curves of 14 dashes, is the arena's task. The first
eight tenths are for training, then a tenth each for validation and test, as in the arena, in the order of the metadata's numbers and
lines. The arena's own order comes from the hashes of a data set library, so its parts hold other images. A sequence consists of the
image's grey values row by row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from relearn.data.evenly_spaced import evenly_spaced_rows
from relearn.data.lra import PARTS
from relearn.data.lra.release import part_of
from relearn.data.lra.samples import Samples, Task

DATASETS = ("generated", "lra_release")
FOLDER, SETTING = "pathfinder32", "curv_contour_length_14"
SIDE = 32
COLUMNS = 4  # at least
Row = tuple[Path, int]


def released(samples: Mapping[str, int], folder: Path, *, workers: int = 8) -> Task:
    """The task of the arena's images, with the given numbers of evenly spaced ones in train, valid and test; 0 is all.

    Args:
        samples: number per part.
        folder: the archive, see :mod:`relearn.data.lra.release`.
        workers: decoding threads.

    Raises:
        ValueError: no metadata, a line of another form, or an image that cannot be decoded or has another size.
        OSError: a file cannot be read.
    """
    root = part_of(folder, FOLDER)
    root = root / SETTING if (root / SETTING).is_dir() else root
    rows = listed(root)
    cuts = [0, len(rows) * 8 // 10, len(rows) * 9 // 10, len(rows)]
    parts: dict[str, Any] = {}
    for part, start, end in zip(PARTS, cuts, cuts[1:]):
        kept = evenly_spaced_rows(rows[start:end], samples[part])
        parts[part] = Samples(_pixels([path for path, _ in kept], workers), [label for _, label in kept])
    return Task(
        "pathfinder",
        "lra_release",
        256,
        2,
        **parts,
        source={"from": "the arena's images", "setting": SETTING},
    )


def listed(root: Path) -> list[Row]:
    """The image and the label of every line of the metadata, with the metadata files in numerical order.

    Raises:
        ValueError: no metadata, a file whose name is not a number, or a line of another form.
    """
    files = list((root / "metadata").glob("*.npy"))
    if not files:
        raise ValueError(
            f"{root}: no metadata/<number>.npy; allowed: {FOLDER}/{SETTING} of the arena's archive"
        )
    if odd := next((path for path in files if not path.stem.isdecimal()), None):
        raise ValueError(f"{odd}: allowed: metadata named by numbers")
    rows: list[Row] = []
    for path in sorted(files, key=lambda one: int(one.stem)):
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
            columns = line.split(" ")
            if len(columns) < COLUMNS or columns[3] not in ("0", "1"):
                raise ValueError(
                    f"{path}: line {number}: {line[:40]!r}; allowed: folder, name, number and label (0 or 1), with blanks between"
                )
            rows.append((root / columns[0] / columns[1], int(columns[3])))
    return rows


def _pixels(files: Sequence[Path], workers: int) -> list[bytes]:
    from PIL import Image

    def one(path: Path) -> bytes:
        try:
            with Image.open(path) as image:
                grey = np.asarray(image.convert("L"), np.uint8)
        except (OSError, SyntaxError, ValueError) as fault:
            raise ValueError(
                f"{path}: not an image that can be decoded ({' '.join(str(fault).split())})"
            ) from None
        if grey.shape != (SIDE, SIDE):
            raise ValueError(f"{path}: {grey.shape[1]} x {grey.shape[0]} pixels; allowed: {SIDE} x {SIDE}")
        return grey.tobytes()

    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(one, files))
