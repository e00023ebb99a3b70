"""Stop between two steps: a signal requests it, the next safe point obeys.

SIGINT ends with exit status 130; SIGTERM, SIGUSR1 (which SLURM sends before the time limit) and SIGHUP (of a closed
terminal, unless it is ignored, as under nohup) with 143. The handler only records the request; `check()`, called by
`Run.log` and by every call of `console.Progress`, raises `Interrupted`. A program that reaches no safe point within the
grace period is interrupted wherever it is. A second SIGINT ends it at once: files are replaced by rename, so none can be
left half written.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from types import FrameType

GRACE_S = 20.0
_requested: int | None = None


class Interrupted(SystemExit):
    """A signal requested the end of the program; an uncaught `Interrupted` exits with status `code`."""

    def __init__(self, number: int) -> None:
        self.signal = signal.Signals(number).name
        super().__init__(130 if number == signal.SIGINT else 143)

    def __str__(self) -> str:
        return f"stopped by {self.signal}"


def install_signal_handlers() -> None:
    """Turn SIGINT, SIGTERM, SIGUSR1 and SIGHUP into `Interrupted` at the next safe point, at the latest after
    :data:`GRACE_S` seconds.

    Raises ValueError outside the main thread (Python delivers signals to the main thread only).
    """
    global _requested
    if threading.current_thread() is not threading.main_thread():
        raise ValueError(
            "install_signal_handlers: called outside the main thread, only the main thread gets signals"
        )
    _requested = None

    def ask(number: int, frame: FrameType | None) -> None:
        global _requested
        if _requested == signal.SIGINT and number == signal.SIGINT:
            os._exit(130)
        first, _requested = (
            _requested is None,
            number,
        )  # set before the line is printed: its reader may signal again
        if first:
            line = f"{signal.Signals(number).name}: stopping at the next safe point\n"
            with contextlib.suppress(
                OSError
            ):  # not sys.stderr: the main thread may be writing to it, and it is not reentrant
                os.write(2, line.encode())
            signal.setitimer(signal.ITIMER_REAL, GRACE_S)

    def force(number: int, frame: FrameType | None) -> None:
        check()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
        signal.signal(number, ask)
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        signal.signal(signal.SIGHUP, ask)
    signal.signal(signal.SIGALRM, force)


def check() -> None:
    """A safe point: raise `Interrupted` if a signal has requested it, otherwise do nothing."""
    global _requested
    if _requested is not None:
        number, _requested = _requested, None
        signal.setitimer(signal.ITIMER_REAL, 0)
        raise Interrupted(number)
