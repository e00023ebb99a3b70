"""Character streams by name: one long run of bytes each, for language models that read across lines.

``STREAMS`` names the loader of each stream as text: a module is imported only when its stream is asked for.

================  ==========================================================================================
stream            what it is
================  ==========================================================================================
``enwik8``        the first 10^8 bytes of an English Wikipedia dump of 2006, markup included (Mahoney)
``text8``         10^8 bytes of the same, reduced to the letters a to z and the space (Mahoney)
``warandpeace``   War and Peace as the Project Gutenberg gives it, 3.3 MB, a public domain text
``pydoc_topics``  the Python documentation's text, as it comes with Python, about 320 kB
``own_text``      the one ``*.txt`` of the user's own folder
================  ==========================================================================================
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

STREAMS = {
    "enwik8": "relearn.data.wikipedia_streams:enwik8",
    "text8": "relearn.data.wikipedia_streams:text8",
    "warandpeace": "relearn.data.text_streams:warandpeace",
    "pydoc_topics": "relearn.data.text_streams:pydoc_topics",
    "own_text": "relearn.data.text_streams:own_text",
}


@dataclass(frozen=True)
class Stream:
    """A text as bytes, and where it comes from: plain JSON without paths."""

    content: bytes
    source: dict[str, Any]


def stream_module_of(name: str) -> str:
    """The module that holds a stream: ``stream_module_of("text8") == "relearn.data.wikipedia_streams"``.

    Raises:
        ValueError: nobody knows the name.
    """
    if name not in STREAMS:
        raise ValueError(f"stream {name!r} is unknown; allowed: {', '.join(STREAMS)}")
    return STREAMS[name].partition(":")[0]


def load_stream(name: str, *, folder: Path | None = None) -> Stream:
    """Load a stream whole.

    Args:
        name: a key of ``STREAMS``.
        folder: a folder that already holds it; ``None`` takes what Python brings (pydoc_topics) or what the cache
            holds, downloading it where it does not.

    Raises:
        ValueError: nobody knows the name, or the files are not what they should be.
        OSError: a file can neither be read nor downloaded.
    """
    module = import_module(stream_module_of(name))
    loader = getattr(module, STREAMS[name].partition(":")[2])
    stream: Stream = loader(folder)
    return stream
