"""The note of a run in MLflow: the command that repeats it, wrapped to fit the page."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from relearn.runs.atomic_files import canonical

NOTE = "mlflow.note.content"
LONGEST = 5000  # characters of a note
COLUMNS = 96  # width of the command in it


def note(what: Mapping[str, Any], out: Path) -> str:
    """Markdown with the command that repeats the run."""
    words = ["relearn", what["study"], what["step"], "--settings", canonical(what["settings"])]
    for name, many in what["inputs"].items():
        words += ["--input", name, *(one["path"] for one in many)]
    for key, value in what["labels"].items():
        words += ["--label", f"{key}={value}"]
    words += ["--scale", what["scale"], "--seed", str(what["seed"])]
    words += ["--code", what["code"]["version"], "--device", what["machine"]["device"]]
    words += ["--precision", what["machine"]["precision"], "--threads", str(what["machine"]["threads"])]
    words += ["--out", out.as_posix()]
    text = f"Run it again:\n\n```\n{pasted(words)}\n```"
    if len(text) > LONGEST:  # an incomplete command must not be pasted
        return "Run it again: the command is too long for a note; its settings and inputs are in record.json."
    return text


def pasted(words: Iterable[str]) -> str:
    """A shell command on several lines: one option per line, with long words split into pieces that the shell joins again.

    MLflow's page is as wide as the longest line of a note, so a line has at most about 100 columns.
    """
    lines: list[str] = []
    line = ""
    for word in words:
        first, *more = map(shlex.quote, _pieces(word))
        if word.startswith("--"):
            lines.append(f"{line} \\")
            line = f"  {first}"
        elif len(line) + len(first) > COLUMNS:
            lines.append(f"{line} \\")
            line = f"    {first}"
        else:
            line += f" {first}" if line else first
        for piece in more:  # no space around the break: the shell reads one word
            lines.append(f"{line}\\")
            line = piece
    return "\n".join([*lines, line])


def _pieces(word: str, most: int = COLUMNS - 20) -> Iterator[str]:
    """A word in pieces of at most ``most`` characters, split after a comma, a slash or a space if possible."""
    while len(word) > most:
        cut = max(word.rfind(mark, most // 2, most) for mark in ",/ ") + 1 or most
        yield word[:cut]
        word = word[cut:]
    yield word
