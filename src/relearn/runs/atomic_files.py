"""Files that survive a kill: canonical JSON, sha256, replacement in one rename, and a lock that dies with its
owner.

A file is written beside its final place, flushed to the disk and renamed over it, so a reader sees the old
bytes or the new ones and never a part. Standard library only.
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


class Busy(RuntimeError):
    """Another live process holds the lock; the message is one line and names its pid."""


def canonical(obj: Any) -> str:
    """One text for one value: sorted keys, no spaces, ASCII only, no NaN or infinity; independent of locale
    and hash seed.

    Raises ValueError for NaN and infinity, TypeError for a key that is no text (1 and "1" would become one
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
    """Put `content` at `path` in one rename; a kill at any moment leaves the old file or the new one.

    Raises OSError whose one line names the file and the free space when the disk refuses; the temporary file
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
    """The error of a disk that refuses `path`, with the space that is free there."""
    return OSError(number, f"{os.strerror(number)} ({_free(path.parent)} free)", str(path))


def probe(folder: Path) -> None:
    """Write a byte into `folder` and take it away again: better refused before hours of work than after them.

    Raises OSError as `write` does.
    """
    place = folder / ".probe"
    write(place, b".")
    place.unlink(missing_ok=True)


def public(path: Path | str) -> None:
    """Give a file the mode that a plain one gets under the umask; some writers make files for their owner alone."""
    umask = os.umask(0)
    os.umask(umask)
    os.chmod(path, 0o666 & ~umask)


@contextlib.contextmanager
def staged(target: Path) -> Iterator[Path]:
    """Yield an empty folder inside ``target``; when the block succeeds, its files replace those of ``target``.

    A file ``tables/a.csv`` of the yielded folder becomes ``target/tables/a.csv`` in one rename. If the block raises or the
    process is killed, every old file of ``target`` stays as it was. The next call removes the folder that a killed one left.

    Raises:
        OSError: the disk refuses.
    """
    for left in target.glob(f"{STAGED}[0-9]*"):
        if lock_is_free(left / "lock"):
            shutil.rmtree(left)
    made = Path(tempfile.mkdtemp(prefix=STAGED + "new-", dir=target))
    with Lock(made / "lock"):
        folder = made.rename(target / f"{STAGED}{os.getpid()}")  # named so only once it is locked
        try:
            new = folder / "new"
            new.mkdir()
            yield new
            _put_in_place(new, target)
        finally:
            shutil.rmtree(folder)


def _put_in_place(new: Path, target: Path) -> None:
    """Rename every file below ``new`` to the same place below ``target``; Ctrl-C waits until all are there."""
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
    """Flush a folder's list of names, so that a rename in it outlives a power cut."""
    try:
        sync(folder)
    except OSError as error:  # some network file systems refuse to flush a folder: the rename itself is done
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EACCES):
            raise


def sweep(folder: Path, name: str = "*") -> None:
    """Remove what killed writers of `name` (of anything, where the folder is ours) left in `folder`."""
    for orphan in folder.glob(f".{name}.*.tmp"):
        orphan.unlink(missing_ok=True)


def _free(folder: Path) -> str:
    try:
        return f"{shutil.disk_usage(folder).free / 2**20:.0f} MiB"
    except OSError:
        return "unknown space"


class Lock:
    """An exclusive flock on a file that holds the owner's pid; the kernel releases it when the owner dies.

    `waited` tells whether somebody else held it first. After `wait_s` seconds `Busy` is raised, naming the
    pid.
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
        named_by = time.monotonic() + 1.0  # an owner that has just got the lock has yet to write itself down
        said = False
        try:
            while not _flock(descriptor, fcntl.LOCK_EX):
                holder = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip() or "unknown"
                if time.monotonic() >= deadline:
                    raise Busy(
                        f"{self.path.name}: held by process {holder}, not free after {self.wait_s:g} s"
                    )
                self.waited = True
                if not said and (holder != "unknown" or time.monotonic() >= named_by):
                    said = True
                    print(f"{self.path.name}: held by process {holder}, waiting", file=sys.stderr, flush=True)
                time.sleep(0.1)
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
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
    """Whether nobody holds the lock at `path` (also when the file does not exist)."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return True
    try:
        return _flock(descriptor, fcntl.LOCK_SH)
    finally:
        os.close(descriptor)


def holder(path: Path) -> int | None:
    """The process that holds the lock at `path`, as it wrote itself down (0 if it did not); None while it is free."""
    if lock_is_free(path):
        return None
    text = path.read_text(encoding="ascii", errors="replace").strip()
    return int(text) if text.isdigit() else 0


def _flock(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS):
            raise
        _no_locks(os.fstat(descriptor).st_dev)
    return True  # a file system without locks cannot protect: the run goes on


@cache
def _no_locks(device: int) -> None:
    """Say, once for each file system (``device``), that nothing keeps a second writer away from a run here."""
    print(
        "no file locks: this file system refuses them, so two jobs of one run would overwrite each other; "
        "never run two engines in this checkout (Lustre: mount with -o flock; NFS: start its lock service)",
        file=sys.stderr,
        flush=True,
    )
