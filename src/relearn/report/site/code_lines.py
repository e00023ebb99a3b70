"""Finds the source code that draws a figure or judges a claim, without importing it."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Lines:
    """A function's source code, its first line number, and its file relative to the repository."""

    file: str
    first: int
    text: str

    def markdown(self, title: str) -> str:
        """The code as a collapsed box."""
        inside = [f'```python linenums="{self.first}"', *self.text.splitlines(), "```"]
        return (
            "\n".join(
                [f'??? note "{title}: {self.file}, line {self.first}"', *(f"    {line}" for line in inside)]
            )
            + "\n"
        )


def function(path: Path, name: str, root: Path) -> Lines | None:
    """A top-level function or class of a file; None if it has none of that name."""
    source = path.read_text(encoding="utf-8")
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name and node.end_lineno:
            first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
            text = "\n".join(source.splitlines()[first - 1 : node.end_lineno])
            return Lines(path.relative_to(root).as_posix(), first, text)
    return None


def in_folder(folder: Path, name: str, root: Path) -> Lines | None:
    """The function of this name in any file of a folder; None if there is none."""
    found = (function(path, name, root) for path in sorted(folder.glob("**/*.py")))
    return next((one for one in found if one), None)
