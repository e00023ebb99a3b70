"""GLUE's tables: one row per line, tab-separated fields without quoting; quotation marks are ordinary characters.

Only a line feed ends a line (a preceding carriage return is removed): some texts contain other characters that Python treats as line ends.
A byte order mark at the start is removed (MRPC's files have one).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch

from relearn.data.examples import Examples, Row


class Table(NamedTuple):
    """Names of the columns, rows, ``lines`` (number of each row in the file, from 0, without the header), and the number of rows
    ``left_out``."""

    names: tuple[str, ...]
    rows: list[list[str]]
    lines: list[int]
    left_out: int


def read(
    content: bytes, where: str, names: Sequence[str] | None = None, *, drop_short: bool = False
) -> Table:
    """Parse a table.

    Args:
        content: the file.
        where: its name in error messages.
        names: names of the columns; None: they are in the first line.
        drop_short: drop rows with too few fields instead of raising an error (QQP has some that are split by a line break).

    Raises:
        ValueError: not UTF-8, no row, or a row with a wrong number of fields.
    """
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as fault:
        raise ValueError(f"{where}: not UTF-8 at byte {fault.start} (allowed: UTF-8 text)") from None
    lines = [line.removesuffix("\r").split("\t") for line in text.removesuffix("\n").split("\n")]
    head = 0 if names is not None else 1
    columns = tuple(names if names is not None else lines[0])
    rows, numbers = [], []
    for number, fields in enumerate(lines[head:]):
        if len(fields) != len(columns):
            if drop_short and len(fields) < len(columns):
                continue
            raise ValueError(
                f"{where}: line {number + 1 + head}: {len(fields)} fields (allowed: {len(columns)}, {' '.join(columns)})"
            )
        rows.append(fields)
        numbers.append(number)
    if not rows:
        raise ValueError(f"{where}: no rows (allowed: at least one)")
    return Table(columns, rows, numbers, len(lines) - head - len(rows))


def column(table: Table, name: str, where: str) -> list[str]:
    """The fields of one column, without spaces around them.

    Raises:
        ValueError: no such column.
    """
    if name not in table.names:
        raise ValueError(f"{where}: no column {name!r} (found: {' '.join(table.names)})")
    place = table.names.index(name)
    return [fields[place].strip() for fields in table.rows]


def examples(
    table: Table,
    where: str,
    texts: tuple[str, str | None],
    label: str,
    words: Sequence[str],
    scale: tuple[float, float] | None = None,
) -> Examples:
    """The rows as samples of one row each.

    A sample's id is the content of the column ``index`` or ``id`` in a file without answers (submissions refer to it), else the row's
    number.

    Args:
        table: result of :func:`read`.
        where: its name in error messages.
        texts: columns of the first and the second text.
        label: column of the answers; a file without it has none.
        words: label words, class 0 first; empty: values.
        scale: smallest and largest value; None: any.

    Raises:
        ValueError: a missing column, an unknown label, a value that is not a number or outside the scale, a row without text, or a
            duplicate id.
    """
    first = column(table, texts[0], where)
    second: Sequence[str | None] = column(table, texts[1], where) if texts[1] else [None] * len(first)
    rows: list[list[Row]] = [[pair] for pair in zip(first, second)]
    if label in table.names:
        labels = torch.tensor(
            _labels(column(table, label, where), where, words, table, scale),
            dtype=torch.int64 if words else torch.float32,
        )
        return _named(where, rows, labels, [str(number) for number in table.lines])
    index = next((name for name in ("index", "id") if name in table.names), None)
    ids = column(table, index, where) if index else [str(number) for number in table.lines]
    return _named(where, rows, None, ids)


def _named(where: str, rows: list[list[Row]], labels: torch.Tensor | None, ids: list[str]) -> Examples:
    try:
        return Examples(rows, labels, ids)
    except ValueError as fault:
        raise ValueError(f"{where}: {fault}") from None


def _labels(
    fields: list[str], where: str, words: Sequence[str], table: Table, scale: tuple[float, float] | None
) -> list[float]:
    numbers = {word: float(number) for number, word in enumerate(words)}
    found = []
    for field, line in zip(fields, table.lines):
        try:
            found.append(numbers[field] if words else value(field, scale))
        except (KeyError, ValueError):
            allowed = ", ".join(words) or (f"{scale[0]:g} to {scale[1]:g}" if scale else "a number")
            raise ValueError(f"{where}: row {line}: label {field!r} (allowed: {allowed})") from None
    return found


def value(field: str, scale: tuple[float, float] | None) -> float:
    """The number in a field.

    Raises:
        ValueError: the field is not a number, or outside the scale.
    """
    found = float(field)
    if scale and not scale[0] <= found <= scale[1]:
        raise ValueError(field)
    return found
