"""Poisons of a user's own, read from their files."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from relearn.data.public_benchmark import consecutive
from relearn.runs.record_file import RecordError

if TYPE_CHECKING:
    from numpy.typing import NDArray

FORMS = "a .safetensors or .npz file, or a folder of folders of PNG files"


def read(path: Path) -> NDArray[Any]:
    """The images (T, k, C, H, W) of a file with the array ``poisons``, or of a folder of folders of PNG files.

    Folders and files are taken in the order of their names, shorter names first: 0, 1, …, 9, 10, with or without leading zeros.

    Raises:
        FileNotFoundError: no such file or folder.
        ValueError: no file or folder of a known form; RecordError for a damaged one.
    """
    import numpy as np

    if not path.exists():
        raise FileNotFoundError(f"{path}: no such file or folder, allowed: {FORMS}")
    images: NDArray[Any] | None
    if path.is_dir():
        images = _pictures(path)
    elif path.suffix not in (".safetensors", ".npz"):
        raise ValueError(f"{path}: found no poisons, allowed: {FORMS}")
    else:
        with _named(path):
            images = _array(path)
    if images is None:
        raise ValueError(f"{path}: found no array poisons, allowed: uint8 (T, k, C, H, W)")
    if images.dtype != np.uint8 or images.ndim != 5 or 0 in images.shape:
        raise ValueError(
            f"{path}: found {images.dtype} {images.shape}, allowed: uint8 (T, k, C, H, W), none 0"
        )
    return images


@contextlib.contextmanager
def _named(path: Path) -> Iterator[None]:
    """Name the file in the error of a reader; these have no common base class."""
    try:
        yield
    except Exception as error:
        if isinstance(error, MemoryError) or getattr(error, "errno", None):
            raise  # the machine's, not the file's
        why = f"{type(error).__name__}: {str(error)[:200]}"
        raise RecordError(f"{path}: cannot be read as poisons ({why}), allowed: {FORMS}") from None


def _array(path: Path) -> NDArray[Any] | None:
    import numpy as np

    if path.suffix == ".npz":
        with path.open("rb") as file:  # NumPy leaves a damaged one open
            held: Any = np.load(file, allow_pickle=False)
            return np.asarray(held["poisons"]) if "poisons" in held else None
    from safetensors.numpy import load_file

    return load_file(path).get("poisons")


def _place(path: Path) -> tuple[int, str]:
    """Where a folder or file stands among its neighbours: 2 before 10, as data/public_benchmark.py orders pickles."""
    return len(path.name), path.name


def _pictures(folder: Path) -> NDArray[Any]:
    import numpy as np
    from PIL import Image

    sets = []
    targets = sorted((one for one in folder.iterdir() if one.is_dir()), key=_place)
    consecutive(folder, [one.name for one in targets])
    for target in targets:
        pixels = []
        for file in sorted((one for one in target.iterdir() if one.suffix.lower() == ".png"), key=_place):
            with _named(file), Image.open(file) as image:
                if image.mode not in ("L", "RGB"):  # the numbers of a palette are no pixels
                    raise ValueError(f"found the mode {image.mode}, allowed: L, RGB")
                pixels.append(np.asarray(image))
        sets.append([one.transpose(2, 0, 1) if one.ndim == 3 else one[None] for one in pixels])
    if not any(sets):
        raise ValueError(f"{folder}: found no PNG files in its {len(sets)} subfolders, allowed: {FORMS}")
    shapes = {(len(one), *{image.shape for image in one}) for one in sets}
    if len(shapes) != 1:
        raise ValueError(
            f"{folder}: found {len(sets)} folders with {sorted(map(str, shapes))}, allowed: the same number and size of PNG files in each"
        )
    return np.array(sets)
