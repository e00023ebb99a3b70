"""Out-of-memory errors: recognise them, and report the peak memory use."""

from __future__ import annotations

import errno
import re
import sys

SAID = re.compile(
    r"out of memory|not enough memory|can.?t allocate memory|cannot allocate memory|bad[ _]alloc", re.I
)


def out_of_memory(error: BaseException) -> bool:
    """Whether an error means that the host's or the device's memory does not suffice.

    torch raises its own class for CUDA and a plain RuntimeError for the host; NumPy raises MemoryError.
    """
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    return isinstance(error, RuntimeError) and SAID.search(str(error)) is not None


def peak() -> str:
    """Peak memory of this process so far: resident bytes, and allocated bytes on each CUDA device in use."""
    from relearn.runs import provenance

    text = f"{provenance.resident_peak() / 2**20:.0f} MiB of host memory"
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        for index in range(torch.cuda.device_count()):
            held = torch.cuda.max_memory_allocated(index)
            text += f", {held / 2**20:.0f} MiB of cuda:{index}" if held else ""
    return text
