"""A training step of long-short attention compared with full attention: time, memory, and their growth with the length.

The layer is :class:`LongShortAttention` with w = 8 and r = 32; full attention has the same four projections around torch's
``scaled_dot_product_attention``. Forward and backward pass, gradients of the input and of all weights; D = 64, 2 heads, batch 4.

- layer: targets of 0.36, 0.19 and 0.10 of full attention's time at n = 1024, 2048 and 4096; of its memory 1.3.
- slope: of log time over log n, least squares over the medians for n = 1024 to 16384. Target: 1.15.

Time is CPU time on a CPU, and synchronised wall time on a GPU. Memory on a CPU is the peak
resident memory during a step, in a separate process, minus that before the layer and its input were created; on a GPU it is the
allocator's peak. It includes weights, gradients, activations and scratch space.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time
from collections.abc import Callable
from typing import Any

import peak
import torch
from l2_attention import gpu_clock
from timing import compare, report
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from relearn.layers.long_short_attention import LongShortAttention
from relearn.layers.self_attention import merge

DIM, HEADS, WINDOW, RANK, BATCH = 64, 2, 8, 32, 4
TIME = {1024: 0.36, 2048: 0.19, 4096: 0.10}
MEMORY, SLOPE = 1.3, 1.15
LENGTHS = (1024, 2048, 4096, 8192, 16384)


class FullAttention(nn.Module):
    """Full attention with the same projections as ours."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        return self.proj(merge(scaled_dot_product_attention(q, k, v)))


def layer_step(ours: bool, length: int, device: str = "cpu") -> Callable[[], None]:
    """Return a forward and backward pass of one layer."""
    torch.manual_seed(0)
    layer = LongShortAttention(DIM, HEADS, window=WINDOW, rank=RANK) if ours else FullAttention(DIM, HEADS)
    layer.to(device)
    x = torch.randn(BATCH, length, DIM, device=device, requires_grad=True)
    ahead = torch.randn(BATCH, length, DIM, device=device)

    def step() -> None:
        x.grad = None
        layer.zero_grad()
        layer(x).backward(ahead)

    return step


def measure_memory(ours: bool, length: int) -> None:
    """In a separate process: print the bytes that a step needs, including the layer."""
    peak.tell_step(lambda: layer_step(ours, 16), lambda: layer_step(ours, length))


def memory(ours: bool, length: int, threads: int, device: str) -> int:
    if device != "cpu":
        return peak.on_gpu(lambda: layer_step(ours, length, device))
    what = json.dumps([ours, length])
    return peak.in_process(__file__, "--memory", what, "--threads", str(threads))


def clock(device: str) -> Callable[[], float]:
    return time.process_time if device == "cpu" else gpu_clock


def layers(lengths: tuple[int, ...], pairs: int, threads: int, device: str) -> list[dict[str, Any]]:
    rows = []
    for length in lengths:
        timed = compare(
            layer_step(True, length, device), layer_step(False, length, device), pairs, clock=clock(device)
        )
        used, reference = (memory(ours, length, threads, device) for ours in (True, False))
        rows.append(
            {
                "device": device,
                "part": "layer",
                "length": length,
                **timed,
                "wanted_ratio": TIME.get(length),
                "memory_ratio": used / reference,
                "wanted_memory": MEMORY,
                "ours_bytes": used,
                "reference_bytes": reference,
            }
        )
        print(rows[-1], flush=True)
    return rows


def slope(lengths: tuple[int, ...], repeats: int, device: str) -> dict[str, Any]:
    """Growth of our own time; each round measures all lengths, so that drift of the machine affects all of them."""
    steps = {length: layer_step(True, length, device) for length in lengths}
    now, times = clock(device), {length: list[float]() for length in lengths}
    for step in steps.values():
        step()
    for _ in range(repeats):
        for length, step in steps.items():
            start = now()
            step()
            times[length].append(now() - start)
    seconds = {length: statistics.median(found) for length, found in times.items()}
    fitted = statistics.linear_regression(
        [math.log(length) for length in lengths], [math.log(seconds[length]) for length in lengths]
    )
    row = {"device": device, "part": "slope", "slope": fitted.slope, "wanted_slope": SLOPE}
    row |= {f"s_{length}": seconds[length] for length in lengths}
    print(row, flush=True)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(
        description="long-short attention against full attention: time, memory, growth"
    )
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--part", choices=("layer", "slope"), help="one part: printed, not written")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: printed, not written")
    arguments = peak.parsed(parser, measure_memory)
    pairs, threads = arguments.pairs, arguments.threads
    lengths, all_lengths = ((64, 128), (64, 128)) if arguments.quick else (tuple(TIME), LENGTHS)
    rows: list[dict[str, Any]] = []
    for device in ("cpu", "cuda") if torch.cuda.is_available() else ("cpu",):
        if arguments.part in (None, "layer"):
            rows += layers(lengths, pairs, threads, device)
        if arguments.part in (None, "slope"):
            rows.append(slope(all_lengths, pairs, device))
    if not torch.cuda.is_available():
        rows.append({"device": "cuda", "skipped": "no such device here"})
    if not (arguments.quick or arguments.part):
        facts = dict(dim=DIM, heads=HEADS, window=WINDOW, rank=RANK, batch=BATCH)
        report("long_short", rows, **facts, pairs=pairs, threads=threads, dtype="float32")


if __name__ == "__main__":
    main()
