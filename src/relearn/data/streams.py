"""Character streams by name: long byte sequences for language models whose context extends across lines.

``STREAMS`` maps the name of each stream to its loader as text, so that a module is imported only when its stream is used.

================  ==========================================================================================
stream            contents
================  ==========================================================================================
``enwik8``        the first 10^8 bytes of an English Wikipedia dump of 2006, markup included (Mahoney)
``text8``         10^8 bytes of the same, reduced to the letters a to z and the space (Mahoney)
``warandpeace``   War and Peace from Project Gutenberg, 3.3 MB, a public domain text
``pydoc_topics``  the text of the Python documentation included in Python, about 320 kB
``own_text``      the only ``*.txt`` in a folder of the user
================  ==========================================================================================
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from relearn.data import load

STREAMS = {
    "enwik8": "relearn.data.wikipedia_streams:enwik8",
    "text8": "relearn.data.wikipedia_streams:text8",
    "warandpeace": "relearn.data.text_streams:warandpeace",
    "pydoc_topics": "relearn.data.text_streams:pydoc_topics",
    "own_text": "relearn.data.text_streams:own_text",
}


@dataclass(frozen=True)
class Stream:
    """A text as bytes, and its source: plain JSON without paths."""

    content: bytes
    source: dict[str, Any]


def load_stream(name: str, *, folder: Path | None = None) -> Stream:
    """Load a whole stream, a key of ``STREAMS``; see :func:`relearn.data.load`."""
    stream: Stream = load(name, STREAMS, "stream", folder=folder)
    return stream
