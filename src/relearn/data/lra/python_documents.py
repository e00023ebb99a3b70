"""Documents included in Python: the topics of ``help()`` and the modules of the standard library, split into passages.

They replace a task's own texts where those are not available. A document is a topic ("documentation") or a single-file module ("code"), as
lines with normalised white space, so that indentation does not distinguish code from prose; lines without a letter or digit are dropped. A
line that occurs in an earlier document is dropped as well, in the order topics before modules and long topics first (some topics are
chapters of others).

The part of a document is decided by a hash of its kind and name, independent of any random state: a tenth of the documents is
valid, another tenth test, the rest train. A passage consists of whole lines of one document, joined by line feeds, with at most
the given number of bytes; its length varies with the lines. The documents depend on the Python version only.
"""

from __future__ import annotations

import hashlib
import platform
import sys
import sysconfig
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from relearn.data.lra import PARTS
from relearn.data.sentence_pairs import tidy

KINDS = ("documentation", "code")
SHARES = 10  # 1/SHARES of the documents for valid, as many for test


@dataclass(frozen=True)
class Document:
    """One topic or module; ``kind`` is of :data:`KINDS`, ``part`` of train, valid, test."""

    kind: str
    name: str
    part: str
    lines: list[str]


def documents() -> list[Document]:
    """All documents of the running Python, topics first.

    Raises:
        OSError: this Python lacks its topics or the source of its library.
    """
    topics: dict[str, str] = {}
    if find_spec("pydoc_data.topics"):
        topics = import_module("pydoc_data.topics").topics
    library = Path(sysconfig.get_path("stdlib"))
    # Only names of the standard library: files added by a distribution would differ between machines.
    modules = [library / f"{name}.py" for name in sorted(sys.stdlib_module_names) if name[0] != "_"]
    modules = [path for path in modules if path.is_file()]
    if not topics or not modules:
        raise FileNotFoundError(
            f"Python {platform.python_version()} has {len(topics)} topics and {len(modules)} modules as files; allowed: a "
            "Python with its complete standard library"
        )
    texts = [
        ("documentation", name, topics[name])
        for name in sorted(topics, key=lambda name: (-len(topics[name]), name))
    ]
    texts += [("code", path.stem, path.read_text(encoding="utf-8", errors="replace")) for path in modules]
    seen: set[str] = set()
    found = []
    for kind, name, text in texts:
        lines = [
            line for line in map(tidy, text.split("\n")) if line not in seen and any(map(str.isalnum, line))
        ]
        seen.update(lines)
        if lines:
            found.append(Document(kind, name, part_of(kind, name), list(dict.fromkeys(lines))))
    return found


def part_of(kind: str, name: str) -> str:
    """train, valid or test; see the module."""
    share = int.from_bytes(hashlib.sha256(f"{kind} {name}".encode()).digest()[:8], "big") % SHARES
    return {0: PARTS[1], 1: PARTS[2]}.get(share, PARTS[0])


def passages(document: Document, longest: int) -> list[bytes]:
    """The document from its beginning as passages of at most ``longest`` bytes; longer lines are truncated."""
    found: list[bytes] = []
    for line in document.lines:
        encoded = line.encode()[:longest]
        if found and len(found[-1]) + 1 + len(encoded) <= longest:
            found[-1] += b"\n" + encoded
        else:
            found.append(encoded)
    return found


def source() -> dict[str, Any]:
    """Description of the documents for records."""
    version = platform.python_version()
    return {"from": f"pydoc_data.topics and the standard library of Python {version}", "python": version}
