"""prepare_ptb_lines: load a text for character language models (downloaded if needed), store it as ids, and count.

settings: ``dataset`` (a name of ``relearn.data.TEXTS``), ``max_length`` (characters; longer lines are left out in every
part), ``train_sentences``, ``valid_sentences``, ``test_sentences`` (0 = all of those that stay, else so many, evenly spaced).
inputs: none. A folder of texts at hand is named by the environment variable RELEARN_MIRROR (it holds one folder a
text, e.g. ``$RELEARN_MIRROR/ptb``).
outputs: ``characters.safetensors`` (see ``relearn.data.characters``).
metrics: those of ``relearn.data.characters.prepare``: lines, characters and lines left out of each part,
``left_out_frac``, ``vocabulary_count``, ``longest_count``, ``unknown_frac``; ``unigram_nats`` and ``bigram_nats``, what a
model must beat (see ``relearn.data.ngrams``): of train on test, in nats a target, the targets being characters and ends.
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
    """See the module. Device and precision are not used."""
    from relearn.data.characters import prepare, save_characters
    from relearn.data.mirror import mirror_of
    from relearn.data.ngrams import cross_entropies
    from relearn.data.text_lines import load_text

    name = settings["dataset"]
    text = load_text(name, folder=mirror_of(name))
    prepared, metrics = prepare(
        text,
        name=name,
        max_length=settings["max_length"],
        train_sentences=settings["train_sentences"],
        valid_sentences=settings["valid_sentences"],
        test_sentences=settings["test_sentences"],
    )
    save_characters(prepared, run.output("characters.safetensors"))
    unigram, bigram = cross_entropies(
        prepared.flat("train"), prepared.flat("test"), vocabulary=prepared.vocabulary
    )
    metrics |= {"unigram_nats": unigram, "bigram_nats": bigram}
    run.finish(metrics=metrics, notes=["source: " + json.dumps(text.source, sort_keys=True)])
