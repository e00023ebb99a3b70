"""prepare_ptb_lines: load a text for character language models and store its lines as ids.

The text is downloaded if necessary. The step also counts its lines and characters and evaluates unigram and bigram models.

settings: ``dataset`` (a name of ``relearn.data.TEXTS``), ``max_length`` (characters; longer lines are left out of every
part), ``train_sentences``, ``valid_sentences``, ``test_sentences`` (0: all remaining lines; otherwise this number, evenly spaced).
inputs: none. The environment variable RELEARN_MIRROR may name a folder with one subfolder per local text,
e.g. ``$RELEARN_MIRROR/ptb``.
outputs: ``characters.safetensors`` (see ``relearn.data.characters``).
metrics: those of ``relearn.data.characters.prepare``: lines, characters and omitted lines of each part,
``left_out_frac``, ``vocabulary_count``, ``longest_count``, ``unknown_frac``; ``unigram_nats`` and ``bigram_nats``, the cross
entropies on the test part of n-gram models fitted to the training part, which a model must beat (see ``relearn.data.ngrams``), in
nats per target; targets are characters and line ends.
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
    max_length: int
    train_sentences: int
    valid_sentences: int
    test_sentences: int


def run(run: Run, settings: Settings, inputs: dict[str, list[Path]], device: str, precision: str) -> None:
    """See the module. Device and precision are not used."""
    from relearn.data.characters import prepare, save_characters
    from relearn.data.mirror import mirror_of
    from relearn.data.ngrams import cross_entropies
    from relearn.data.text_lines import load_text

    name = settings.dataset
    text = load_text(name, folder=mirror_of(name))
    sizes = picked(settings, "max_length", "train_sentences", "valid_sentences", "test_sentences")
    prepared, metrics = prepare(text, name=name, **sizes)
    save_characters(prepared, run.output("characters.safetensors"))
    unigram, bigram = cross_entropies(
        prepared.flat("train"), prepared.flat("test"), vocabulary=prepared.vocabulary
    )
    metrics |= {"unigram_nats": unigram, "bigram_nats": bigram}
    run.finish(metrics=metrics, notes=["source: " + json.dumps(text.source, sort_keys=True)])
