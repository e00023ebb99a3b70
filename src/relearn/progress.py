"""How far a loop is: a bar with the time left on a terminal, one plain line per interval in a log."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Sized
from typing import TypeVar, cast

from relearn import interrupt

Item = TypeVar("Item")


def progress(
    items: Iterable[Item] | int, text: str, total: int | None = None, interval_s: float = 10.0
) -> Iterator[Item]:
    """Yield the items (an int n counts 0 … n-1) and show on stderr how far the loop is.

    On a terminal tqdm draws a bar with the time left; elsewhere a line such as ``craft: 40/100, 12 s, 18 s
    left`` appears every `interval_s` seconds and at the end. Each turn is a safe point for signals
    (`relearn.interrupt`).
    """
    if isinstance(items, int):
        items = cast(Iterable[Item], range(items))
    if total is None and isinstance(items, Sized):
        total = len(items)
    if sys.stderr.isatty():
        from tqdm import tqdm

        shown: Iterable[Item] = tqdm(items, desc=text, total=total, file=sys.stderr, dynamic_ncols=True)
    else:
        shown = _lines(items, text, total, interval_s)
    for item in shown:
        interrupt.check()
        yield item


def _lines(items: Iterable[Item], text: str, total: int | None, interval_s: float) -> Iterator[Item]:
    start = last = time.monotonic()
    done = 0
    for item in items:
        yield item
        done += 1
        now = time.monotonic()
        if now - last >= interval_s:
            last = now
            _line(text, done, total, now - start)
    _line(text, done, total, time.monotonic() - start)


def _line(text: str, done: int, total: int | None, elapsed: float) -> None:
    known = f"{done}/{total}" if total is not None else str(done)
    left = f", {elapsed / done * (total - done):.0f} s left" if total and 0 < done < total else ""
    print(f"{text}: {known}, {elapsed:.0f} s{left}", file=sys.stderr, flush=True)
