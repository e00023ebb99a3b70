"""The Python documentation's text, as it comes with Python: the topics of ``help()``, about 320,000 characters.

The module ``pydoc_data.topics`` holds chapters of the language reference as plain text of at most about 80
characters a line. A sentence here is one such line, its white space tidied; lines without any letter or digit
(underlines, borders of tables) are left out. Prose goes on over several lines, so a sentence is often a piece of one.

Some topics are chapters of others ("if" of "compound"), and some lines are said often. Topics are read from the
longest to the shortest, and a line that was there before is left out. So the lines are all different, no line is in
two parts, and a chapter stays with the topic that holds it.

A hash of the topic's name decides its part, which no random state can change: a tenth of the topics goes to valid,
another tenth to test, the rest to train. Equal Pythons give equal text; another version has another text, so the
version is in ``source``, with the text's own sha256.
"""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Mapping
from pathlib import Path

from relearn.data.sentence_pairs import PARTS, tidy
from relearn.data.text_lines import Text

SHARES = 10  # one of so many topics for valid, one for test


def load(folder: Path | None = None) -> Text:
    """The topics of the Python that runs.

    Args:
        folder: plays no part; it is here because every text has it.

    Raises:
        OSError: this Python came without its topics (some distributions ship them apart).
    """
    try:
        from pydoc_data.topics import topics
    except ImportError:
        raise FileNotFoundError(
            f"pydoc_topics: Python {platform.python_version()} has no module pydoc_data.topics; allowed: a Python with "
            "its whole standard library"
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
