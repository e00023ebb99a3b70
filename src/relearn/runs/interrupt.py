"""Stopping between two steps: a signal asks, the next safe point obeys.

SIGINT ends with exit status 130, SIGTERM and SIGUSR1 (what SLURM sends ahead of the time limit) with 143. The
handler only leaves a request; `check()`, called by `Run.log` and by every call of `console.Progress`, raises
`Interrupted` there. A program that reaches no safe point within the grace period is interrupted where it
stands. A second SIGINT ends it at once: files are replaced in one rename, so nothing can be torn.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from types import FrameType

GRACE_S = 20.0
_requested: int | None = None


class Interrupted(SystemExit):
    """A signal asked the program to end; `code` is the exit status, so an uncaught one exits with it."""

    def __init__(self, number: int) -> None:
        self.signal = signal.Signals(number).name
        super().__init__(130 if number == signal.SIGINT else 143)

    def __str__(self) -> str:
        return f"stopped by {self.signal}"


def install_signal_handlers(grace_s: float = GRACE_S) -> None:
    """Turn SIGINT, SIGTERM and SIGUSR1 into `Interrupted` at the next safe point, at the latest after
    `grace_s` seconds.

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
        )  # before the line is out: who reads it may signal again
        if first:
            sys.stderr.write(f"{signal.Signals(number).name}: stopping at the next safe point\n")
            signal.setitimer(signal.ITIMER_REAL, grace_s)

    def force(number: int, frame: FrameType | None) -> None:
        check()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
        signal.signal(number, ask)
    signal.signal(signal.SIGALRM, force)


def check() -> None:
    """A safe point: raise `Interrupted` when a signal has asked for it, otherwise do nothing."""
    global _requested
    if _requested is not None:
        number, _requested = _requested, None
        signal.setitimer(signal.ITIMER_REAL, 0)
        raise Interrupted(number)
