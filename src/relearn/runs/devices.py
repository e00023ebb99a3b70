"""One free device for each job: a file lock per CUDA device.

Several jobs that start at once on a machine with several GPUs must not meet on the first one. ``acquire``
takes an exclusive ``flock`` on a file that stands for a device and holds it while the job runs. The kernel
drops the lock when the process ends, however it ends: a killed job leaves nothing behind to clean up.

The files lie in a folder of the user's own on this machine, ``$XDG_RUNTIME_DIR/relearn`` or
``<temporary folder>/relearn-<uid>``. A lock is named after the physical device: the entry of
``CUDA_VISIBLE_DEVICES`` where that is set, the index otherwise. Where SLURM has given the job devices of its
own (``SLURM_JOB_GPUS``), jobs of other allocations cannot see them and may number theirs alike, so the name
carries the allocation too.

Standard library only; torch is imported when the devices are counted, not before.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

ALLOWED = "auto, cpu, cuda or cuda:N"


def count_cuda() -> int:
    """Return the number of CUDA devices that torch sees; this makes no CUDA context."""
    import torch

    return torch.cuda.device_count() if torch.cuda.is_available() else 0


def say(line: str) -> None:
    """Write one line to standard error."""
    print(line, file=sys.stderr, flush=True)


@contextmanager
def acquire(
    device: str,
    *,
    count: Callable[[], int] = count_cuda,
    note: Callable[[str], None] = say,
    folder: Path | None = None,
    poll_s: float = 0.5,
) -> Iterator[str]:
    """Hold a device for the length of a ``with`` block and yield its name for torch.

    Args:
        device: ``cpu``; ``cuda``: any free CUDA device, waiting while all are taken; ``cuda:N``: that one;
            ``auto``: as ``cuda`` where there is a CUDA device, ``cpu`` with a note where there is none.
        count: how many CUDA devices there are; asked only where it matters.
        note: takes one line when the choice is not what a reader would expect.
        folder: where the lock files lie.
        poll_s: seconds between two looks at taken devices.

    Yields:
        ``"cpu"`` or ``"cuda:N"``, N as torch counts.

    Raises:
        ValueError: an unknown name, CUDA asked for where there is none, or N too large.
    """
    wanted = re.fullmatch(r"auto|cpu|cuda(?::(\d+))?", device)
    if wanted is None:
        raise ValueError(f"--device {device!r}: allowed are {ALLOWED}")
    if device == "cpu":
        yield device
        return
    devices = count()
    if devices == 0 and device == "auto":
        note("device: no CUDA device here, computing on the CPU")
        yield "cpu"
        return
    if devices == 0:
        raise ValueError(f"--device {device}: torch sees no CUDA device here; use --device cpu or auto")
    index = wanted.group(1)
    if index is not None and int(index) >= devices:
        raise ValueError(
            f"--device {device}: torch sees {devices} CUDA devices, cuda:0 to cuda:{devices - 1}"
        )
    choices = range(devices) if index is None else [int(index)]
    chosen, lock = _wait(choices, folder or lock_folder(), note, poll_s)
    with lock:
        yield f"cuda:{chosen}"


def lock_folder() -> Path:
    """Return the folder of the lock files, made if need be.

    Raises:
        ValueError: the folder belongs to somebody else.
    """
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if runtime and os.access(runtime, os.W_OK):
        folder = Path(runtime) / "relearn"
    else:
        folder = Path(tempfile.gettempdir()) / f"relearn-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.stat().st_uid != os.getuid():
        raise ValueError(f"{folder}: belongs to another user; remove it or set XDG_RUNTIME_DIR or TMPDIR")
    return folder


def _wait(
    choices: Sequence[int], folder: Path, note: Callable[[str], None], poll_s: float
) -> tuple[int, IO[bytes]]:
    told = False
    while True:
        for index in choices:
            lock = _try(folder / f"cuda-{_identity(index)}.lock")
            if lock is not None:
                return index, lock
        if not told:
            names = ", ".join(f"cuda:{index}" for index in choices)
            note(f"device: waiting, another job holds {names}")
            told = True
        time.sleep(poll_s)


def _try(path: Path) -> IO[bytes] | None:
    """Return the open file that holds the lock, or None while another job has it."""
    lock = path.open("ab")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        return None
    return lock


def _identity(index: int) -> str:
    """Name the physical device behind torch's index, fit for a file name."""
    visible = [entry.strip() for entry in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")]
    name = visible[index] if index < len(visible) and visible[index] else str(index)
    if os.environ.get("SLURM_JOB_GPUS"):
        name = f"job{os.environ.get('SLURM_JOB_ID', '')}-{name}"
    if re.fullmatch(r"[\w-]{1,80}", name) is None:
        name = hashlib.sha256(name.encode()).hexdigest()[:16]
    return name
