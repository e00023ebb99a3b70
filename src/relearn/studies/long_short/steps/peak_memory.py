"""The most memory that a case's step needs: the allocator's peak on a GPU, resident bytes of a process of its own on a CPU.

One process measures all cases, one after another, because loading the libraries takes longer than most steps. Its allocator
returns every block above 64 kB to the system at once, or the peaks would be those of its habits.
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

from relearn.studies.long_short.steps.cost_cases import CurveCase

SMALL = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "0", "MALLOC_ARENA_MAX": "1"}


def peaks(cases: Sequence[CurveCase]) -> list[int | None]:
    """Bytes of each case's step at most, its network, tokens and cache among them; None where a GPU has too few."""
    if cases[0].device.startswith("cuda"):
        return [allocated(case) for case in cases]
    import torch

    told = json.dumps([dataclasses.asdict(case) for case in cases])
    words = [sys.executable, "-m", __name__, str(torch.get_num_threads())]
    environment = {**os.environ, **SMALL}
    done = subprocess.run(words, input=told, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    found: list[int | None] = json.loads(done.stdout.splitlines()[-1])
    return found


def allocated(case: CurveCase) -> int | None:
    """On a GPU, of a second step."""
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
    """On a CPU: growth of this process by what the case makes and its first step, in which nothing is left of one before."""
    from relearn.runs.provenance import resident_peak

    gc.collect()
    with contextlib.suppress(OSError):  # where there is no such file, the peak holds all that was before
        Path("/proc/self/clear_refs").write_text("5")
    before = resident_peak()
    case.make()()
    return resident_peak() - before


if __name__ == "__main__":
    import torch

    torch.set_num_threads(int(sys.argv[1]))
    asked = [CurveCase(**one) for one in json.load(sys.stdin)]
    for one in {case.attention: case for case in reversed(asked)}.values():
        one.make()()  # loads the libraries
    print(json.dumps([resident(case) for case in asked]))
