"""Sentences of Python's own documentation: the topics of ``help()`` and the docstrings of the standard library.

A document is a topic, or the docstrings of a module. Its paragraphs are joined to one line each and split after full stops. A sentence is
kept if it starts with a capital, ends with a full stop and has 6 to 30 words, each of letters (or a name in double quotes), possibly
followed by a comma, colon or semicolon; this excludes code, tables and lists. Duplicate sentences are removed, in the order topics before
modules and long topics before short ones (some topics are chapters of others).

Each document belongs to one part. A topic has the same part as in ``relearn.data.pydoc_topics``, so that a model trained on that text's
training part has not seen sentences of the other parts; a module's part is given by a hash of its path, one tenth each for dev and test.
There are about 5,000 sentences; they depend on the Python version only. Packages that distributions ship separately (tkinter, tests, …)
are excluded.
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
SHARES = 10  # 1/SHARES of the modules for dev, as many for test
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
    """The sentences of the running Python.

    Raises:
        OSError: this Python lacks its topics or the source of its library.
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
    origin = f"pydoc_data.topics and the standard library's doc strings of Python {version}"
    source = {
        "from": origin,
        "python": version,
        "sha256": {part: one.hexdigest() for part, one in digests.items()},
    }
    return Sentences(**parts, source=source)


def sentences_of(text: str) -> Iterator[str]:
    """The sentences of a text, in order; see the module."""
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
            "with its complete standard library"
        )
    for name in sorted(topics, key=lambda name: (-len(topics[name]), name)):
        part = pydoc_topics.part_of(name)
        yield "dev" if part == "valid" else part, topics[name]
    for path in files:
        text = path.read_text(encoding="utf-8", errors="replace")
        yield part_of(path.relative_to(library).as_posix()), "\n\n".join(QUOTED.findall(text))


def part_of(module: str) -> str:
    """Part (train, dev or test) of a module, given its path in the library ("asyncio/events.py")."""
    share = int.from_bytes(hashlib.sha256(f"module {module}".encode()).digest()[:8], "big") % SHARES
    return {0: "dev", 1: "test"}.get(share, "train")


def _files(library: Path) -> Iterator[Path]:
    # Only names of the standard library: files added by a distribution would differ between machines.
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
