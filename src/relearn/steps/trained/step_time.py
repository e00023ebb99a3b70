"""Measure the time of a call with the clock that suits the device."""

from __future__ import annotations

import time
from collections.abc import Callable


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
