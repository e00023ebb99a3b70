"""A table of our own without the rows and columns of which nothing ran, and a sentence that names them.

A published table keeps every row, because its gaps are the coverage; of an addition a gap says only what a scale leaves out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from relearn.report.artefacts import Artefact
from relearn.report.table import Cell

BLANK = ("not_run", "not_applicable")


def without(artefact: Artefact, cells: Sequence[Cell]) -> tuple[Artefact, str]:
    """The artefact as it is shown, and what is left out ("" where nothing is).

    A column of a grid goes with its group alone, so that each group keeps its measures; the last group, which has no heading of
    its own, names itself in each. Where nothing at all ran, and of an artefact that a paper prints, everything stays.
    """
    if not artefact.addition or all(cell.status in BLANK for cell in cells):
        return artefact, ""
    ran = [cell for cell in cells if cell.status not in BLANK]
    rows, columns = {cell.row.id for cell in ran}, {cell.column.id for cell in ran}
    groups = {column.group for column in artefact.columns if column.id in columns and artefact.grid}
    left = [column for column in artefact.columns if column.id in columns or column.group in groups]
    names = {column.id for column in left}
    if len(groups) == 1 < len({column.group for column in artefact.columns}):
        left = [replace(column, measure=f"{column.group}: {column.measure}") for column in left]
    shown = tuple(row for row in artefact.rows if row.id in rows)
    gone = [row.title for row in artefact.rows if row.id not in rows]
    gone += dict.fromkeys(
        column.group or column.title for column in artefact.columns if column.id not in names
    )
    kept = replace(artefact, rows=shown, columns=tuple(left))
    return kept, f"Not run here: {'; '.join(gone)}." if gone else ""
