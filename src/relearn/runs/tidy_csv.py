"""Convert the CSV files of many runs to one table with typed columns, and back byte for byte. Standard library only."""

from __future__ import annotations

import csv
import io
import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Any

OWN = ("folder", "file", "layout")
"""Columns that the table adds: the run's folder, the file's name, and the file's columns with the kind of their cells, as JSON."""

Key = tuple[str, str]  # folder and name of a file
Columns = dict[str, list[Any]]


def columns(files: Mapping[Key, bytes]) -> Columns:
    """One row per line of each file; an empty cell is None, and so is a column that a file does not have.

    A column holds int if all of its cells are whole numbers, float if all are numbers, and text otherwise. A file
    that is not a CSV file in UTF-8 is left out.
    """
    read = {key: found for key, content in files.items() if (found := _read(content))}
    kinds: dict[str, set[str]] = {}
    for header, body in read.values():
        for name, kind, *_ in _layout(header, body):
            kinds.setdefault(name, set()).add(kind)
    names = [name for name in kinds if name not in OWN]
    types = {name: _type(kinds[name]) for name in names}
    table: Columns = {name: [] for name in ("folder", "file", *names, "layout")}
    for (folder, file), (header, body) in read.items():
        own = {"folder": folder, "file": file, "layout": json.dumps(_layout(header, body))}
        for line in body:
            cells = {name: types[name](text) for name, text in zip(header, line) if text and name in types}
            for name, column in table.items():
                column.append(own.get(name, cells.get(name)))
    return table


def rebuilt(table: Mapping[str, Sequence[Any]]) -> dict[Key, bytes]:
    """Restore the files from a table of :func:`columns`.

    A file is restored exactly unless it has no lines, uses unnecessary quotes, or has a column named like one of OWN.
    """
    found, start = {}, 0
    for key, lines in itertools.groupby(zip(table["folder"], table["file"])):
        end = start + sum(1 for _ in lines)
        layout = [one for one in json.loads(table["layout"][start]) if one[0] not in OWN]
        cells = [_texts(table[name][start:end], *kind) for name, *kind in layout]
        text = io.StringIO(newline="")
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(name for name, *_ in layout)
        writer.writerows(zip(*cells))
        found[key] = text.getvalue().encode("utf-8")
        start = end
    return found


def _texts(values: Sequence[Any], kind: str, whole: Sequence[int] = ()) -> list[Any]:
    """Cells as they were written: whole numbers without a decimal point, also those at the rows ``whole`` of a mixed column."""
    if kind == "int":
        return ["" if value is None else int(value) for value in values]
    at = set(whole)
    return ["" if value is None else int(value) if row in at else value for row, value in enumerate(values)]


def _read(content: bytes) -> tuple[list[str], list[list[str]]] | None:
    try:
        header, *body = csv.reader(io.StringIO(content.decode("utf-8"), newline=""))
    except (ValueError, csv.Error):  # also for an empty file, which has no header
        return None
    return (header, body) if all(len(line) == len(header) for line in body) else None


def _layout(header: Sequence[str], body: Sequence[Sequence[str]]) -> list[tuple[Any, ...]]:
    """Each column's name and kind: ``int``, ``float``, ``text``, ``empty``, or ``number`` with the rows that hold whole numbers."""
    return [(name, *_kind([line[at] for line in body])) for at, name in enumerate(header)]


def _kind(cells: Sequence[str]) -> tuple[Any, ...]:
    kinds = [_kind_of(cell) if cell else "" for cell in cells]
    found = set(kinds) - {""}
    if found == {"int", "float"}:
        return "number", [row for row, kind in enumerate(kinds) if kind == "int"]
    return ("text" if "text" in found else found.pop() if found else "empty",)


def _kind_of(cell: str) -> str:
    for kind in (int, float):
        try:
            number = kind(cell)
        except ValueError:
            continue
        if str(number) == cell and not (kind is int and abs(number) > 2**53):  # not exact as a float
            return kind.__name__
    return "text"


def _type(kinds: set[str]) -> type:
    if "text" in kinds:
        return str
    return int if kinds <= {"int", "empty"} else float
