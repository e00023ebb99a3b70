"""Output of a run: plain lines in its log file; on a terminal, a progress bar with the remaining time."""

from __future__ import annotations

import contextlib
import os
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

from relearn.runs import interrupt

INTERVAL_S = 10.0
WRITE_TO = "RELEARN_JOBS_WRITE_TO"
"""Variable of the environment: where it is "log", a job with a log file writes there alone."""


class Progress:
    """Callable ``progress(done, total)`` that a procedure calls after each step; use it as a context manager.

    On a terminal tqdm draws a bar; elsewhere a line such as ``craft: 40/100, 12 s, 18 s left`` appears every ten seconds and at
    the end. Every call is a safe point for signals: an interrupted run ends here, between two steps.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.start = self.last = time.monotonic()
        self.first: int | None = None
        self.bar: Any = None

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *error: object) -> None:
        if self.bar is not None:
            self.bar.close()

    def __call__(self, done: int, total: int) -> None:
        interrupt.check()
        if self.first is None:  # a resumed run starts in the middle: estimate the remaining time from there
            self.first = done - 1
        if sys.stderr.isatty():
            self._draw(done, total)
            return
        now = time.monotonic()
        if now - self.last >= INTERVAL_S or done == total:
            self.last = now
            elapsed = now - self.start
            left = elapsed / (done - self.first) * (total - done)
            print(
                f"{self.text}: {done}/{total}, {elapsed:.0f} s, {left:.0f} s left",
                file=sys.stderr,
                flush=True,
            )

    def _draw(self, done: int, total: int) -> None:
        if self.bar is None:
            from tqdm import tqdm

            self.bar = tqdm(
                desc=self.text, total=total, initial=done - 1, file=sys.stderr, dynamic_ncols=True
            )
        self.bar.update(done - self.bar.n)


class _Tee:
    """Writes to a terminal or pipe and to a log file; text with carriage returns (progress bars) is not written to the file."""

    def __init__(self, stream: TextIO, log: TextIO) -> None:
        self.stream, self.log = stream, log

    def write(self, text: str) -> int:
        if "\r" not in text:
            self.log.write(text)
            self.log.flush()
        return self.stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


@contextlib.contextmanager
def tee(log: Path | None) -> Iterator[None]:
    """Copy stdout and stderr of the block to ``log``, including the traceback of an exception."""
    if log is None:
        yield
        return
    if os.environ.get(WRITE_TO) == "log":  # stdout and stderr are the log already
        try:
            yield
        except BaseException:
            traceback.print_exc()
            raise
        return
    log.parent.mkdir(parents=True, exist_ok=True)
    out, err = sys.stdout, sys.stderr
    with log.open("w", encoding="utf-8") as file:
        sys.stdout, sys.stderr = _Tee(out, file), _Tee(err, file)
        try:
            yield
        except BaseException:
            file.write(traceback.format_exc())
            raise
        finally:
            sys.stdout, sys.stderr = out, err


@contextlib.contextmanager
def to_log_alone(log: Path | None) -> Iterator[None]:
    """If ``RELEARN_JOBS_WRITE_TO`` is "log", redirect all output of the block to ``log``, and write nothing to the terminal.

    The file descriptors are redirected, not only Python's streams, so that output of libraries and child processes is included.
    """
    if log is None or os.environ.get(WRITE_TO) != "log":
        yield
        return
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_bytes(b"")
    streams, kept = (sys.stdout, sys.stderr), [os.dup(1), os.dup(2)]
    with log.open("a", encoding="utf-8", buffering=1) as file:
        try:
            sys.stdout = sys.stderr = file
            for number in (1, 2):
                os.dup2(file.fileno(), number)
            yield
        finally:
            sys.stdout, sys.stderr = streams
            for number, descriptor in zip((1, 2), kept):
                os.dup2(descriptor, number)
                os.close(descriptor)
