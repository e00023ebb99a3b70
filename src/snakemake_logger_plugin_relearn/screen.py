"""Where the lines go: a terminal with a line at its foot that is drawn anew, or a stream of plain lines."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable
from typing import TextIO

CLEAR = "\r\x1b[K"
EVERY_S = 1.0


class Screen:
    """Writes lines; on a terminal the foot stays below them.

    Args:
        stream: stderr, or stdout in a dry run.
        foot: returns the line at the foot, "" for none; called from a thread of its own.
    """

    def __init__(self, stream: TextIO, foot: Callable[[], str]) -> None:
        self.stream, self.foot = stream, foot
        self.live = stream.isatty() and os.environ.get("TERM") != "dumb"
        self.lock = threading.RLock()
        self.stopped = threading.Event()
        self.thread: threading.Thread | None = None

    def line(self, text: str = "") -> None:
        """Write a whole line, or several."""
        with self.lock:
            self.stream.write(f"{CLEAR}{text}\n" if self.live else f"{text}\n")
            self._draw()
            self.stream.flush()

    def watch(self) -> None:
        """Draw the foot each second from now on; nothing happens where there is no terminal."""
        if self.live and self.thread is None:
            self.thread = threading.Thread(target=self._watch, daemon=True)
            self.thread.start()

    def end(self) -> None:
        """Take the foot away."""
        self.stopped.set()
        if self.thread is not None:
            self.thread.join()
            self.thread = None
            with self.lock:
                self.stream.write(CLEAR)
                self.stream.flush()

    def _watch(self) -> None:
        while not self.stopped.wait(EVERY_S):
            with self.lock:
                self._draw()
                self.stream.flush()

    def _draw(self) -> None:
        if self.live and self.thread is not None and not self.stopped.is_set():
            columns = shutil.get_terminal_size().columns
            self.stream.write(CLEAR + self.foot()[: columns - 1])
