"""How long a call takes, by the clock that fits the device."""

from __future__ import annotations

import time
from collections.abc import Callable


def timed(call: Callable[[], None], device: str) -> float:
    """Seconds of a call: CPU time, or on a GPU wall time until the device has caught up."""
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
