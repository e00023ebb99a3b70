"""One file from the net into the cache: checked before it is put in place, resumed where it broke off.

urllib does it. The package pooch checks and caches too, but it neither resumes, nor limits size, nor
looks where a redirect leads; what is left of it, a hash and a folder's name, is less than the work of
carrying it.

A download goes to ``.<name>.part`` in the cache. What came before a fault stays there, and the next try
asks for the rest (a server that ignores the question sends everything, which is understood). The file is
renamed into place only when size and checksums are right. Faults are tried again, all addresses in turn,
with growing pauses; what cannot get better (404, 403) is not. A lock keeps a second process from the same
file; it ends with the process that holds it.

``RELEARN_OFFLINE=1`` forbids the net: then what is missing is said, with address, checksum and place.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from relearn.data.cache import cache_folder, private_folder, writable_folder
from relearn.data.remote import DownloadError, Remote, fault_of, say
from relearn.data.transfer import Transfer


def fetch(
    remote: Remote,
    *,
    folder: Path | None = None,
    timeout_s: float = 30.0,
    attempts: int = 4,
    pause_s: float = 1.0,
    deadline_s: float = 3600.0,
    loopback_http: bool = False,
) -> Path:
    """The checked file in the cache, downloaded unless it is there.

    Args:
        remote: what is wanted.
        folder: instead of ``cache_folder()``.
        timeout_s: a server that says nothing for so long has failed.
        attempts: rounds through all addresses.
        pause_s: before the second round; twice as long before each further one, at most a minute.
        deadline_s: for everything together, so that a server that drips cannot hold a job for ever.
        loopback_http: allow plain http from 127.0.0.1, for tests.

    Raises:
        DownloadError: offline, or every address failed; says what to fetch and where to put it.
    """
    wanted = folder or cache_folder()
    faults: list[str] = []
    for place in (wanted / remote.name, private_folder() / remote.name):
        if place.is_file():
            fault = fault_of(place, remote)
            if not fault:
                return place
            faults.append(f"{place}: {fault}")
    known = f"sha256 {remote.sha256}" if remote.sha256 else f"md5 {remote.md5}"
    by_hand = (
        f"by hand: fetch {' or '.join(remote.urls)} ({remote.size} bytes, {known}) and put it "
        f"at {wanted / remote.name}"
    )
    if os.environ.get("RELEARN_OFFLINE", "0") not in ("", "0"):
        raise DownloadError(f"{remote.name}: RELEARN_OFFLINE is set; {'; '.join([*faults, by_hand])}")
    from filelock import FileLock, Timeout

    folder, remark = writable_folder(wanted)
    if remark:
        say(remark)
    end = time.monotonic() + deadline_s
    try:
        with FileLock(folder / f".{remote.name}.lock", timeout=deadline_s):
            place = folder / remote.name
            if place.is_file() and not fault_of(place, remote):  # another process was faster
                return place
            transfer = Transfer(remote, folder / f".{remote.name}.part", timeout_s, end, loopback_http)
            faults += transfer.run(attempts, pause_s)
            if transfer.complete:
                os.replace(transfer.part, place)
                return place
    except Timeout:
        faults.append(f"another process has been fetching it for {deadline_s:.0f} s")
    raise DownloadError(f"{remote.name}: {'; '.join(dict.fromkeys(faults))}; {by_hand}")
