"""Local copies of data sets, named by the environment variable RELEARN_MIRROR.

The variable names a folder with one folder per data set, such as ``$RELEARN_MIRROR/cifar10``. It is not a setting of a
run, because the place of the bytes must not change the identity of the run.
"""

from __future__ import annotations

import os
from pathlib import Path


def mirror_of(dataset: str) -> Path | None:
    """Return ``$RELEARN_MIRROR/<dataset>`` if it is a folder, else None.

    Raises:
        ValueError: RELEARN_MIRROR itself names no folder.
    """
    mirror = os.environ.get("RELEARN_MIRROR")
    if not mirror:
        return None
    if not Path(mirror).is_dir():
        raise ValueError(
            f"RELEARN_MIRROR: {mirror} is not a folder; allowed: a folder that holds one folder a data set"
        )
    folder = Path(mirror) / dataset
    return folder if folder.is_dir() else None
