"""Poisons of a user's own, read from their files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray


def read(path: Path) -> NDArray[Any]:
    """The images (T, k, C, H, W) of a file with the array ``poisons``, or of a folder of folders of PNG files.

    Raises:
        ValueError: no file or folder of a known form.
    """
    import numpy as np

    if path.suffix == ".safetensors":
        from safetensors.numpy import load_file

        held: Any = load_file(path)
    elif path.suffix == ".npz":
        held = np.load(path, allow_pickle=False)
    elif path.is_dir():
        held = {"poisons": _pictures(path)}
    else:
        raise ValueError(
            f"{path}: found no poisons, allowed: a .safetensors or .npz file, or a folder of folders of PNG files"
        )
    if "poisons" not in held:
        raise ValueError(f"{path}: found no array poisons, allowed: uint8 (T, k, C, H, W)")
    images: NDArray[Any] = np.asarray(held["poisons"])
    if images.dtype != np.uint8 or images.ndim != 5:
        raise ValueError(f"{path}: found {images.dtype} {images.shape}, allowed: uint8 (T, k, C, H, W)")
    return images


def _pictures(folder: Path) -> NDArray[Any]:
    import numpy as np
    from PIL import Image

    sets = []
    for target in sorted(one for one in folder.iterdir() if one.is_dir()):
        pixels = [np.asarray(Image.open(file)) for file in sorted(target.glob("*.png"))]
        sets.append([one.transpose(2, 0, 1) if one.ndim == 3 else one[None] for one in pixels])
    shapes = {(len(one), *{image.shape for image in one}) for one in sets}
    if len(shapes) != 1:
        raise ValueError(
            f"{folder}: found {len(sets)} folders with {sorted(map(str, shapes))}, allowed: the same number and size of PNG files in each"
        )
    return np.array(sets)
