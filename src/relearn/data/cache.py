"""Location of downloaded files: ``RELEARN_CACHE``, else the platform's cache folder."""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from pathlib import Path


def cache_folder() -> Path:
    """``RELEARN_CACHE``, else ~/.cache/relearn (XDG_CACHE_HOME) or its equivalent on macOS and Windows."""
    if chosen := os.environ.get("RELEARN_CACHE"):
        return Path(chosen).expanduser()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "relearn"
    variable, default = ("LOCALAPPDATA", "AppData/Local") if os.name == "nt" else ("XDG_CACHE_HOME", ".cache")
    return Path(os.environ.get(variable) or Path.home() / default) / "relearn"


def private_folder() -> Path:
    """Fallback if the cache is not writable: this user's own folder in the temporary folder."""
    user = os.getuid() if hasattr(os, "getuid") else os.environ.get("USERNAME", "user")
    return Path(tempfile.gettempdir()) / f"relearn-{user}"


def writable_folder(wanted: Path) -> tuple[Path, str]:
    """``wanted``, created if necessary, and ""; or the private folder and one line with the reason.

    Raises:
        OSError: the private folder is not writable either, or belongs to another user.
    """
    try:
        wanted.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=wanted):
            return wanted, ""
    except OSError as fault:
        reason = fault.strerror or str(fault)
    private = private_folder()
    private.mkdir(mode=0o700, exist_ok=True)
    found = private.lstat()
    # In a world-writable folder, another user may have created it first.
    strange = hasattr(os, "getuid") and (found.st_uid != os.getuid() or found.st_mode & 0o077)
    if not stat.S_ISDIR(found.st_mode) or strange:
        raise OSError(
            f"{private}: not a private folder of this user; set RELEARN_CACHE to a folder of your own"
        )
    return private, f"cache {wanted}: {reason}; using {private} instead (set RELEARN_CACHE to choose another)"
