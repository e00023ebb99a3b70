"""What `relearn --help` prints: every verb and every step, one line each.

The line of a command is the first sentence of its module's docstring, read without importing the module.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterable, Mapping
from pathlib import Path

HEAD = """\
usage: relearn VERB [...]    relearn STEP --settings JSON --out FOLDER [...]

Re-run published experiments and keep every number beside the published one. `snakemake --cores all` runs everything.
`relearn VERB --help` and `relearn STEP --help` say more; `relearn --version` prints the version.
"""
COLUMNS = 118
STEPS = "Steps: the pipeline calls them, one run per call; by hand they repeat a single run."


def text(verbs: Iterable[str], steps: Mapping[str, Iterable[str]]) -> str:
    """Return the overview.

    Args:
        verbs: names of commands that a person calls.
        steps: title of a group to the names of its steps.
    """
    lines = [HEAD, "Verbs:", *map(_line, verbs), "", STEPS]
    for title, names in steps.items():
        lines += [f"  {title}:", *map(_line, names)]
    return "\n".join(lines) + "\n"


def _line(command: str) -> str:
    return f"    {command:<12}{textwrap.shorten(summary(command), COLUMNS - 16, placeholder=' ...')}"


def summary(command: str) -> str:
    """Return the first sentence of a command's docstring, without the command's name in front."""
    paragraph = " ".join(docstring(command).split("\n\n")[0].split())
    first = re.split(r"(?<=[.?])\s", paragraph)[0].rstrip(".")
    return re.sub(rf"^`?(relearn )?{command}`?: ", "", first)


def docstring(command: str) -> str:
    """Return the docstring of a command's module."""
    source = Path(__file__).parent / "steps" / f"{command}.py"
    return ast.get_docstring(ast.parse(source.read_bytes())) or ""
