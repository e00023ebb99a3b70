"""prepare_lra: load or generate a task of the Long Range Arena and perturb its test texts.

Only natural-language test texts are perturbed. All sequences are truncated to ``max_length``, stored and counted.

Settings: ``task`` (listops | text | retrieval | image | pathfinder), ``dataset`` (listops, pathfinder: generated | lra_release; text:
imdb | python; retrieval: aan | lra_release | python_kinds | python_documents; image: cifar10 | digits), ``max_length`` (longer sequences
are truncated), ``train_samples``, ``valid_samples``, ``test_samples`` (0: all available, or the published number; a smaller number is
evenly spaced), ``form`` (of generated samples, {} for the published one; listops: min_length, max_length, max_depth, max_args,
operator_frac, and closing, which also applies to lra_release; pathfinder: fields of ``relearn.data.lra.pathfinder.Form``). The run's seed
determines trees, images, partners and insertions.
Inputs: none. The environment variable RELEARN_MIRROR may name a folder of data sets (``$RELEARN_MIRROR/imdb``).
Output: ``data.safetensors`` (see ``relearn.data.lra.sequences``); its version is in the notes.
Metrics: those of ``relearn.data.lra.sequences.prepare``: samples of each part, ``most_frequent_frac``, ``longest_count``,
``mean_length_count``, ``cut_frac``, ``vocabulary_count``, ``classes_count``.

This step does not need torch.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from relearn.runs.record import Run

NEEDS_TORCH = False


@dataclass(frozen=True, kw_only=True)
class Settings:
    task: str
    dataset: str
    max_length: int
    train_samples: int
    valid_samples: int
    test_samples: int
    form: Mapping[str, Any]


def run(run: Run, settings: Settings, inputs: dict[str, list[Path]], device: str, precision: str) -> None:
    """Run the step; device and precision are not used."""
    from relearn.data.lra import sequences, task
    from relearn.data.mirror import mirror_of

    made = task.make(
        settings.task,
        settings.dataset,
        samples={
            "train": settings.train_samples,
            "valid": settings.valid_samples,
            "test": settings.test_samples,
        },
        max_length=settings.max_length,
        seed=run.seed,
        folder=mirror_of(settings.dataset),
        form=settings.form,
    )
    prepared, metrics = sequences.prepare(made, max_length=settings.max_length, seed=run.seed)
    sequences.save(prepared, run.output("data.safetensors"))
    run.finish(
        metrics=metrics,
        notes=[f"version: {prepared.version}", "source: " + json.dumps(made.source, sort_keys=True)],
    )
