"""The text of Python's own documentation: the topics of ``help()``, about 320,000 characters.

The module ``pydoc_data.topics`` holds chapters of the language reference as plain text with lines of at most about 80 characters. A
sentence here is one such line with normalised white space; lines without letters or digits (underlines, borders of tables) are dropped.
Prose continues over several lines, so a "sentence" is often a fragment.

Some topics are chapters of others ("if" of "compound"), and some lines are repeated. Topics are read from the longest to the shortest, and
repeated lines are dropped. All lines are therefore different, no line occurs in two parts, and a chapter stays with the topic that
contains it.

The part of a topic is decided by a hash of its name, independent of any random state: a tenth of the topics goes to valid, another tenth to
test, the rest to train. The text depends on the Python version, so ``source`` holds the version and the text's sha256.
"""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Mapping
from pathlib import Path

from relearn.data.sentence_pairs import PARTS, tidy
from relearn.data.text_lines import Text

SHARES = 10  # 1/SHARES of the topics for valid, as many for test


def load(folder: Path | None = None) -> Text:
    """The topics of the running Python.

    Args:
        folder: not used; part of the interface of all texts.

    Raises:
        OSError: this Python lacks its topics (some distributions ship them separately).
    """
    try:
        from pydoc_data.topics import topics
    except ImportError:
        raise FileNotFoundError(
            f"pydoc_topics: Python {platform.python_version()} has no module pydoc_data.topics; allowed: a Python with "
            "its complete standard library"
        ) from None
    version = platform.python_version()
    source = {"from": f"pydoc_data.topics of Python {version}", "python": version, "topics": len(topics)}
    return Text(**parts_of(topics), source=source)


def part_of(topic: str) -> str:
    """train, valid or test; see the module."""
    share = int.from_bytes(hashlib.sha256(f"topic {topic}".encode()).digest()[:8], "big") % SHARES
    return {0: "valid", 1: "test"}.get(share, "train")


def parts_of(topics: Mapping[str, str]) -> dict[str, list[str]]:
    """The lines of each part by the rule of the module, from topics by name."""
    parts: dict[str, list[str]] = {part: [] for part in PARTS}
    seen: set[str] = set()
    for topic in sorted(topics, key=lambda name: (-len(topics[name]), name)):
        for line in map(tidy, topics[topic].split("\n")):
            if line not in seen and any(map(str.isalnum, line)):
                seen.add(line)
                parts[part_of(topic)].append(line)
    return parts
