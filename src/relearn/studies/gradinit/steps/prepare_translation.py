"""Prepare a corpus: load it (downloading it where needed), learn a joint vocabulary on train, keep it as ids.

settings: ``dataset`` (a name of ``relearn.data.CORPORA``), ``vocabulary`` (ids), ``max_length`` (ids; longer training
pairs are left out), ``train_pairs`` and ``test_pairs`` (0 = all; ``test_pairs`` holds for valid and for test).
inputs: none. A folder of data sets at hand is named by the environment variable RELEARN_MIRROR (it holds one
folder a data set, e.g. ``$RELEARN_MIRROR/multi30k``).
outputs: ``corpus.safetensors`` (see ``relearn.data.corpus``).
metrics: pairs in each part, ids in the vocabulary, mean and largest sentence in ids (without bos and eos), share of
ids that are unknown, source sentences of valid and test that also stand in train.
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
    from relearn.data.corpus import prepare, save_corpus
    from relearn.data.mirror import mirror_of
    from relearn.data.sentence_pairs import load_pairs

    name = settings["dataset"]
    raw = load_pairs(name, folder=mirror_of(name))
    prepared, metrics = prepare(
        raw,
        name=name,
        vocabulary=settings["vocabulary"],
        max_length=settings["max_length"],
        train_pairs=settings["train_pairs"],
        test_pairs=settings["test_pairs"],
    )
    save_corpus(prepared, run.output("corpus.safetensors"))
    notes = ["source: " + json.dumps(raw.source, sort_keys=True)]
    if metrics["vocabulary_count"] < settings["vocabulary"]:
        notes.append(
            f"vocabulary: {len(prepared.tokenizer)} ids, the training text has no further pair to merge"
        )
    run.finish(metrics=metrics, notes=notes)
