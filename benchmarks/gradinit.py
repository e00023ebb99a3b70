"""Cost of an iteration of GradInit, compared with a training step: CPU time and memory.

Baseline: a step of the subsequent training's recipe on the same batch: SGD with momentum 0.9 for images, Adam for
the Post-LN Transformer of translation (table 4.10; smaller, without dropout, which GradInit turns off), in the training's memory
layout, channels_last for images. Ours: iterations
of `gradinit` with A of that recipe, from the end of the first to the end of the last, with S and S̃ of the
baseline's batch size. The Transformer's rows are the objective and the constraint iteration.

- objective: gamma infinite. Target: at most 2.1 of the time, 1.15 of the memory.
- constraint: gamma close to 0. Target: at most 2.8 of the time without batch normalisation, 3.5 with, 2.5 of the memory.
- surprise: a constraint iteration after an objective one, which repeats its forward pass. No bound.
- penalty, and MetaInit (real data, Adam): no bound; these are the comparisons of the published tables.
- objective and constraint in bf16, against a training step in bf16: no bound. There GradInit keeps the layout of the weights.

Memory is the peak resident memory during an iteration, in a separate process, minus that before
the network was built. It includes weights, optimiser state, activations and a library's scratch space. malloc is configured to
return freed memory immediately (peak.py); otherwise the peaks would reflect allocator caching.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import peak
import torch
from timing import compare, report
from torch import Tensor
from torch.nn.functional import cross_entropy

from relearn.methods.gradinit import gradinit
from relearn.methods.metainit import metainit
from relearn.methods.token_loss import token_loss
from relearn.models import create
from relearn.models.post_ln_transformer import PostLNTransformer

# For time: three to eight million products per image. For memory VGG is wider: at half the width and half the batch, weights and
# activations have the same ratio as in the published network at batch 128.
TIMED: dict[str, dict[str, float]] = {
    "VGG-19": {"width": 0.25},
    "VGG-19-BN": {"width": 0.25},
    "ResNet-110": {"depth": 1 / 6},
    "ResNet-110-BN": {"depth": 1 / 6},
}
TRANSLATION = "Post-LN Transformer"
TRANSFORMER = {"dim": 128, "ffn": 256, "heads": 4, "encoder_layers": 6, "decoder_layers": 6}
SENTENCES, TOKENS, VOCABULARY = 32, 24, 1000
OF_TRANSLATION = ("objective", "constraint")
WEIGHED = {**TIMED, "VGG-19": {"width": 0.5}, "VGG-19-BN": {"width": 0.5}}
TINY = {name: {"width": 0.1, "depth": 0.01} for name in TIMED}
BATCH, OVERLAP = 64, 0.5
# Kinds of iteration, with the limits on time and memory.
KINDS: dict[str, tuple[float | None, float | None]] = {
    "objective": (2.1, 1.15),
    "constraint": (2.8, 2.5),
    "surprise": (None, None),
    "penalty": (None, None),
    "metainit": (None, None),
    "objective, bf16": (None, None),
    "constraint, bf16": (None, None),
}


class Stopwatch:
    """CPU seconds between the first and the last of `count` laps; the clock does not advance otherwise."""

    def __init__(self, start: Callable[[], None] | None = None) -> None:
        self.total = self.begun = 0.0
        self.start = start

    def now(self) -> float:
        return self.total

    def lap(self, done: int, count: int) -> None:
        if done == 1:
            if self.start:
                self.start()
            self.begun = time.process_time()
        if done == count:
            self.total += time.process_time() - self.begun


def iterations(
    name: str,
    size_of: dict[str, dict[str, float]],
    kind: str,
    watch: Stopwatch,
    laps: int,
    batch_size: int | None = None,
) -> Callable[[], None]:
    """Return a call that runs `laps` iterations, or baseline steps, on a network built for it."""
    kind, _, precision = kind.partition(", ")
    torch.manual_seed(0)
    batch_size = batch_size or (SENTENCES if name == TRANSLATION else BATCH)
    size = round(batch_size * (2 - OVERLAP))
    optimiser: torch.optim.Optimizer
    settings: dict[str, Any] = {}
    if name == TRANSLATION:
        model, loss = _transformer().train(), token_loss
        words = torch.randint(1, VOCABULARY, (3, size, TOKENS))
        inputs: Any = (words[0], words[1])
        labels = words[2]
        rule = torch.optim.Adam if kind == "sgd" else torch.optim.SGD
        optimiser = rule(model.parameters(), lr=1e-6)
        settings["optimizer"] = "adam"
    else:
        model, loss = create(name, **size_of[name]).train(), cross_entropy  # type: ignore[arg-type]
        inputs, labels = torch.rand(size, 3, 32, 32), torch.randint(0, 10, (size,))
        if kind.startswith("sgd"):
            model, inputs = (one.to(memory_format=torch.channels_last) for one in (model, inputs))  # type: ignore[attr-defined]
        optimiser = torch.optim.SGD(model.parameters(), lr=1e-6, momentum=0.9 if kind == "sgd" else 0.0)
    pools = [(inputs, labels)] * laps
    # A small rate and a bound that is never met, or always met, make all iterations of the same kind.
    settings |= {"iterations": laps, "tau": 1e-6, "progress": watch.lap}
    first = tuple(one[:batch_size] for one in (inputs if isinstance(inputs, tuple) else (inputs,)))
    if kind.startswith("sgd"):
        half = precision == "bf16"
        return lambda: steps(model, loss, optimiser, (first, labels[:batch_size]), watch, laps, half)
    settings["precision"] = precision or "fp32"
    run = partial(_run, loss)
    if kind == "objective":
        return lambda: run(gradinit, model, pools, overlap=OVERLAP, gamma=math.inf, **settings)
    if kind == "constraint":
        return lambda: run(gradinit, model, pools, overlap=OVERLAP, gamma=1e-12, **settings)
    if kind == "surprise":
        return lambda: (
            [
                run(
                    gradinit,
                    model,
                    pools[:1],
                    overlap=OVERLAP,
                    gamma=1e-12,
                    tau=1e-6,
                    iterations=1,
                    progress=lap,
                )
                for lap in [_every(watch, laps, i) for i in range(laps)]
            ]
            and None
        )
    if kind == "penalty":
        return lambda: run(gradinit, model, pools, overlap=OVERLAP, form="penalty", **settings)
    halves = [(first[0], labels[:batch_size])] * laps
    return lambda: run(metainit, model, halves, data="real", optimizer="adam", **settings)


def _transformer() -> PostLNTransformer:
    off = {"dropout": 0.0, "attention_dropout": 0.0, "activation_dropout": 0.0}
    return PostLNTransformer(VOCABULARY, **TRANSFORMER, **off)  # type: ignore[arg-type]


def steps(
    model: Any,
    loss: Callable[..., Tensor],
    optimiser: torch.optim.Optimizer,
    batch: tuple[tuple[Tensor, ...], Tensor],
    watch: Stopwatch,
    laps: int,
    half: bool,
) -> None:
    for done in range(1, laps + 1):
        optimiser.zero_grad(set_to_none=True)
        with torch.autocast("cpu", torch.bfloat16, enabled=half):
            value = loss(model(*batch[0]), batch[1])
        value.backward()
        optimiser.step()
        watch.lap(done, laps)


def _run(loss: Callable[..., Tensor], method: Any, model: Any, pools: Any, **settings: Any) -> None:
    result = method(model, loss, pools, **settings)
    assert result.outcome == "ok"


def _every(watch: Stopwatch, laps: int, index: int) -> Callable[[int, int], None]:
    """Count single iterations as laps of one stopwatch."""
    return lambda done, count: watch.lap(index + 1, laps)


def measure_memory(name: str, kind: str) -> None:
    """In a separate process: print the bytes that one iteration needs, including the network."""
    iterations(name, TINY, kind, Stopwatch(), 2, 4)()  # load libraries first, so that they do not count
    before = peak.resident()
    iterations(name, WEIGHED, kind, Stopwatch(peak.reset), 3)()
    peak.tell(before)


def memory(name: str, kind: str, threads: int) -> int:
    return peak.in_process(__file__, "--memory", name, kind, "--threads", str(threads))


def main() -> None:
    parser = argparse.ArgumentParser(
        description="GradInit's iterations against a step of SGD: CPU time, memory"
    )
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--laps", type=int, default=3, help="iterations a call; all but the first are timed")
    parser.add_argument("--networks", nargs="*", default=[*TIMED, TRANSLATION])
    parser.add_argument(
        "--kinds", nargs="*", default=list(KINDS), help="with fewer rows, only these are replaced"
    )
    parser.add_argument("--memory", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    if arguments.memory:
        measure_memory(*arguments.memory)
        return
    rows: list[dict[str, Any]] = []
    for name in arguments.networks:
        plain = memory(name, "sgd-plain", arguments.threads)
        bytes_of_step = memory(name, "sgd", arguments.threads)
        for kind in arguments.kinds:
            if name == TRANSLATION and kind not in OF_TRANSLATION:
                continue
            time_bound, memory_bound = KINDS[kind]
            if kind == "constraint" and name.endswith("BN"):
                time_bound = 3.5
            watch = Stopwatch()
            laps = arguments.laps
            step = kind.replace(kind.partition(",")[0], "sgd")
            timed = compare(
                iterations(name, TIMED, kind, watch, laps),
                iterations(name, TIMED, step, watch, laps),
                arguments.pairs,
                clock=watch.now,
            )
            used = memory(name, kind, arguments.threads)
            rows.append(
                {
                    "network": name,
                    "iteration": kind,
                    **timed,
                    "wanted_ratio": time_bound,
                    "memory_ratio": used / bytes_of_step,
                    "wanted_memory": memory_bound,
                    "memory_ratio_to_sgd_without_momentum": used / plain,
                    "ours_bytes": used,
                    "reference_bytes": bytes_of_step,
                }
            )
            print(rows[-1], flush=True)
    everything = (arguments.networks, arguments.kinds) == ([*TIMED, TRANSLATION], list(KINDS))
    report(
        "gradinit",
        rows,
        part_by=() if everything else ("network", "iteration"),
        timed_networks={**TIMED, TRANSLATION: TRANSFORMER},
        weighed_networks={**WEIGHED, TRANSLATION: TRANSFORMER},
        batch=BATCH,
        image=[3, 32, 32],
        sentences=[SENTENCES, TOKENS],
        pairs=arguments.pairs,
    )


if __name__ == "__main__":
    main()
