"""Measure the time of calls with the clock that suits the device."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence


def timed(call: Callable[[], None], device: str) -> float:
    """Seconds of a call: CPU time, or on a GPU wall time with synchronisation."""
    if not device.startswith("cuda"):
        start = time.process_time()
        call()
        return time.process_time() - start
    import torch

    torch.cuda.synchronize(device)
    start = time.perf_counter()
    call()
    torch.cuda.synchronize(device)
    return time.perf_counter() - start


def in_turns(calls: Sequence[Callable[[], None]], pairs: int, device: str) -> list[tuple[float, float]]:
    """Seconds of each pair of two calls, after one uncounted pair; every second pair runs in reverse, so that drift affects both."""
    own, reference = calls
    own()
    reference()
    found = []
    for pair in range(pairs):
        if pair % 2:
            second = timed(reference, device)
            first = timed(own, device)
        else:
            first = timed(own, device)
            second = timed(reference, device)
        found.append((first, second))
    return found


def clock_of(device: str) -> str:
    """The clock in words, for a note."""
    return "wall time, synchronised" if device.startswith("cuda") else "CPU time of the process"
