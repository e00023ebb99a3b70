"""Running out of memory: to tell it from other errors, to say how much there was, to try again with less."""

from __future__ import annotations

import errno
import gc
import re
import sys
from collections.abc import Callable
from typing import TypeVar

SAID = re.compile(
    r"out of memory|not enough memory|can.?t allocate memory|cannot allocate memory|bad[ _]alloc", re.I
)
Result = TypeVar("Result")


def out_of_memory(error: BaseException) -> bool:
    """Whether an error says that the host's or the device's memory does not suffice.

    torch raises its own class for CUDA and a plain RuntimeError for the host, NumPy a MemoryError.
    """
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    return isinstance(error, RuntimeError) and SAID.search(str(error)) is not None


def peak() -> str:
    """The most memory that this process has held so far: resident bytes, and bytes on each CUDA device in use."""
    from relearn import provenance

    told = f"{provenance.resident_peak() / 2**20:.0f} MiB of host memory"
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        for index in range(torch.cuda.device_count()):
            held = torch.cuda.max_memory_allocated(index)
            told += f", {held / 2**20:.0f} MiB of cuda:{index}" if held else ""
    return told


def say(line: str) -> None:
    """One line for whoever watches, on stderr."""
    print(line, file=sys.stderr, flush=True)


def halving(run: Callable[[int], Result], start: int, note: Callable[[str], None] = say) -> Result:
    """``run(size)`` with the first of start, start/2, start/4, …, 1 for which the memory suffices.

    For work in blocks whose size changes the memory and not the result (targets of an attack at once, images of
    a batch): a procedure with a checkpoint goes on where it broke off. Each smaller try is announced by a line.

    Raises:
        ValueError: start below 1. Whatever ``run`` raises, out of memory at size 1 included.
    """
    if start < 1:
        raise ValueError(f"start: found {start}, allowed: at least 1")
    size = start
    while True:
        try:
            return run(size)
        except Exception as error:
            if size == 1 or not out_of_memory(error):
                raise
        # Here, and not above, the failed try's tensors are free: its traceback held them.
        gc.collect()
        torch = sys.modules.get("torch")
        if torch is not None and torch.cuda.is_initialized():
            torch.cuda.empty_cache()
        note(f"out of memory with {size} at once (peak {peak()}); going on with {size // 2}")
        size //= 2
