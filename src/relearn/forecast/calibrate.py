"""Measures this machine's rates on one thread: a convolution, a matrix product, a sum, many small calls, a start.

The shapes are those of small networks, which are typical here. Each rate is the median of a few repetitions in CPU time, which
a busy machine distorts less than wall time. The whole measurement takes well under a minute.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable

from relearn.forecast.machine import Machine
from relearn.runs.node.machine import cores

REPEATS = 7
SLICE_S = 0.12
"""CPU seconds of one repetition, about."""


def calibrate(repeats: int = REPEATS, slice_s: float = SLICE_S) -> Machine:
    """Measure the rates on one thread, those of convolutions and products in single precision and in bfloat16."""
    import torch
    from torch.nn.functional import conv2d

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            images, kernels = torch.randn(32, 32, 16, 16), torch.randn(32, 32, 3, 3)
            rows, maps = torch.randn(512, 128), torch.randn(128, 256)
            wide = torch.randn(1 << 22)
            step, started = tiny_training()
        with torch.no_grad():
            convolution = rate(lambda: conv2d(images, kernels, padding=1), repeats, slice_s)
            product = rate(lambda: rows @ maps, repeats, slice_s)
            halves = [one.bfloat16() for one in (images, kernels, rows, maps)]
            half_convolution = rate(lambda: conv2d(halves[0], halves[1], padding=1), repeats, slice_s)
            half_product = rate(lambda: halves[2] @ halves[3], repeats, slice_s)
            sums = rate(lambda: torch.add(wide, 1.0, out=wide), repeats, slice_s)
        calls = rate(step, repeats, slice_s)
    finally:
        torch.set_num_threads(before)
    per_convolution, per_product = 2 * 32 * 32 * 9 * 32 * 16 * 16, 2 * 512 * 128 * 256
    return Machine(
        name=processor(),
        convolutions=convolution * per_convolution,
        products=product * per_product,
        bf16_convolutions=half_convolution * per_convolution,
        bf16_products=half_product * per_product,
        bandwidth=sums * 2 * wide.numel() * 4,
        calls=calls * started,
        start_s=start(),
        cores=cores(),
        source="calibrated here",
    )


def tiny_training() -> tuple[Callable[[], object], float]:
    """A training step dominated by call overhead, and the number of calls that the model counts for it."""
    import torch

    from relearn.forecast.counting import Counter
    from relearn.studies.work import TRAIN

    blocks = [
        torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.LayerNorm(8), torch.nn.ReLU()) for _ in range(12)
    ]
    net, x = torch.nn.Sequential(*blocks), torch.zeros(4, 8)
    optimizer = torch.optim.AdamW(net.parameters(), 1e-3)
    with torch.no_grad(), Counter() as counter:
        net(x)

    def step() -> None:
        optimizer.zero_grad()
        net(x).sum().backward()
        optimizer.step()

    return step, counter.calls * TRAIN[1]


def rate(call: Callable[[], object], repeats: int, slice_s: float) -> float:
    """Calls per CPU second: the median over several slices, after a warm-up call."""
    call()
    begin = time.process_time()
    call()
    once = max(time.process_time() - begin, 1e-7)
    count = max(1, round(slice_s / once))
    found = []
    for _ in range(repeats):
        begin = time.process_time()
        for _ in range(count):
            call()
        found.append(count / max(time.process_time() - begin, 1e-9))
    return statistics.median(found)


def start() -> float:
    """CPU seconds to start a `relearn` command that only looks up its step, as in a warm start."""
    import resource

    begin = resource.getrusage(resource.RUSAGE_CHILDREN)
    program = "import relearn.cli, relearn.runs.record, relearn.runs.console"
    subprocess.run([sys.executable, "-c", program], check=True, stdin=subprocess.DEVNULL)
    end = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (end.ru_utime - begin.ru_utime) + (end.ru_stime - begin.ru_stime)


def processor() -> str:
    """The processor's name, as written in records."""
    from relearn.runs import provenance

    return str(provenance.machine("cpu", "fp32", 1)["cpu"])
