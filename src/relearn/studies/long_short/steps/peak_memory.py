"""Peak memory of a case's step: the allocator's peak on a GPU, resident memory of a separate process on a CPU.

One process measures all cases in turn, because loading the libraries takes longer than most steps. malloc is configured to return
blocks above 64 kB immediately; otherwise the peaks would reflect allocator caching.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from relearn.runs.settings import read
from relearn.studies.long_short.steps.cost_cases import CurveCase

SMALL = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "0", "MALLOC_ARENA_MAX": "1"}


def peaks(cases: Sequence[CurveCase]) -> list[int | None]:
    """Peak bytes of each case's step, including network, tokens and cache; None if it does not fit into GPU memory."""
    if cases[0].device.startswith("cuda"):
        return [allocated(case) for case in cases]
    import torch

    asked = json.dumps([dataclasses.asdict(case) for case in cases])
    words = [sys.executable, "-m", __name__, str(torch.get_num_threads())]
    environment = {**os.environ, **SMALL}
    done = subprocess.run(words, input=asked, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    found: list[int | None] = json.loads(done.stdout.splitlines()[-1])
    return found


def allocated(case: CurveCase) -> int | None:
    """Peak bytes of a second step on a GPU."""
    torch = import_module("torch")
    gc.collect()
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated(case.device)
    try:
        step = case.make()
        step()
        torch.cuda.reset_peak_memory_stats(case.device)
        step()
    except torch.OutOfMemoryError:
        return None
    peak: int = torch.cuda.max_memory_allocated(case.device)
    return peak - before


def resident(case: CurveCase) -> int:
    """Growth of this process's peak resident memory, in bytes, due to the case's network, data and first step on a CPU."""
    from relearn.runs.provenance import resident_peak

    gc.collect()
    with contextlib.suppress(OSError):  # without this file the peak includes earlier cases
        Path("/proc/self/clear_refs").write_text("5")
    before = resident_peak()
    case.make()()
    return resident_peak() - before


if __name__ == "__main__":
    import torch

    from relearn.runs import orphan_guard

    orphan_guard.watch()  # ends together with the engine, like the job that waits for this process
    torch.set_num_threads(int(sys.argv[1]))
    asked = [read(CurveCase, one) for one in json.load(sys.stdin)]
    for one in {case.attention: case for case in reversed(asked)}.values():
        one.make()()  # loads the libraries
    print(json.dumps([resident(case) for case in asked]))
