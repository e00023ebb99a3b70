"""Short character streams: a novel, the text of the Python documentation, and a file of the user.

They replace enwik8 and text8 where those are too long; zhu2022 does not use them.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from relearn.data.remote import Remote, fault_of
from relearn.data.streams import Stream

NOVEL = Remote(
    name="warandpeace.txt",
    urls=(
        "https://raw.githubusercontent.com/timbmg/RNNLM/e26dff5d8f4b5d07ee459f192ee2131923d7584f/data/warandpeace.txt",
    ),
    size=3293492,
    sha256="bf5b273d9246268f96663c43c00a1055ae2e42c2262be32f7e43b48dd123451a",
)
"""Project Gutenberg's e-book 2600 (Tolstoy, translated by Louise and Aylmer Maude); its terms are in the file."""
END = b"*** END OF THIS PROJECT GUTENBERG"
START = b"*** START OF THIS PROJECT GUTENBERG"


def warandpeace(folder: Path | None = None) -> Stream:
    """War and Peace without Project Gutenberg's preamble and terms; lines end with single line feeds.

    A line of the credits at the start and one at the end, of about 100 characters in all, are not part of the novel.

    Args:
        folder: a folder with ``warandpeace.txt``; None downloads it.

    Raises:
        ValueError: the folder lacks the file, or the file is not the expected one. OSError: it cannot be read or fetched.
    """
    if folder is None:
        from relearn.data.download import fetch

        path = fetch(NOVEL)
    else:
        path = folder / NOVEL.name
        if not path.is_file():
            raise ValueError(f"{folder}: lacks {NOVEL.name}")
        if fault := fault_of(path, NOVEL):
            raise ValueError(f"{path}: {fault}; not the expected file")
    return Stream(between_marks(path.read_bytes()), {"from": NOVEL.urls[0], "sha256": NOVEL.sha256})


def between_marks(content: bytes) -> bytes:
    """The text between Project Gutenberg's start and end lines; the whole text if there are none."""
    text = content.replace(b"\r\n", b"\n")
    start, end = text.find(START), text.find(END)
    first = 0 if start < 0 else text.find(b"\n", start) + 1
    return text[first : len(text) if end < 0 else end].strip() + b"\n"


def pydoc_topics(folder: Path | None = None) -> Stream:
    """The lines of ``relearn.data.pydoc_topics``, each once, in the order train, valid, test.

    No line in the final part of the stream, which is used for validation and test, occurs earlier, although topics overlap.

    Args:
        folder: not used; part of the interface of all streams.

    Raises:
        OSError: this Python lacks its topics.
    """
    from relearn.data.pydoc_topics import load

    text = load(folder)
    lines = [*text.train, *text.valid, *text.test]
    return Stream("".join(line + "\n" for line in lines).encode(), text.source)


def own_text(folder: Path | None = None) -> Stream:
    """The unchanged bytes of the only ``*.txt`` in a folder.

    Raises:
        ValueError: no folder, or not exactly one such file, or an empty one. OSError: it cannot be read.
    """
    if folder is None:
        raise ValueError("own_text: no folder; allowed: a folder own_text with one *.txt in $RELEARN_MIRROR")
    found = sorted(folder.glob("*.txt"))
    if len(found) != 1:
        raise ValueError(f"{folder}: {len(found)} files *.txt; allowed: exactly one")
    content = found[0].read_bytes()
    if not content:
        raise ValueError(f"{found[0]}: empty; allowed: a text of at least one byte")
    return Stream(content, {"from": "an own file", "sha256": hashlib.sha256(content).hexdigest()})
