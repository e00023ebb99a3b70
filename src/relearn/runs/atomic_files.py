"""Files that survive a kill: canonical JSON, sha256, atomic replacement by rename, and a lock that is released when its
owner dies.

A file is written next to its final place, flushed to the disk and renamed over it, so a reader sees the old
bytes or the new ones, never a mixture. Standard library only.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any

RESOURCE_FAULTS = (
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EIO,
    errno.EFBIG,
    errno.EMFILE,
    errno.ENFILE,
    errno.EROFS,
    errno.EACCES,
)


STAGED = ".staged-"
STARTS_WITHIN_S = 60.0  # a new folder is locked at once; an older one without a lock was left by a kill


class Busy(RuntimeError):
    """Another live process holds the lock; the message is one line and names its pid."""


def canonical(obj: Any) -> str:
    """A unique text for each value: sorted keys, no spaces, ASCII only, no NaN or infinity; independent of locale
    and hash seed.

    Raises ValueError for NaN and infinity, TypeError for a key that is not a string (1 and "1" would become the same
    key) and for a value that JSON cannot hold.
    """
    _text_keys(obj, "")
    return json.dumps(obj, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def _text_keys(obj: Any, where: str) -> None:
    if isinstance(obj, dict):
        for key, value in obj.items():
            if not isinstance(key, str):
                raise TypeError(
                    f"{where or 'value'}: key {key!r} is {type(key).__name__}, only text is allowed"
                )
            _text_keys(value, f"{where}.{key}" if where else key)
    elif isinstance(obj, (list, tuple)):
        for value in obj:
            _text_keys(value, where)


def digest(path: Path | str) -> str:
    """sha256 of a file's bytes, 64 hexadecimal digits."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write(path: Path | str, content: bytes) -> None:
    """Replace the file at `path` by `content` in one rename; a kill at any moment leaves the old file or the new one.

    If the disk refuses, raises an OSError whose one line names the file and the free space; the temporary file
    is removed and the old file stays.
    """
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
        try:
            view = memoryview(content)
            while view:
                view = view[os.write(descriptor, view) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.replace(temporary, path)
        sync_folder(path.parent)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno in RESOURCE_FAULTS:
            raise refusal(error.errno, path) from error
        raise


def refusal(number: int, path: Path) -> OSError:
    """The error for a `path` that the disk refuses to write, with the free space there."""
    return OSError(number, f"{os.strerror(number)} ({_free(path.parent)} free)", str(path))


def probe(folder: Path) -> None:
    """Write and remove one byte in `folder`, so that an unwritable disk fails before hours of work and not after them.

    Raises OSError as `write` does.
    """
    place = folder / ".probe"
    write(place, b".")
    place.unlink(missing_ok=True)


def public(path: Path | str) -> None:
    """Give a file the default mode under the umask; some writers create files that only their owner can read."""
    umask = os.umask(0)
    os.umask(umask)
    os.chmod(path, 0o666 & ~umask)


@contextlib.contextmanager
def staged(target: Path) -> Iterator[Path]:
    """Yield an empty folder inside ``target``; when the block succeeds, its files replace those of ``target``.

    A file ``tables/a.csv`` of the yielded folder becomes ``target/tables/a.csv`` in one rename. If the block raises or the
    process is killed, every old file of ``target`` stays as it was. The next call removes the folder that a killed process left.

    Raises:
        OSError: the disk refuses.
    """
    for left in target.glob(f"{STAGED}*"):
        with contextlib.suppress(FileNotFoundError):  # another call has renamed or removed it
            unlocked = left.name.startswith(f"{STAGED}new-")
            if lock_is_free(left / "lock") and not (
                unlocked and time.time() - left.stat().st_mtime < STARTS_WITHIN_S
            ):
                shutil.rmtree(left)
    made = Path(tempfile.mkdtemp(prefix=STAGED + "new-", dir=target))
    with Lock(made / "lock"):
        folder = made.rename(target / f"{STAGED}{os.getpid()}")  # gets this name only once it is locked
        try:
            new = folder / "new"
            new.mkdir()
            yield new
            _put_in_place(new, target)
        finally:
            shutil.rmtree(folder)


def _put_in_place(new: Path, target: Path) -> None:
    """Rename every file below ``new`` to the same place below ``target``; SIGINT, SIGTERM and SIGHUP are deferred until all are there."""
    files = sorted(path for path in new.rglob("*") if path.is_file())
    folders = {target / path.relative_to(new).parent for path in files}
    for folder in folders:
        folder.mkdir(parents=True, exist_ok=True)
    for path in files:
        sync(path)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
    try:
        for path in files:
            os.replace(path, target / path.relative_to(new))
        for folder in folders:
            sync_folder(folder)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def sync(path: Path | str) -> None:
    """Flush a finished file to the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(folder: Path) -> None:
    """Flush a folder's directory entries, so that a rename in it survives a power failure."""
    try:
        sync(folder)
    except OSError as error:  # some network file systems cannot flush a folder; the rename itself is done
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EACCES):
            raise


def sweep(folder: Path, name: str = "*") -> None:
    """Remove temporary files that killed writers of `name` left in `folder` (default: of any name, for folders used by one run only)."""
    for orphan in folder.glob(f".{name}.*.tmp"):
        orphan.unlink(missing_ok=True)


def _free(folder: Path) -> str:
    try:
        return f"{shutil.disk_usage(folder).free / 2**20:.0f} MiB"
    except OSError:
        return "unknown space"


@dataclass(frozen=True)
class Holder:
    """The process that holds a lock.

    Args:
        pid: 0 if the lock does not say it.
        host: its machine; "" if that is this one.
    """

    pid: int
    host: str = ""

    def __str__(self) -> str:
        return f"process {self.pid or 'unknown'}" + (f" on {self.host}" if self.host else "")


class Lock:
    """An exclusive flock on a file that names the owner's pid and machine; the kernel releases it when the owner dies.

    `waited` is true if another process held it first. After `wait_s` seconds `Busy` is raised, naming the
    owner.
    """

    def __init__(self, path: Path, wait_s: float = 30.0) -> None:
        self.path = path
        self.wait_s = wait_s
        self.waited = False
        self._descriptor: int | None = None

    def __enter__(self) -> Lock:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        deadline = time.monotonic() + self.wait_s
        named_by = time.monotonic() + 1.0  # a new owner may not have written its pid yet
        announced = False
        try:
            while not _flock(descriptor, fcntl.LOCK_EX):
                owner = _holder(os.pread(descriptor, 512, 0))
                if time.monotonic() >= deadline:
                    raise Busy(f"{self.path.name}: held by {owner}, not free after {self.wait_s:g} s")
                self.waited = True
                if not announced and (owner.pid or time.monotonic() >= named_by):
                    announced = True
                    print(f"{self.path.name}: held by {owner}, waiting", file=sys.stderr, flush=True)
                time.sleep(0.1)
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()} {os.uname().nodename}\n".encode(), 0)
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor = descriptor
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def lock_is_free(path: Path) -> bool:
    """Whether no process holds the lock at `path` (also true if the file does not exist)."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return True
    try:
        return _flock(descriptor, fcntl.LOCK_SH)
    finally:
        os.close(descriptor)


def holder(path: Path) -> Holder | None:
    """The process that holds the lock at `path`; None if the lock is free."""
    return None if lock_is_free(path) else _holder(path.read_bytes())


def _holder(text: bytes) -> Holder:
    pid, host = [*text[:512].decode("utf-8", "replace").split()[:2], "", ""][:2]
    known = pid.isascii() and pid.isdigit() and len(pid) < 20
    return Holder(int(pid) if known else 0, host if known and host != os.uname().nodename else "")


def _flock(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS):
            raise
        _no_locks(os.fstat(descriptor).st_dev)
    return True  # a file system without locks cannot protect the run, which goes on


@cache
def _no_locks(device: int) -> None:
    """Warn, once per file system (``device``), that nothing prevents two processes from writing the same run here."""
    print(
        "no file locks: this file system refuses them, so two jobs of one run would overwrite each other; "
        "never run two engines in this checkout (Lustre: mount with -o flock; NFS: start its lock service)",
        file=sys.stderr,
        flush=True,
    )
