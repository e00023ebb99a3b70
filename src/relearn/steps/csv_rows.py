"""Write tables as CSV, as the steps do: booleans as 1 or 0, missing and non-finite values as empty cells."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any


def write_rows(path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, Any] | Sequence[Any]]) -> None:
    """Write a header and rows; each row is a mapping with all columns, or a sequence in their order.

    Raises:
        KeyError: a mapping lacks a column.
    """
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(columns)
        for row in rows:
            values = [row[name] for name in columns] if isinstance(row, Mapping) else row
            table.writerow([_cell(value) for value in values])


def write_history(run: Any, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
    """Write history.csv; a row may lack columns."""
    write_rows(run.output("history.csv"), columns, ([row.get(name) for name in columns] for row in rows))


def _cell(value: Any) -> Any:
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return ""
    return int(value) if isinstance(value, bool) else value
