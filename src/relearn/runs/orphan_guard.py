"""End jobs and helper processes when the engine that started them is gone.

``kill -9`` of Snakemake leaves its jobs and helpers alive: a shell between them survives too, so the kernel's
parent-death signal does not reach them. Therefore the engine writes its name into the environment
(`announce`, called by the Snakefile), and the processes below it watch that name. A job, the importer and ``relearn
render`` do so in a thread (`watch`): when the engine is gone, the process gets SIGTERM, keeps its checkpoint and ends
as after any SIGTERM; the kernel kills it if it is still there `PATIENCE_S` seconds later. The warm server must stay
single-threaded, so it polls (`gone`). A ``dvc repro`` above Snakemake counts as an engine.

A process is named by boot, pid namespace, pid and start time. A process therefore notices even an engine that was gone
before it started itself, and a pid that is reused or belongs to another machine is never mistaken for the engine.
Without /proc (macOS) nothing is watched; there, only the run's lock keeps a second writer away.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

VARIABLE = "RELEARN_PARENTS"
SHELLS = {"sh", "bash", "dash", "zsh", "ksh", "fish"}
POLL_S = 1.0
# When the engine is gone: SIGTERM at once (stop at the next safe point), SIGALRM (stop anywhere; `relearn.runs.interrupt`), SIGKILL.
# None of them leaves a half-written file.
ALARM_S, PATIENCE_S = 4.0, 7.0
PR_SET_PDEATHSIG, CLOCK_MONOTONIC = 1, 1


class _Event(ctypes.Structure):
    """C's struct sigevent, here requesting a signal."""

    _fields_ = (
        ("value", ctypes.c_void_p),
        ("signal", ctypes.c_int),
        ("notify", ctypes.c_int),
        ("rest", ctypes.c_char * 64),
    )


class _Times(ctypes.Structure):
    """C's struct itimerspec: interval and start, each in seconds and nanoseconds."""

    _fields_ = tuple((name, ctypes.c_long) for name in ("every_s", "every_ns", "in_s", "in_ns"))


def announce() -> None:
    """Name this process, and a ``dvc repro`` above it, as the engines with which every process started here must end.

    Under DVC this process watches the ``dvc repro``, too, but only gets SIGTERM: Snakemake then starts no more jobs and cleans up.
    """
    names = [_name(os.getpid())]
    if "DVC_ROOT" in os.environ:
        names.append(_name(_driver()))
        watch(_of_this_machine(names[1:]), insist=False)
    os.environ[VARIABLE] = ",".join(filter(None, names))


def announced() -> list[str]:
    """Return the names of the engines above this process, without this process and those of other machines."""
    return _of_this_machine(os.environ.get(VARIABLE, "").split(","))


def first_gone(names: Sequence[str]) -> int | None:
    """Return the pid of the first of the named processes that is gone; None while all are alive."""
    return next((_pid(name) for name in names if _name(_pid(name)) != name), None)


def watch(names: Sequence[str] | None = None, *, insist: bool = True) -> None:
    """Send SIGTERM to this process as soon as one of the named ones is gone; returns at once.

    Args:
        names: names as `announced` returns them (the default).
        insist: also send SIGALRM and SIGKILL later.
    """
    names = announced() if names is None else names
    if names:
        threading.Thread(target=_wait, args=(names, insist), name="parents", daemon=True).start()


def tie(number: int) -> None:
    """Let the kernel send a signal to this process when its parent ends; 0 cancels this. Linux only; elsewhere nothing happens.

    The kernel sends nothing if the parent has ended before this call, so check for that afterwards.
    """
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, number)


def kill_in(seconds: float) -> None:
    """Let the kernel kill this process later: no Python thread would run while torch or MLflow is unloaded at exit."""
    libc = ctypes.CDLL(None, use_errno=True)
    timer, event = ctypes.c_void_p(), _Event(signal=signal.SIGKILL)
    times = _Times(in_s=int(seconds), in_ns=int(seconds % 1 * 1e9))
    if libc.timer_create(CLOCK_MONOTONIC, ctypes.byref(event), ctypes.byref(timer)) or libc.timer_settime(
        timer, 0, ctypes.byref(times), None
    ):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), "timer")


def _wait(names: Sequence[str], insist: bool) -> None:
    waiting = select.poll()
    for name in names:
        # already gone, or a kernel without pidfd: the loop will notice
        with contextlib.suppress(OSError, AttributeError):
            waiting.register(os.pidfd_open(_pid(name)), select.POLLIN)
    while (pid := first_gone(names)) is None:
        waiting.poll(POLL_S * 1000)
        time.sleep(0.01)  # a pidfd becomes readable shortly before the process is gone
    if insist:
        kill_in(PATIENCE_S)
    with contextlib.suppress(OSError, ValueError):  # the reader of stderr may be gone, too
        sys.stderr.write(f"process {pid}, which started this one, is gone\n")
    os.kill(os.getpid(), signal.SIGTERM)
    if insist:
        time.sleep(ALARM_S)
        os.kill(os.getpid(), signal.SIGALRM)


def _of_this_machine(names: Sequence[str]) -> list[str]:
    """Return the names that belong to this machine but not to this process."""
    place = _place()
    return [name for name in names if place and name.startswith(place) and _pid(name) != os.getpid()]


def _driver() -> int:
    """The nearest ancestor process that is not a shell."""
    pid = os.getppid()
    while pid > 1:
        stat = _stat(pid)
        if stat is None or stat[0] not in SHELLS:
            return pid
        pid = int(stat[1][1])
    return pid


def _pid(name: str) -> int:
    return int(name.rsplit(":", 2)[1])


def _name(pid: int) -> str:
    """boot:namespace:pid:start; "" for a process that does not exist or is a zombie."""
    stat, place = _stat(pid), _place()
    if stat is None or not place or stat[1][0] in "ZX":
        return ""
    return f"{place}{pid}:{stat[1][19]}"


def _stat(pid: int) -> tuple[str, list[str]] | None:
    """Command, and the fields after it (state, parent, …), of /proc/<pid>/stat."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    command, _, rest = text.partition("(")[2].rpartition(")")
    return command, rest.split()


def _place() -> str:
    """The boot and pid namespace with which every name on this machine begins; "" without /proc."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot}:{os.readlink('/proc/self/ns/pid').strip('pid:[]')}:"
    except OSError:
        return ""
