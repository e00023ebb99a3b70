"""time_training_step: time a training step with one kind of attention and with dot products.

The network is a character Transformer.

Settings: attention (as in `train_char_lm`, with lstm), layers (a list of depths), dim, heads, ffn, batch_size (lines),
max_length (characters of the longest line; the network has one more position, for the start symbol), pairs (at least 7).
Input: characters.
Output: times.csv (layers, pair, own_s, dp_s).

A step consists of forward pass, loss, backward pass and Adam update, without dropout. It always uses the same training batch: the
one whose length is nearest to the mean over an epoch. Steps of the two networks alternate, and every second pair runs in the
opposite order, so that drift of the machine affects both equally; one warm-up pair is not counted. Times are CPU time of this
process on a CPU (wall time is unreliable on a shared machine) and wall time after synchronisation on a GPU. kim2020 (table 1)
reports the wall time of an epoch.

Metrics for each depth n: layers{n}_step_s, the median over the pairs; layers{n}_epoch_s, this median times the steps per
epoch; layers{n}_dp_ratio, the median over the pairs of own_s / dp_s. Also steps_count, the steps per epoch, and length_count,
the number of positions of the batch.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from relearn.steps.csv_rows import write_rows
from relearn.steps.trained.step_time import clock_of, in_turns

if TYPE_CHECKING:
    import torch

    from relearn.data.character_batches import Batch, CharacterBatches

NEEDS_TORCH = True
LEAST_PAIRS = 7
COLUMNS = ("layers", "pair", "own_s", "dp_s")


@dataclass(frozen=True, kw_only=True)
class Settings:
    attention: str
    layers: Sequence[int]
    dim: int
    heads: int
    ffn: int
    batch_size: int
    max_length: int
    pairs: int


def run(run, settings: Settings, inputs: dict[str, list[Path]], device: str, precision: str) -> None:
    from relearn.data.character_batches import CharacterBatches
    from relearn.data.characters import load_characters
    from relearn.models.character_lm import create
    from relearn.runs.console import Progress

    pairs, depths = settings.pairs, settings.layers
    if pairs < LEAST_PAIRS:
        raise ValueError(
            f"pairs: {pairs} (allowed: at least {LEAST_PAIRS}, for a median that means something)"
        )
    if not depths or len(set(depths)) < len(depths):
        raise ValueError(f"layers: {depths} (allowed: one or more depths, each once)")
    prepared = load_characters(inputs["characters"][0])
    if prepared.max_length > settings.max_length:
        raise ValueError(
            f"max_length: {settings.max_length} (allowed: at least {prepared.max_length}, as {prepared.dataset} was prepared)"
        )
    lines = CharacterBatches(prepared.part("train"), batch_size=settings.batch_size, device=device)
    batch = lines.batch(mean_rows(lines))
    network = partial(
        create,
        dim=settings.dim,
        heads=settings.heads,
        ffn=settings.ffn,
        vocabulary=prepared.vocabulary,
        max_length=settings.max_length + 1,
        dropout=0.0,
    )
    rows: list[dict[str, float]] = []
    metrics: dict[str, float] = {}
    with Progress(f"time_training_step {settings.attention}") as progress:
        for layers in depths:
            both = [
                training_step(network(attention=kind, layers=layers), batch, device, precision)
                for kind in (settings.attention, "dp")
            ]
            here = [
                {"layers": layers, "pair": pair, "own_s": own_s, "dp_s": dp_s}
                for pair, (own_s, dp_s) in enumerate(in_turns(both, pairs, device))
            ]
            rows += here
            progress(len(rows), pairs * len(depths))
            step = statistics.median(row["own_s"] for row in here)
            metrics[f"layers{layers}_step_s"] = step
            metrics[f"layers{layers}_epoch_s"] = step * lines.batches_per_epoch
            metrics[f"layers{layers}_dp_ratio"] = statistics.median(
                row["own_s"] / row["dp_s"] for row in here
            )
    write_rows(run.output("times.csv"), COLUMNS, rows)
    metrics |= {"steps_count": lines.batches_per_epoch, "length_count": batch[0].shape[1]}
    run.finish(
        metrics,
        notes=[f"{clock_of(device)}; a batch of {batch[0].shape[0]} lines and {batch[0].shape[1]} places"],
    )


def mean_rows(lines: CharacterBatches) -> torch.Tensor:
    """Rows of the batch whose length is nearest to the mean over an epoch; a full batch if there is one."""
    cuts = [rows for rows, _ in lines.in_order()]
    lengths = [int(lines.lines.lengths[rows].max()) for rows in cuts]
    mean = sum(lengths) / len(lengths)
    full = [i for i, rows in enumerate(cuts) if len(rows) == lines.batch_size] or range(len(cuts))
    return cuts[min(full, key=lambda i: abs(lengths[i] - mean))]


def training_step(net: torch.nn.Module, batch: Batch, device: str, precision: str) -> Callable[[], None]:
    """A function that performs one Adam step of ``net`` on ``batch``, with a learning rate too small to affect the time of a step."""
    import torch

    from relearn.methods.token_loss import token_loss

    net.to(device).train()
    optimiser = torch.optim.Adam(net.parameters(), lr=1e-6)
    tokens, targets = batch
    kind, mixed = torch.device(device).type, precision == "bf16"

    def step() -> None:
        optimiser.zero_grad(set_to_none=True)
        with torch.autocast(kind, torch.bfloat16, enabled=mixed):
            loss = token_loss(net(tokens), targets, smoothing=0.0)
        loss.backward()
        optimiser.step()

    return step
