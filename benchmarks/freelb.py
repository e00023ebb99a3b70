"""FreeLB on a small RoBERTa: K-pass steps compared with K plain steps, cost of shared masks, memory; and a step of the loss probe.

- step: FreeLB with K = 3, including the optimiser step, compared with three plain steps. Target: 0.95 of their time.
- masks: the same with shared dropout masks, compared with newly drawn masks. Target: 1.03.
- memory: the peak of a FreeLB step, relative to that of a plain step. Target: 1.1.
- probe: a step of the largest loss increase, 32 samples in one batch, compared with a bare forward pass and the gradient of the
  embeddings. Target: 1.1. Each side makes ``--steps`` of them; ``--case long`` runs the probe's 2,000 once and prints the time.

The encoder has RoBERTa's 50,265 words and 4 layers of width 256 (``--size base``: 12 of 768; ``narrow``: 8,192 words), batch 16 of up to
64 tokens, dropout 0.1, AdamW; float32. A step of K passes saves K - 1 optimiser steps and K - 1 dense gradients of the table, which is
little if passes are long and tables are small.

Time is CPU time on a CPU, and synchronised wall time on a GPU. Memory on a CPU is the peak resident memory during a step, in a
separate process, minus that before the model was created; on a GPU it is the allocator's peak. It includes weights,
gradients, optimiser moments, activations and scratch space.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import peak
import torch
from l2_attention import gpu_clock
from timing import compare, report
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from relearn.maths.eval_mode import frozen
from relearn.measures.loss_increase import largest_increase, sample_losses
from relearn.methods.fit import plain_gradient
from relearn.methods.freelb import FreeLB
from relearn.models.sentence_encoder import SentenceClassifier, classifier, configuration

PASSES, BATCH, LENGTH, SAMPLES = 3, 16, 64, 32
STEP, MASKS, MEMORY, PROBE = 0.95, 1.03, 1.1, 1.1
SIZES: dict[str, dict[str, int]] = {
    "tiny": dict(layers=2, dim=32, heads=2, ffn=64, vocabulary=100, max_length=LENGTH),
    "narrow": dict(layers=4, dim=256, heads=4, ffn=1024, vocabulary=8192, max_length=LENGTH),
    "small": dict(layers=4, dim=256, heads=4, ffn=1024, vocabulary=50265, max_length=LENGTH),
    "base": dict(layers=12, dim=768, heads=12, ffn=3072, vocabulary=50265, max_length=LENGTH),
}
SETTINGS: dict[str, Any] = dict(passes=PASSES, step_size=0.1, eps=0.3, start_norm=0.1)
CASES = ("step", "masks", "memory", "probe")
Inputs = tuple[Tensor, Tensor]


def encoder(size: str, device: str) -> SentenceClassifier:
    torch.manual_seed(0)
    special = {"bos": 0, "pad": 1, "eos": 2}
    config = configuration("roberta", special=special, dropout=0.1, attention_dropout=0.1, **SIZES[size])
    return classifier(config, "classification", 2).to(device).train()


def texts(size: str, rows: int, device: str) -> tuple[Inputs, Tensor]:
    tokens = torch.randint(3, SIZES[size]["vocabulary"], (rows, LENGTH))
    lengths = torch.randint(LENGTH // 2, LENGTH + 1, (rows,))
    lengths[0] = LENGTH
    real = torch.arange(LENGTH) < lengths[:, None]
    tokens = tokens.where(real, torch.tensor(1))
    return (tokens.to(device), real.to(device)), torch.randint(0, 2, (rows,)).to(device)


def training(size: str, gradient: Any, device: str, times: int = 1) -> Callable[[], None]:
    """Return a training step as in the training loop, ``times`` times."""
    model, batch = encoder(size, device), texts(size, BATCH, device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)

    def step() -> None:
        for _ in range(times):
            optimizer.zero_grad(set_to_none=True)
            gradient(model, cross_entropy, batch)
            optimizer.step()

    return step


def clock(device: str) -> Callable[[], float]:
    return time.process_time if device == "cpu" else gpu_clock


def timed(case: str, size: str, pairs: int, device: str) -> dict[str, Any]:
    if case == "step":
        reference, wanted = training(size, plain_gradient, device, PASSES), STEP
    else:
        reference, wanted = training(size, FreeLB(**SETTINGS, reuse_masks=False), device), MASKS
    ours = training(size, FreeLB(**SETTINGS), device)
    found = compare(ours, reference, pairs, clock=clock(device))
    return {"device": device, "case": case, "passes": PASSES, **found, "wanted_ratio": wanted}


class Probe:
    """32 samples as the loss probe sees them."""

    def __init__(self, size: str, device: str) -> None:
        self.model = encoder(size, device)
        (tokens, self.real), self.labels = texts(size, SAMPLES, device)
        # Positions as for tokens, because the network gets embeddings.
        self.positions = torch.where(self.real, self.real.cumsum(1) + 1, torch.ones_like(tokens))
        self.embeds = self.model.get_input_embeddings()(tokens).detach()
        self.eps = 0.01 * self.embeds.flatten(1).norm(dim=1)

    def losses(self, embeds: Tensor) -> Any:
        net: nn.Module = self.model.net
        scores = net(inputs_embeds=embeds, attention_mask=self.real, position_ids=self.positions).logits
        return sample_losses(scores, self.labels)

    def ours(self, steps: int) -> None:
        with frozen(self.model):
            largest_increase(self.losses, self.embeds, self.real, self.eps, steps=steps, step_size=5e-3)

    def bare(self, steps: int) -> None:
        """Forward pass and gradient of the embeddings, of the same loss."""
        with frozen(self.model):
            for _ in range(steps):
                point = self.embeds.clone().requires_grad_()
                value = self.losses(point)
                torch.autograd.grad((value[0] if isinstance(value, tuple) else value).sum(), point)


def probe(size: str, pairs: int, steps: int, device: str) -> dict[str, Any]:
    """Both sides evaluate equally often; the probe also evaluates the last point, without a gradient, at its own cost."""
    one = Probe(size, device)
    found = compare(lambda: one.ours(steps), lambda: one.bare(steps), pairs, clock=clock(device))
    return {
        "device": device,
        "case": "probe",
        "samples": SAMPLES,
        "steps": steps,
        **found,
        "wanted_ratio": PROBE,
    }


def long(size: str, device: str) -> dict[str, Any]:
    one, now = Probe(size, device), clock(device)
    start = now()
    one.ours(2000)
    return {"device": device, "case": "long", "samples": SAMPLES, "steps": 2000, "ours_s": now() - start}


def measure_memory(ours: bool, size: str) -> None:
    """In a separate process: print the bytes that a step needs, including the model."""
    gradient = FreeLB(**SETTINGS) if ours else plain_gradient
    first, build = (partial(training, sized, gradient, "cpu") for sized in ("tiny", size))
    peak.tell_step(first, build, warm=2)


def used(ours: bool, size: str, threads: int, device: str) -> int:
    if device != "cpu":
        gradient = FreeLB(**SETTINGS) if ours else plain_gradient
        return peak.on_gpu(lambda: training(size, gradient, device), warm=2)
    what = json.dumps([ours, size])
    return peak.in_process(__file__, "--memory", what, "--threads", str(threads))


def memory(size: str, threads: int, device: str) -> dict[str, Any]:
    ours, reference = (used(ours, size, threads, device) for ours in (True, False))
    row = {
        "device": device,
        "case": "memory",
        "passes": PASSES,
        "ratio": ours / reference,
        "wanted_ratio": MEMORY,
    }
    return row | {"ours_bytes": ours, "reference_bytes": reference}


def main() -> None:
    parser = argparse.ArgumentParser(description="FreeLB and its probe: time, masks, memory")
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--steps", type=int, default=25, help="steps of the probe in each pair")
    parser.add_argument("--size", choices=tuple(SIZES), default="small")
    parser.add_argument(
        "--case", choices=(*CASES, "long"), help="one case: printed, not written, as other sizes are"
    )
    arguments = peak.parsed(parser, measure_memory)
    pairs, size, threads = arguments.pairs, arguments.size, arguments.threads
    rows: list[dict[str, Any]] = []
    for device in ("cpu", "cuda") if torch.cuda.is_available() else ("cpu",):
        for case in (arguments.case,) if arguments.case else CASES:
            if case == "memory":
                rows.append(memory(size, threads, device))
            elif case == "probe":
                rows.append(probe(size, pairs, arguments.steps, device))
            elif case == "long":
                rows.append(long(size, device))
            else:
                rows.append(timed(case, size, pairs, device))
            print(rows[-1], flush=True)
    if not torch.cuda.is_available():
        rows.append({"device": "cuda", "skipped": "no such device here"})
    if not arguments.case and size == "small":
        facts = dict(**SIZES[size], batch=BATCH, length=LENGTH, passes=PASSES)
        report("freelb", rows, **facts, pairs=pairs, threads=threads, dtype="float32")


if __name__ == "__main__":
    main()
