"""A job ends with the engine that started it.

kill -9 of Snakemake leaves its jobs alive: the shell between them outlives it too, so the kernel's own signal to
a parent's children does not reach them. Therefore the engine writes into the environment who it is
(`announce`, called by the Snakefile), and a job watches that process (`watch`): when it is gone, the job sends
itself SIGTERM, keeps its checkpoint and ends as after any SIGTERM. `dvc repro` above Snakemake counts as well.

A process is named by boot, pid namespace, pid and start time: a pid used again, or the same number on another
machine, is nobody. Where there is no /proc nothing is watched; there the run's lock still keeps a second writer
away.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import threading
import time
from pathlib import Path

VARIABLE = "RELEARN_PARENTS"
SHELLS = {"sh", "bash", "dash", "zsh", "ksh", "fish"}
POLL_S = 1.0


def announce() -> None:
    """Name this process, and a `dvc repro` above it, as those whose end is the end of every job started here.

    Under DVC this process watches it too: Snakemake takes SIGTERM for "start no more jobs".
    """
    names = [_name(os.getpid())]
    if "DVC_ROOT" in os.environ:
        names.append(_name(_driver()))
        watch(",".join(filter(None, names[1:])))
    os.environ[VARIABLE] = ",".join(filter(None, names))


def watch(named: str | None = None) -> None:
    """Send SIGTERM to this process as soon as one of the named ones is gone; returns at once.

    Args:
        named: as `announce` writes it; default: the environment's. Names of other machines are skipped.
    """
    here = _place()
    names = (os.environ.get(VARIABLE, "") if named is None else named).split(",")
    ours = [name for name in names if here and name.startswith(here) and _pid(name) != os.getpid()]
    if ours:
        threading.Thread(target=_wait, args=(ours,), name="parents", daemon=True).start()


def _wait(names: list[str]) -> None:
    waiting = select.poll()
    for name in names:
        # gone already, or a kernel without process descriptors: the loop finds out
        with contextlib.suppress(OSError, AttributeError):
            waiting.register(os.pidfd_open(_pid(name)), select.POLLIN)
    while alive := [name for name in names if _name(_pid(name)) == name]:
        if len(alive) < len(names):
            break
        waiting.poll(POLL_S * 1000)
        time.sleep(0.01)  # a dying process is readable a moment before it is gone
    gone = next(name for name in names if name not in alive)
    sys.stderr.write(f"process {_pid(gone)}, which started this one, is gone\n")
    os.kill(os.getpid(), signal.SIGTERM)


def _driver() -> int:
    """The nearest process above this one that is no shell."""
    pid = os.getppid()
    while pid > 1:
        told = _stat(pid)
        if told is None or told[0] not in SHELLS:
            return pid
        pid = int(told[1][1])
    return pid


def _pid(name: str) -> int:
    return int(name.rsplit(":", 2)[1])


def _name(pid: int) -> str:
    """boot:namespace:pid:start; "" for a process that is not there, or is dead and only not yet waited for."""
    told, place = _stat(pid), _place()
    if told is None or not place or told[1][0] in "ZX":
        return ""
    return f"{place}{pid}:{told[1][19]}"


def _stat(pid: int) -> tuple[str, list[str]] | None:
    """Command and the fields behind it (state, parent, …) of /proc/<pid>/stat."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    command, _, rest = text.partition("(")[2].rpartition(")")
    return command, rest.split()


def _place() -> str:
    """This boot of this machine and its pid namespace, as the beginning of a name; "" where there is no /proc."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot}:{os.readlink('/proc/self/ns/pid').strip('pid:[]')}:"
    except OSError:
        return ""
