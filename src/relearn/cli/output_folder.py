"""The folder that an option names for the files of a verb: checked before the work, made when there is something to write."""

from __future__ import annotations

import os
from pathlib import Path


def check(option: str, folder: Path) -> None:
    """Check that the folder is there or can be made; nothing is written.

    Raises:
        ValueError: it or one above it is a file, or not writable; one line.
    """
    there = next(one for one in (folder, *folder.absolute().parents) if os.path.lexists(one))
    above = "" if there == folder else f" at {there}"
    if not there.is_dir():
        raise ValueError(f"{option} {folder}: found a file{above}, allowed: a folder")
    if not os.access(there, os.W_OK | os.X_OK):
        raise ValueError(
            f"{option} {folder}: found a folder without write permission{above}, allowed: one with it"
        )
