"""Prepare a character stream: load it (downloading it where needed), cut it in three, keep it as ids, count.

settings: ``dataset`` (a name of ``relearn.data.streams.STREAMS``: enwik8, text8, warandpeace, pydoc_topics, own_text),
``characters`` (only so many from the beginning; 0 for all).
inputs: none. A folder of streams at hand is named by the environment variable RELEARN_MIRROR (it holds one folder a
stream, e.g. ``$RELEARN_MIRROR/enwik8``).
outputs: ``stream.safetensors`` (see ``relearn.data.prepared_stream``).
metrics: ``train_characters_count``, ``valid_characters_count``, ``test_characters_count``, ``vocabulary_count``; ``unigram_bpc`` and
``bigram_bpc``, what a model must beat: of counts in train on test, in bits a character.

No torch here, as in ``prepare``.
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
    from relearn.data.mirror import mirror_of
    from relearn.data.prepared_stream import prepare, save_stream
    from relearn.data.streams import load_stream

    name = settings["dataset"]
    stream = load_stream(name, folder=mirror_of(name))
    prepared, metrics = prepare(stream.content, name=name, characters=settings["characters"])
    save_stream(prepared, run.output("stream.safetensors"))
    run.finish(metrics=metrics, notes=["source: " + json.dumps(stream.source, sort_keys=True)])
