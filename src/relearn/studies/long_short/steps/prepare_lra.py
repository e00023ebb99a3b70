"""sequences: prepare one task of the Long Range Arena: load or generate it, perturb its written test texts, cut, keep, count.

Settings: ``task`` (listops | text | retrieval | image | pathfinder), ``dataset`` (listops, pathfinder: generated; text: imdb | python;
retrieval: aan | python_kinds | python_documents; image: cifar10 | digits), ``max_length`` (of a sequence; longer ones are cut),
``train_samples``, ``valid_samples``, ``test_samples`` (0: all there are, or as many as were published; fewer are evenly spaced),
``form`` (of generated samples, {} for the published one; listops: min_length, max_length, max_depth, max_args, operator_frac;
pathfinder: those of ``relearn.data.lra.pathfinder.Form``). The seed is the run's: of trees, images, partners and insertions.
Inputs: none. A folder of data sets at hand is named by the environment variable RELEARN_MIRROR (``$RELEARN_MIRROR/imdb`` and so on).
Output: ``data.safetensors`` (see ``relearn.data.lra.sequences``), its version among the notes.
Metrics: those of ``relearn.data.lra.sequences.prepare``: samples of each part, ``most_frequent_frac``, ``longest_count``,
``mean_length_count``, ``cut_frac``, ``vocabulary_count``, ``classes_count``.

No torch here, as in ``relearn.steps.prepare_images``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from relearn.runs.record import Run

NEEDS_TORCH = False


def run(
    run: Run, settings: dict[str, Any], inputs: dict[str, list[Path]], device: str, precision: str
) -> None:
    """See the module. Device and precision play no part."""
    from relearn.data.lra import PARTS, sequences, task
    from relearn.data.mirror import mirror_of

    made = task.make(
        settings["task"],
        settings["dataset"],
        samples={part: settings[f"{part}_samples"] for part in PARTS},
        max_length=settings["max_length"],
        seed=run.seed,
        folder=mirror_of(settings["dataset"]),
        form=settings["form"],
    )
    prepared, metrics = sequences.prepare(made, max_length=settings["max_length"], seed=run.seed)
    sequences.save(prepared, run.output("data.safetensors"))
    run.finish(
        metrics=metrics,
        notes=[f"version: {prepared.version}", "source: " + json.dumps(made.source, sort_keys=True)],
    )
