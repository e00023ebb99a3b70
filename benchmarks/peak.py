"""Peak memory of a benchmark's step: on a CPU in a separate process, whose allocator returns freed blocks to the system immediately.

Otherwise the peaks would reflect allocator caching.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import torch

from relearn.runs.provenance import resident_peak

SMALL = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "0", "MALLOC_ARENA_MAX": "1"}
Build = Callable[[], Callable[[], object]]


def parsed(parser: argparse.ArgumentParser, measure: Callable[..., object]) -> argparse.Namespace:
    """The arguments with ``--threads``, which is set; with ``--memory``, call only ``measure`` with its list, and end."""
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--memory", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    if arguments.memory:
        measure(*json.loads(arguments.memory))
        raise SystemExit
    return arguments


def in_process(script: str, *words: str) -> int:
    """The bytes that a script prints with :func:`tell` or :func:`tell_step`."""
    command = [sys.executable, script, *words]
    done = subprocess.run(command, env={**os.environ, **SMALL}, capture_output=True, text=True, check=True)
    return int(json.loads(done.stdout.splitlines()[-1])["bytes"])


def tell_step(first: Build, build: Build, warm: int = 1) -> None:
    """In a separate process: print the bytes that a step needs, including what it is built of.

    Args:
        first: makes a small step, which loads the libraries, so that they do not count.
        build: makes the step.
        warm: steps before the measured one.
    """
    first()()
    before = resident()
    step = build()
    for _ in range(warm):
        step()
    reset()
    step()
    tell(before)


def tell(before: int) -> None:
    """Print the bytes of the peak above ``before``."""
    print(json.dumps({"bytes": resident_peak() - before}))


def on_gpu(build: Build, warm: int = 1) -> int:
    """The peak of the allocator's bytes during a step, after ``warm`` others."""
    step = build()
    for _ in range(warm):
        step()
    torch.cuda.reset_peak_memory_stats()
    step()
    return torch.cuda.max_memory_allocated()


def resident() -> int:
    """The resident bytes of this process."""
    gc.collect()
    fields = Path("/proc/self/statm").read_text().split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE")


def reset() -> None:
    """Reset the peak of resident memory (Linux)."""
    Path("/proc/self/clear_refs").write_text("5")
