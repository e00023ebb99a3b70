"""A table for a page: published values are shown in small print below the measured ones, to save columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from relearn.report import grid, latex, table_formats

SHORT = {"Paper": "paper", "Published code": "published code", "Deviation": "Δ"}
EMPTY = {*table_formats.LACKING.values(), *grid.LACKING.values(), grid.NO_NUMBER}

MEASURE = "Measure"
"""Head of the column that says what the numbers of a line are."""


@dataclass(frozen=True)
class Shown:
    """One cell; ``beside`` has its published values, ``lacking`` says that it holds no number, ``words`` that its column never does.

    ``again`` marks the name of a row that the line above has, too.
    """

    text: str
    beside: str = ""
    lacking: bool = False
    words: bool = False
    again: bool = False


def fold_published(
    header: Sequence[str], lines: Sequence[Sequence[str]]
) -> tuple[list[str], list[list[Shown]]]:
    """Header and lines with the columns of published values and deviations folded into the measured cells."""
    kept = [at for at, name in enumerate(header) if name not in latex.BESIDE]
    ends = [*kept[1:], len(header)]
    made: list[list[Shown]] = []
    for line in lines:
        cells = []
        for at, end in zip(kept, ends):
            pairs = [(SHORT[header[i]], line[i]) for i in range(at + 1, end)]
            values = [f"{name} {text}" for name, text in pairs if text != grid.NO_NUMBER]
            cells.append(Shown(line[at], " · ".join(values), line[at] in EMPTY, header[at] == MEASURE))
        cells[0] = replace(cells[0], again=bool(made) and made[-1][0].text == line[0])
        made.append(cells)
    return [header[at] for at in kept], made


def has_published(header: Sequence[str]) -> bool:
    return any(name in latex.BESIDE for name in header)
