"""Sentences of the documentation that comes with Python: the topics of ``help()`` and the standard library's own doc strings.

A document is a topic, or a module's texts in triple quotes that begin a line. Its paragraphs are joined to one line each and parted after
full stops. A sentence is kept that begins with a capital, ends with a full stop and has 6 to 30 words between, each of letters (or a name
in double quotes), perhaps with a comma, colon or semicolon after it: no code, no tables, no lists. A sentence that was there before is left
out, topics first and long topics before short ones (some are chapters of others).

A document is in one part: a topic in that of ``relearn.data.pydoc_topics``, so that what is learnt from that text's training part has seen
no sentence of another; a module by a hash of its path, a tenth dev, another tenth test. About 5,000 sentences; equal Pythons give equal
sentences, another version has others. Packages that distributions ship apart (tkinter, tests, …) are left out.
"""

from __future__ import annotations

import hashlib
import platform
import re
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from relearn.data import pydoc_topics

PARTS = ("train", "dev", "test")
SHARES = 10  # one of so many modules for dev, one for test
APART = {"ensurepip", "idlelib", "lib2to3", "pydoc_data", "test", "tkinter", "turtle", "turtledemo"}
QUOTED = re.compile(r'^[ \t]*[rR]?"""(.*?)"""', re.DOTALL | re.MULTILINE)
PARAGRAPHS = re.compile(r"\n\s*\n")
STOPS = re.compile(r"(?<=[.!?])\s+")
WORD = r"(?:[A-Za-z][A-Za-z’'-]*|\"[^\" ]+\")"
SENTENCE = re.compile(rf"[A-Z][a-z]*(?: {WORD}[,;:]?){{4,28}} [A-Za-z][A-Za-z’'-]*\.")


@dataclass(frozen=True)
class Sentences:
    """The sentences of each part; ``source`` is plain JSON without paths, with the sha256 of each part."""

    train: list[str]
    dev: list[str]
    test: list[str]
    source: dict[str, Any]


def load() -> Sentences:
    """The sentences of the Python that runs.

    Raises:
        OSError: this Python came without its topics or without its library's source.
    """
    parts: dict[str, list[str]] = {part: [] for part in PARTS}
    seen: set[str] = set()
    for part, text in documents():
        for sentence in sentences_of(text):
            if sentence not in seen:
                seen.add(sentence)
                parts[part].append(sentence)
    version = platform.python_version()
    digests = {
        part: hashlib.sha256("".join(f"{one}\n" for one in own).encode()) for part, own in parts.items()
    }
    said = f"pydoc_data.topics and the standard library's doc strings of Python {version}"
    source = {
        "from": said,
        "python": version,
        "sha256": {part: one.hexdigest() for part, one in digests.items()},
    }
    return Sentences(**parts, source=source)


def sentences_of(text: str) -> Iterator[str]:
    """The sentences of a text by the rule of the module, in their order."""
    for paragraph in PARAGRAPHS.split(text):
        for sentence in STOPS.split(" ".join(paragraph.split())):
            if SENTENCE.fullmatch(sentence):
                yield sentence


def documents() -> Iterator[tuple[str, str]]:
    """Part and text of each document.

    Raises:
        OSError: see :func:`load`.
    """
    topics: dict[str, str] = {}
    if find_spec("pydoc_data.topics"):
        topics = import_module("pydoc_data.topics").topics
    library = Path(sysconfig.get_path("stdlib"))
    files = list(_files(library))
    if not topics or not files:
        raise FileNotFoundError(
            f"Python {platform.python_version()} has {len(topics)} topics and {len(files)} modules as files; allowed: a Python "
            "with its whole standard library"
        )
    for name in sorted(topics, key=lambda name: (-len(topics[name]), name)):
        part = pydoc_topics.part_of(name)
        yield "dev" if part == "valid" else part, topics[name]
    for path in files:
        text = path.read_text(encoding="utf-8", errors="replace")
        yield part_of(path.relative_to(library).as_posix()), "\n\n".join(QUOTED.findall(text))


def part_of(module: str) -> str:
    """train, dev or test, of a module's path below the library ("asyncio/events.py")."""
    share = int.from_bytes(hashlib.sha256(f"module {module}".encode()).digest()[:8], "big") % SHARES
    return {0: "dev", 1: "test"}.get(share, "train")


def _files(library: Path) -> Iterator[Path]:
    # Names of the standard library alone: what a distribution lays beside it is another machine's text.
    for name in sorted(sys.stdlib_module_names - APART):
        if name[0] == "_":
            continue
        if (library / f"{name}.py").is_file():
            yield library / f"{name}.py"
        else:
            below = sorted((library / name).rglob("*.py"), key=lambda path: path.as_posix())
            yield from (
                path for path in below if not any("test" in part for part in path.relative_to(library).parts)
            )
