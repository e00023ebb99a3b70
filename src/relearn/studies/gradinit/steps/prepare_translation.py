"""Load a translation corpus, learn its vocabulary, and store the sentence pairs as ids.

The corpus is downloaded if necessary. The joint vocabulary is learned from the training part.

Settings: dataset (a name of ``relearn.data.CORPORA``), vocabulary (ids), max_length (ids; longer training pairs are left out),
train_pairs and test_pairs (0: all; test_pairs applies to both the validation and the test part). No inputs. The environment variable
RELEARN_MIRROR names a folder with one subfolder per local data set, e.g. ``$RELEARN_MIRROR/multi30k``.
Output: corpus.safetensors (see ``relearn.data.corpus``).
Metrics: number of pairs of each part, size of the vocabulary, mean and largest sentence length in ids (without bos and eos), fraction
of unknown ids, number of source sentences of validation and test that also occur in training.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from relearn.runs.settings import picked

if TYPE_CHECKING:
    from relearn.runs.record import Run

NEEDS_TORCH = False


@dataclass(frozen=True, kw_only=True)
class Settings:
    dataset: str
    vocabulary: int
    max_length: int
    train_pairs: int
    test_pairs: int


def run(run: Run, settings: Settings, inputs: dict[str, list[Path]], device: str, precision: str) -> None:
    """See the module. Device and precision have no effect."""
    from relearn.data.corpus import prepare, save_corpus
    from relearn.data.mirror import mirror_of
    from relearn.data.sentence_pairs import load_pairs

    name = settings.dataset
    raw = load_pairs(name, folder=mirror_of(name))
    sizes = picked(settings, "vocabulary", "max_length", "train_pairs", "test_pairs")
    prepared, metrics = prepare(raw, name=name, **sizes)
    save_corpus(prepared, run.output("corpus.safetensors"))
    notes = ["source: " + json.dumps(raw.source, sort_keys=True)]
    if metrics["vocabulary_count"] < settings.vocabulary:
        notes.append(
            f"vocabulary: {len(prepared.tokenizer)} ids, the training text has no more pairs to merge"
        )
    run.finish(metrics=metrics, notes=notes)
