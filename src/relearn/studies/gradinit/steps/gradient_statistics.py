"""Measure the gradients of a network before training.

For every parameter tensor, the step measures its magnitude and the mean and standard deviation of its gradient over minibatches
(zhu2022, figures 4.1 and 4.4 to 4.10).

Settings: task (images | folder | translation) with the settings of that task, batches, and batch_size (images) or max_tokens
(translation); protocol, always gradient_statistics. Inputs: data, network. Output: layers.csv, with the columns of
:data:`relearn.measures.gradient_statistics.COLUMNS`; an absent value is an empty cell.

Runs with the same label `network` use the same minibatches, whatever the initialisation, so they can be compared.
If a gradient is not finite, the run ends as `diverged` and the corresponding cells are empty.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from relearn.steps.csv_rows import write_rows
from relearn.steps.tasks import OnFolder, OnImages, OnTranslation, open_task

NEEDS_TORCH = True


@dataclass(frozen=True, kw_only=True)
class Statistics:
    protocol: Literal["gradient_statistics"] = "gradient_statistics"
    batches: int


@dataclass(frozen=True, kw_only=True)
class ImagesSettings(Statistics, OnImages):
    batch_size: int


@dataclass(frozen=True, kw_only=True)
class FolderSettings(Statistics, OnFolder):
    batch_size: int


@dataclass(frozen=True, kw_only=True)
class TranslationSettings(Statistics, OnTranslation):
    max_tokens: int


Settings = ImagesSettings | FolderSettings | TranslationSettings


def run(run, settings: Settings, inputs: dict[str, list[Path]], device: str, precision: str) -> None:
    """See the module. Gradients are always computed in single precision; ``precision`` has no effect."""
    from relearn.measures.gradient_statistics import COLUMNS, gradient_statistics
    from relearn.runs.console import Progress
    from relearn.steps.trained.seed import seed_of

    task = open_task(settings, inputs, device)
    model = task.network(inputs["network"][0])
    size = settings.max_tokens if settings.task == "translation" else settings.batch_size
    seed = seed_of(run.labels, run.seed, "protocol", "task", "network")
    count = settings.batches
    with Progress("gradient_statistics") as progress:

        def counted() -> Iterator[Sequence[Any]]:
            for number, batch in enumerate(task.batches(seed, size), 1):
                progress(number, count)
                yield batch

        rows = gradient_statistics(model, task.loss, counted(), count=count)
    write_rows(run.output("layers.csv"), COLUMNS, rows)
    odd = [row["name"] for row in rows if not math.isfinite(row["gradient_std"])]
    notes = ["gradients in fp32, batch normalisation on the statistics of the batch, no dropout"]
    if precision != "fp32":
        notes.append(f"precision {precision} has no effect here")
    run.finish(
        {**_summary(rows), "batches_count": count},
        outcome="diverged" if odd else "ok",
        outcome_reason=f"the gradient of {odd[0]} and {len(odd) - 1} more is not finite" if odd else None,
        notes=notes,
    )


def _summary(rows: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Totals, means over tensors, and the ratio of the first to the last convolution's standard deviation (section 4.3.1.2)."""
    ratios = [row["relative_std"] for row in rows if row["relative_std"] is not None]
    found: dict[str, float] = {
        "tensors_count": len(rows),
        "parameters_count": sum(row["numel"] for row in rows),
        "gradient_std_mean": math.fsum(row["gradient_std"] for row in rows) / len(rows),
    }
    if ratios:
        found["relative_std_mean"] = math.fsum(ratios) / len(ratios)
    convolutions = [row for row in rows if (row["kind"], row["group"]) == ("linear", "conv")]
    if len(convolutions) > 1 and convolutions[-1]["gradient_std"] > 0:
        first, last = convolutions[0], convolutions[-1]
        found["conv_std_first_to_last_ratio"] = first["gradient_std"] / last["gradient_std"]
    return found
