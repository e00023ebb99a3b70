"""Assign a free device, or a slot of one, to each job: a file lock per CUDA device, and one per slot.

Several jobs that start at once on a machine with several GPUs must not all take the first one. ``acquire``
takes an exclusive ``flock`` on a file per device and holds it while the job runs. The kernel
releases the lock when the process ends, however it ends, so a killed job leaves nothing to clean up.

Small jobs leave most of a large GPU idle. With ``jobs_per_device`` above 1 (``--jobs-per-device``, or the variable
``RELEARN_JOBS_PER_DEVICE``), up to that many jobs share a device. Each takes a shared lock on the device's file and an
exclusive lock on a slot's file, on the device with the fewest jobs. A job that needs a device for itself waits until
no other job uses it, which may take long while shared jobs keep coming.

The lock files are in a per-user folder on this machine, ``$XDG_RUNTIME_DIR/relearn`` or
``<temporary folder>/relearn-<uid>``. A lock is named after the physical device: the entry of
``CUDA_VISIBLE_DEVICES`` if that is set, otherwise the index. If SLURM has given the job its own devices
(``SLURM_JOB_GPUS``), jobs of other allocations cannot see them and may use the same numbers, so the name
includes the allocation.

Standard library only; torch is imported only when the devices are counted.
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
from contextlib import ExitStack, contextmanager
from pathlib import Path

ALLOWED = "auto, cpu, cuda or cuda:N"
VARIABLE = "RELEARN_JOBS_PER_DEVICE"
MOST_JOBS = 64  # per device: each job has its own CUDA context of about half a GiB


def jobs_per_device() -> int:
    """Return the value of ``RELEARN_JOBS_PER_DEVICE``; 1 if it is not set.

    Raises:
        ValueError: not a whole number from 1 to 64.
    """
    text = os.environ.get(VARIABLE, "") or "1"
    if not (text.isdecimal() and 1 <= int(text) <= MOST_JOBS):
        raise ValueError(f"{VARIABLE}: found {text!r}, allowed are whole numbers from 1 to {MOST_JOBS}")
    return int(text)


def count_cuda() -> int:
    """Return the number of CUDA devices that torch sees, without creating a CUDA context."""
    import torch

    return torch.cuda.device_count() if torch.cuda.is_available() else 0


def say(line: str) -> None:
    """Write one line to standard error."""
    print(line, file=sys.stderr, flush=True)


@contextmanager
def acquire(
    device: str,
    *,
    jobs: int = 1,
    count: Callable[[], int] = count_cuda,
    note: Callable[[str], None] = say,
    folder: Path | None = None,
    poll_s: float = 0.5,
) -> Iterator[str]:
    """Hold a device during a ``with`` block and yield its name for torch.

    Args:
        device: ``cpu``; ``cuda``: any free CUDA device, waiting while all are taken; ``cuda:N``: that device;
            ``auto``: as ``cuda`` if there is a CUDA device, otherwise ``cpu`` with a note.
        jobs: how many jobs may share a device; 1: exclusive use.
        count: returns the number of CUDA devices; called only when needed.
        note: receives one line if the choice may be unexpected.
        folder: where the lock files are.
        poll_s: seconds between two checks of busy devices.

    Yields:
        ``"cpu"`` or ``"cuda:N"``, N as torch counts.

    Raises:
        ValueError: an unknown name, CUDA requested without a CUDA device, or N too large.
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
    chosen, locks = _wait(choices, jobs, folder or lock_folder(), note, poll_s)
    with locks:
        yield f"cuda:{chosen}"


def usable(
    device: str, count: int, *, cuda: Callable[[], int] = count_cuda, note: Callable[[str], None] = say
) -> int:
    """How many of ``count`` processes to start: with ``auto`` at most one per CUDA device, and one on a machine without."""
    if device != "auto" or count == 1 or (there := cuda()) >= count:
        return count
    note(f"device: {there} CUDA devices here, using {max(there, 1)} of {count} processes")
    return max(there, 1)


@contextmanager
def acquire_several(
    device: str, count: int, *, cuda: Callable[[], int] = count_cuda, note: Callable[[str], None] = say
) -> Iterator[tuple[str, str]]:
    """Hold ``count`` CUDA devices during a ``with`` block, for the processes of one job.

    Only one job at a time collects devices, so that two jobs never wait for each other's.

    Args:
        device: ``cpu``; ``cuda``; ``auto``: ``cuda`` if there is a CUDA device.
        count: how many; see `usable`.
        cuda: returns the number of CUDA devices.
        note: receives one line if the choice may be unexpected.

    Yields:
        The device for torch, and the value of CUDA_VISIBLE_DEVICES that shows the devices held ("" on a CPU).

    Raises:
        ValueError: an unknown name, or fewer devices than processes.
    """
    if device not in ("auto", "cpu", "cuda"):
        raise ValueError(f"--device {device!r}: allowed for several processes are auto, cpu, cuda")
    there = 0 if device == "cpu" else cuda()
    if device != "cuda" and not there:
        with acquire(device, count=lambda: 0, note=note) as found:
            yield found, ""
        return
    if there < count:
        raise ValueError(f"--processes: found {count}, allowed: at most the {there} CUDA devices here")
    with ExitStack() as held:
        with (lock_folder() / "several.lock").open("ab") as turn:
            fcntl.flock(turn, fcntl.LOCK_EX)
            names = [
                held.enter_context(acquire("cuda", count=lambda: there, note=note)) for _ in range(count)
            ]
        shown = [entry.strip() for entry in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")]
        indices = [int(name.removeprefix("cuda:")) for name in names]
        yield "cuda", ",".join(shown[i] if i < len(shown) and shown[i] else str(i) for i in indices)


def lock_folder() -> Path:
    """Return the folder of the lock files; it is created if necessary.

    Raises:
        ValueError: the folder belongs to another user.
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
    choices: Sequence[int], jobs: int, folder: Path, note: Callable[[str], None], poll_s: float
) -> tuple[int, ExitStack]:
    announced = False
    while True:
        for slot in range(jobs):  # the first slot of every device before the second of any
            for index in choices:
                locks = _try(folder / f"cuda-{_identity(index)}", slot if jobs > 1 else None)
                if locks is not None:
                    return index, locks
        if not announced:
            names = ", ".join(f"cuda:{index}" for index in choices)
            note(f"device: waiting, {'other jobs hold' if jobs > 1 else 'another job holds'} {names}")
            announced = True
        time.sleep(poll_s)


def _try(device: Path, slot: int | None) -> ExitStack | None:
    """Return the locks on the device (``slot`` None) or on its slot, or None while other jobs hold them."""
    wanted = [(Path(f"{device}.lock"), fcntl.LOCK_EX if slot is None else fcntl.LOCK_SH)]
    if slot is not None:
        wanted.append((Path(f"{device}-slot{slot}.lock"), fcntl.LOCK_EX))
    with ExitStack() as held:
        for path, kind in wanted:
            lock = held.enter_context(path.open("ab"))
            try:
                fcntl.flock(lock, kind | fcntl.LOCK_NB)
            except BlockingIOError:
                return None
        return held.pop_all()


def _identity(index: int) -> str:
    """A name of the physical device behind torch's index, usable as a file name."""
    visible = [entry.strip() for entry in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")]
    name = visible[index] if index < len(visible) and visible[index] else str(index)
    if os.environ.get("SLURM_JOB_GPUS"):
        name = f"job{os.environ.get('SLURM_JOB_ID', '')}-{name}"
    if re.fullmatch(r"[\w-]{1,80}", name) is None:
        name = hashlib.sha256(name.encode()).hexdigest()[:16]
    return name
