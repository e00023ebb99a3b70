"""The child's side of a warm start: a process forked by the server takes the place of a plain start of its client.

It takes over the client's stdin, stdout and stderr, folder, environment, umask, and signal dispositions, runs the same
code as a plain start, and ends as Python ends, without the seconds that unloading torch takes.
"""

from __future__ import annotations

import atexit
import gc
import io
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NoReturn, Protocol

from relearn.runs import orphan_guard as parents
from relearn.runs.warm import client as warm


class Closes(Protocol):
    """A socket or connection: anything that can be closed."""

    def close(self) -> None: ...


def become(
    run: Callable[[list[str]], int],
    asked: Mapping[str, Any],
    descriptors: list[int],
    foreign: Iterable[Closes],
    server: int,
) -> NoReturn:
    """Do the job and end. Must be called right after the fork, with all signals blocked.

    Args:
        run: takes the command-line arguments, returns the exit status.
        asked: the client's request.
        descriptors: its stdin, stdout, stderr and folder.
        foreign: open objects that belong to the server or to other jobs.
        server: the server's pid; if it is no longer our parent, nobody waits for this job.
    """
    code = 1
    try:
        parents.tie(signal.SIGKILL)
        if os.getppid() == server:
            for one in foreign:
                one.close()
            _dress(asked, descriptors)
            code = _run(run, asked["argv"])
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(code)


def _dress(asked: Mapping[str, Any], descriptors: list[int]) -> None:
    for target, one in enumerate(descriptors[:3]):
        os.dup2(one, target)
    os.fchdir(descriptors[3])
    for one in descriptors:
        os.close(one)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and not stream.write_through:  # as with PYTHONUNBUFFERED
            stream.reconfigure(line_buffering=stream is sys.stderr or stream.isatty())
    os.umask(asked["umask"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    sys.argv = [asked["program"], *asked["argv"]]
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for number in warm.DISPOSED:
        usual = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
        signal.signal(number, signal.SIG_IGN if number in asked["ignored"] else usual)
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)  # to a terminal with tostop, the job is a background job
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.seed()  # unpredictable, as after an import; `random` reseeds itself after a fork
    if (tempfile := sys.modules.get("tempfile")) is not None:
        vars(tempfile)["tempdir"] = None  # looked up in the new environment
    warm.inside = True
    gc.enable()
    signal.pthread_sigmask(signal.SIG_SETMASK, asked["blocked"])


def _run(run: Callable[[list[str]], int], argv: list[str]) -> int:
    """Run the job and return the exit status that Python itself would end with."""
    code: object
    try:
        code = run(argv)
    except SystemExit as error:
        code = error.code
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    if code is not None and not isinstance(code, int):
        print(code, file=sys.stderr)
        code = 1
    threading._shutdown()  # type: ignore[attr-defined]  # waits for threads that are no daemons, as Python's end does
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):
        return 120
    return (code or 0) & 0xFF
