"""Write the file of a prepared data set; :mod:`relearn.data.arrays` describes and reads it. This module does not import torch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def write(path: Path, tensors: dict[str, Any], *, dataset: str, classes: tuple[str, ...]) -> None:
    """Write arrays as safetensors; equal data give equal bytes."""
    import numpy as np
    from safetensors.numpy import save_file

    # One key, because safetensors keeps several keys in no fixed order.
    header = json.dumps({"data set": dataset, "classes": list(classes)}, sort_keys=True)
    arrays = {name: np.ascontiguousarray(array) for name, array in tensors.items()}
    path.touch()
    mode = path.stat().st_mode  # the umask's mode; safetensors makes files that only their owner can read
    save_file(arrays, path, {"relearn": header})
    path.chmod(mode)
