"""Drops rows and columns without any run from our own tables and names them in a sentence.

A published table keeps every row, because its gaps show the coverage; gaps in an addition only show what a scale leaves out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from relearn.report.artefacts import Artefact
from relearn.report.table import Cell

BLANK = ("not_run", "not_applicable")


def without_empty(artefact: Artefact, cells: Sequence[Cell]) -> tuple[Artefact, str]:
    """The artefact as shown, and a sentence on what is left out ("" if nothing is).

    In a grid of several groups, columns are dropped as whole groups or as a measure of all groups, so that all have the same measures.
    If one is left, it gets no heading of its own, so its name is put in front of each measure. A row is dropped if it has no number,
    even if runs of the table could have had one. Nothing is dropped if nothing ran or if a paper prints the table.
    """
    if not artefact.addition or all(cell.status in BLANK for cell in cells):
        return artefact, ""
    ran = [cell for cell in cells if cell.status not in BLANK]
    rows = {cell.row.id for cell in ran if cell.status != "no_value"} or {cell.row.id for cell in ran}
    columns = {cell.column.id for cell in ran}
    several = len({column.group for column in artefact.columns}) > 1
    measures = {column.measure for column in artefact.columns if column.id in columns or not several}
    groups = {column.group for column in artefact.columns if column.id in columns and artefact.grid}
    left = [
        column
        for column in artefact.columns
        if column.id in columns or (column.group in groups and column.measure in measures)
    ]
    names = {column.id for column in left}
    if len(groups) == 1 and several:
        left = [replace(column, measure=f"{column.group}: {column.measure}") for column in left]
    shown = tuple(row for row in artefact.rows if row.id in rows)
    gone = [row.title for row in artefact.rows if row.id not in rows]
    gone += dict.fromkeys(
        column.measure if column.group in groups else column.group or column.title
        for column in artefact.columns
        if column.id not in names
    )
    kept = replace(artefact, rows=shown, columns=tuple(left))
    return kept, f"Not run here: {'; '.join(gone)}." if gone else ""
