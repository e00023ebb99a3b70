"""prepare_char_stream: load or download a character stream, split it into three parts, store ids and count.

Settings: ``dataset`` (a name in ``relearn.data.streams.STREAMS``: enwik8, text8, warandpeace, pydoc_topics, own_text),
``characters`` (number of characters to use, from the beginning; 0 for all).
Inputs: none. The environment variable RELEARN_MIRROR may name a folder with one folder per stream (``$RELEARN_MIRROR/enwik8``).
Output: ``stream.safetensors`` (see ``relearn.data.prepared_stream``).
Metrics: ``train_characters_count``, ``valid_characters_count``, ``test_characters_count``, ``vocabulary_count``; ``unigram_bpc`` and
``bigram_bpc``, baselines: bits per test character of unigram and bigram models counted on the training part.

This step does not need torch.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from relearn.runs.record import Run

NEEDS_TORCH = False


@dataclass(frozen=True, kw_only=True)
class Settings:
    dataset: str
    characters: int


def run(run: Run, settings: Settings, inputs: dict[str, list[Path]], device: str, precision: str) -> None:
    """Run the step; device and precision are not used."""
    from relearn.data.mirror import mirror_of
    from relearn.data.prepared_stream import prepare, save_stream
    from relearn.data.streams import load_stream

    name = settings.dataset
    stream = load_stream(name, folder=mirror_of(name))
    prepared, metrics = prepare(stream.content, name=name, characters=settings.characters)
    save_stream(prepared, run.output("stream.safetensors"))
    run.finish(metrics=metrics, notes=["source: " + json.dumps(stream.source, sort_keys=True)])
