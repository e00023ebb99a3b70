"""Converts docstrings for MkDocs: formulas become MathML, cross-references code, simple tables Markdown tables.

The package's docstrings use Sphinx roles, but mkdocstrings reads them as Markdown. Griffe, the parser of mkdocstrings,
calls this extension for every object before its docstring is processed.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

INLINE = re.compile(r":math:`([^`]+)`")
DISPLAY = re.compile(r"^( *)\.\. math::[ ]*(.*)\n((?:(?:\1 +.*)?\n)*)", re.MULTILINE)
ROLE = re.compile(r":(?:func|class|meth|mod|data|attr):`~?([^`<]+?)(?:\s*<[^>]*>)?`")
RULE = re.compile(r" *=+(?: +=+)+ *")
MARKS = {"*": "&#42;", "_": "&#95;", "\n": " "}  # characters that Markdown would interpret


class Extension(griffe.Extension):
    """Griffe extension that rewrites each docstring once."""

    def on_object(self, *, obj: Any, **_: Any) -> None:
        """Called by Griffe for every module, class, function and attribute."""
        if obj.docstring is not None:
            obj.docstring.value = markdown(obj.docstring.value)


def markdown(text: str) -> str:
    """The docstring as Markdown, with roles and directives replaced."""
    text = DISPLAY.sub(_display, f"{text}\n").rstrip("\n")
    text = INLINE.sub(lambda found: mathml(found[1], "inline"), text)
    text = ROLE.sub(lambda found: f"`{found[1]}`", text)
    return _tables(text.replace("``", "`"))


def mathml(latex: str, display: str) -> str:
    """A formula as MathML; a formula that cannot be parsed stays as code."""
    from latex2mathml.converter import convert

    try:
        made = convert(" ".join(latex.split()), display=display)
    except Exception:  # latex2mathml has no common error class for unsupported LaTeX
        return f"`{latex}`"
    for mark, entity in MARKS.items():
        made = made.replace(mark, entity)
    return str(made)


def _display(found: re.Match[str]) -> str:
    indent, latex = found[1], f"{found[2]} {found[3]}".strip()
    rest = "\n" * found[3].endswith("\n\n")
    return f'\n{indent}<div class="formula">{mathml(latex, "block")}</div>\n\n{rest}'


def _tables(text: str) -> str:
    """Converts tables between rules of ``=`` to pipe tables; with three rules, the first line is the header."""
    lines, made, at = text.splitlines(), list[str](), 0
    while at < len(lines):
        end = at
        while RULE.fullmatch(lines[at]) and end + 1 < len(lines) and lines[end + 1].strip():
            end += 1
        rules = [k for k in range(at, end + 1) if RULE.fullmatch(lines[k])]
        if len(rules) < 2:
            made.append(lines[at])
            at += 1
            continue
        starts = [found.start() for found in re.finditer("=+", lines[at])]
        rows = [_cut(lines[k], starts) for k in range(at, rules[-1]) if k not in rules]
        head = rows.pop(0) if len(rules) > 2 else [""] * len(starts)
        indent = " " * starts[0]
        made += [f"{indent}| {' | '.join(head)} |", f"{indent}|{'---|' * len(starts)}"]
        made += [f"{indent}| {' | '.join(row)} |" for row in rows]
        at = rules[-1] + 1
    return "\n".join(made)


def _cut(line: str, starts: list[int]) -> list[str]:
    return [line[low:high].strip().replace("|", "\\|") for low, high in zip(starts, [*starts[1:], None])]
