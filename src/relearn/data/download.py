"""Fetches a file into the cache with pooch, which verifies it before giving it its final name.

pooch downloads to a temporary file, compares the checksum, renames, and tries again after a fault; a file lock keeps
two processes from fetching the same file at once. A file already in the cache is used if its size and checksum are
right, without network access.

``RELEARN_OFFLINE=1`` forbids network access.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from relearn.data.cache import cache_folder, private_folder, writable_folder
from relearn.data.remote import DownloadError, Remote, fault_of


def fetch(
    remote: Remote,
    *,
    folder: Path | None = None,
    timeout_s: float = 30.0,
    retries: int = 3,
    lock_timeout_s: float = 3600.0,
) -> Path:
    """Path of the checked file in the cache; downloads it if it is missing or damaged.

    Args:
        remote: the file.
        folder: cache folder; default ``cache_folder()``.
        timeout_s: longest wait for a connection, and for the next bytes.
        retries: further attempts per address; pooch waits 1, 2, … s before them, at most 10 s.
        lock_timeout_s: longest wait for another process that downloads the same file.

    Raises:
        DownloadError: offline, or every address failed; names the file to fetch and where to put it.
        OSError: the file cannot be written.
    """
    wanted = folder or cache_folder()
    faults: list[str] = []
    for path in (wanted / remote.name, private_folder() / remote.name):
        if path.is_file():
            fault = fault_of(path, remote)
            if not fault:
                return path
            faults.append(f"{path}: {fault}")
    by_hand = (
        f"by hand: fetch {' or '.join(remote.urls)} ({remote.size} bytes, {remote.checksum.replace(':', ' ')}) "
        f"and put it at {wanted / remote.name}"
    )
    if os.environ.get("RELEARN_OFFLINE", "0") not in ("", "0"):
        raise DownloadError(f"{remote.name}: RELEARN_OFFLINE is set; {'; '.join([*faults, by_hand])}")
    from filelock import FileLock, Timeout

    writable, remark = writable_folder(wanted)
    if remark:
        print(remark, file=sys.stderr, flush=True)
    path = writable / remote.name
    try:
        with FileLock(writable / f".{remote.name}.lock", timeout=lock_timeout_s):
            for url in remote.urls:
                if fault := _download(url, path, remote, timeout_s, retries):
                    faults.append(f"{url}: {fault}")
                else:
                    return path
    except Timeout:
        faults.append(f"another process has been downloading it for {lock_timeout_s:.0f} s")
    raise DownloadError(f"{remote.name}: {'; '.join([*faults, by_hand])}")


def _download(url: str, path: Path, remote: Remote, timeout_s: float, retries: int) -> str:
    """Why ``url`` failed; "" if the file is in place, from there or from another process that was faster."""
    import pooch
    from requests import RequestException

    # Without "identity", a server that labels an archive as gzip-encoded content makes requests unpack it.
    downloader = pooch.HTTPDownloader(timeout=timeout_s, headers={"Accept-Encoding": "identity"})
    registry = pooch.create(
        path=path.parent,
        base_url="",
        registry={remote.name: remote.checksum},
        urls={remote.name: url},
        retry_if_failed=retries,
    )
    try:
        registry.fetch(remote.name, downloader=downloader)
    except (RequestException, ValueError, OSError) as error:
        if (
            isinstance(error, OSError) and error.errno and not isinstance(error, RequestException)
        ):  # the disk's
            raise OSError(error.errno, error.strerror, str(path)) from None
        return " ".join(f"{type(error).__name__} {error}".split())
    path.chmod(0o644)  # pooch creates it for its owner only; a cache may be shared
    return ""
