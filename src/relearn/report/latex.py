"""A table as LaTeX that fits the page: columns that do not fit the text width are split into parts under one table number.

Needs the packages booktabs and graphicx and compiles under pdflatex: all non-ASCII characters are written as commands.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

BESIDE = ("Paper", "Published code", "Deviation")  # columns that belong to the column before them
LABELS = ("Measure",)  # a second column that names the row
TEXT = 345.0  # text width in points, of the class article at 10 points
LETTER, GAP, NAMES = (
    4.1,
    8.0,
    130.0,
)  # points in footnotesize: width of a character, space between columns, maximum width of the name column
HEAD = 16  # maximum characters in a line of a column head

SIGNS = {
    "±": r"\pm",
    "×": r"\times",
    "·": r"\cdot",
    "≤": r"\leq",
    "≥": r"\geq",
    "→": r"\to",
    "∞": r"\infty",
    "−": "-",
    "√": r"\surd",
    "∈": r"\in",
    "‖": r"\|",
    "α": r"\alpha",
    "β": r"\beta",
    "γ": r"\gamma",
    "δ": r"\delta",
    "ε": r"\varepsilon",
    "η": r"\eta",
    "θ": r"\theta",
    "κ": r"\kappa",
    "λ": r"\lambda",
    "μ": r"\mu",
    "ν": r"\nu",
    "π": r"\pi",
    "ρ": r"\rho",
    "σ": r"\sigma",
    "τ": r"\tau",
    "φ": r"\varphi",
    "ω": r"\omega",
    "Δ": r"\Delta",
    "₀": "_0",
    "₁": "_1",
    "₂": "_2",
    "⁻": "^-",
    "¹": "^1",
    "²": "^2",
    "³": "^3",
    "½": r"\frac12",
    "¼": r"\frac14",
}
WORDS = {"–": "--", "—": "---", "’": "'", "“": "``", "”": "''", "…": r"\ldots{}", "\u00a0": "~", "§": r"\S{}"}
LATIN = {
    "ö": r"\"o",
    "ä": r"\"a",
    "ü": r"\"u",
    "é": r"\'e",
    "è": r"\`e",
    "É": r"\'E",
    "ß": r"\ss{}",
    "ï": r"\"i",
}
ACTIVE = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    # other letters in the default encoding
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': "''",
}


def escape(plain: str) -> str:
    """The text with LaTeX's special characters escaped and non-ASCII characters written as commands.

    Raises:
        ValueError: a character without a command here.
    """
    made = []
    for letter in plain:
        if letter in "&%$#_{}":
            made.append(f"\\{letter}")
        elif letter in SIGNS:
            made.append(f"\\ensuremath{{{SIGNS[letter]}}}")
        elif letter.isascii():
            made.append(ACTIVE.get(letter, letter))
        elif letter in WORDS or letter in LATIN:
            made.append(WORDS.get(letter) or LATIN[letter])
        else:
            raise ValueError(
                f"found {letter!r} in {plain!r}, allowed: ASCII and the letters of relearn.report.latex"
            )
    return "".join(made)


def table(
    identifier: str, title: str, caption: str, header: Sequence[str], lines: Sequence[Sequence[str]]
) -> str:
    """One floating table, or several under one number, each at most as wide as the text."""
    names = 2 if len(header) > 1 and header[1] in LABELS else 1
    widths = [_width(header[at], [line[at] for line in lines]) for at in range(len(header))]
    widths[:names] = [min(width, NAMES) for width in widths[:names]]
    parts = blocks(header, widths, names)
    made = []
    for number, columns in enumerate(parts):
        chosen = [*range(names), *columns]
        form = "".join(f"p{{{widths[at]:.0f}pt}}" if at < names else "r" for at in chosen)
        made += [
            r"\begin{table}[htbp]",
            r"\centering\footnotesize\setlength{\tabcolsep}{4pt}",
            *_caption(identifier, title, caption, number),
            r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%",
            rf"\begin{{tabular}}{{{form}}}",
            r"\toprule",
            " & ".join(_head(header[at], at < names) for at in chosen) + r" \\",
            r"\midrule",
            *(" & ".join(escape(line[at]) for at in chosen) + r" \\" for line in lines),
            r"\bottomrule",
            r"\end{tabular}}",
            r"\end{table}",
        ]
    return "\n".join(made) + "\n"


def blocks(header: Sequence[str], widths: Sequence[float], names: int) -> list[list[int]]:
    """The columns split into parts that fit the text width next to the name columns; grouped columns stay together."""
    groups: list[list[int]] = []
    for at in range(names, len(header)):
        if header[at] in BESIDE and groups:
            groups[-1].append(at)
        else:
            groups.append([at])
    parts: list[list[int]] = [[]]
    room = TEXT - sum(widths[:names])
    for group in groups:
        if parts[-1] and sum(widths[at] for at in [*parts[-1], *group]) > room:
            parts.append([])
        parts[-1] += group
    return parts


def _caption(identifier: str, title: str, caption: str, number: int) -> list[str]:
    if number:
        return [r"\addtocounter{table}{-1}", rf"\caption[]{{{escape(title)}, part {number + 1}.}}"]
    return [
        rf"\caption[{{{escape(title)}}}]{{{escape(f'{title}. {caption}')}}}",
        rf"\label{{tab:{identifier}}}",
    ]


def _wrap(head: str) -> list[str]:
    return textwrap.wrap(head, HEAD, break_long_words=False) or [""]


def _head(head: str, name: bool) -> str:
    lines = [escape(line) for line in _wrap(head)]
    if name or len(lines) == 1:
        return " ".join(lines)
    return r"\shortstack[r]{" + r" \\ ".join(lines) + "}"


def _width(head: str, cells: Sequence[str]) -> float:
    return LETTER * max(map(len, [*_wrap(head), *cells])) + GAP
