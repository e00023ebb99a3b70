"""Where downloaded files lie: ``RELEARN_CACHE``, else the platform's place for caches."""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from pathlib import Path


def cache_folder() -> Path:
    """``RELEARN_CACHE``, else ~/.cache/relearn (XDG_CACHE_HOME) or what macOS and Windows have instead."""
    if chosen := os.environ.get("RELEARN_CACHE"):
        return Path(chosen).expanduser()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "relearn"
    variable, default = ("LOCALAPPDATA", "AppData/Local") if os.name == "nt" else ("XDG_CACHE_HOME", ".cache")
    return Path(os.environ.get(variable) or Path.home() / default) / "relearn"


def private_folder() -> Path:
    """What serves where the cache cannot be written: this user's own folder below the temporary one."""
    user = os.getuid() if hasattr(os, "getuid") else os.environ.get("USERNAME", "user")
    return Path(tempfile.gettempdir()) / f"relearn-{user}"


def writable_folder(wanted: Path) -> tuple[Path, str]:
    """``wanted``, made if need be, or the private folder, and then one line that says why.

    Raises:
        OSError: the private folder cannot be written either, or it belongs to somebody else.
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
    # In a folder that everybody may write to, somebody may have been there first.
    strange = hasattr(os, "getuid") and (found.st_uid != os.getuid() or found.st_mode & 0o077)
    if not stat.S_ISDIR(found.st_mode) or strange:
        raise OSError(f"{private}: not a folder of this user alone; set RELEARN_CACHE to a folder of yours")
    return private, f"cache {wanted}: {reason}; {private} serves instead (RELEARN_CACHE names another)"
