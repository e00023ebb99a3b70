"""Records as rows of one table, and back without any loss of values, keys or order.

Columns are named as in MLflow's tables of runs: ``labels.<name>``, ``metrics.<name>``, ``cost.<name>``, ``machine.<name>`` and
``code.<name>``; every other field of a record has a column of its own name. Fields that hold lists or mappings (``settings``,
``inputs``, ``outputs``, …) are JSON text. ``folder`` is the run's folder in its results folder, ``keys`` the order of the
record's keys. Standard library only.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from relearn.runs.record_file import Record

SECTIONS = ("labels", "metrics", "cost", "machine", "code")  # a column for each key
FIRST = ("folder", "run", "study", "paper", "step", "scale", "seed")
LAST = ("settings", "threat_model", "inputs", "outputs", "notes", "schema", "sha256", "keys")
AFTER = {"labels": 1, "outcome": 2, "metrics": 3, "cost": 4, "machine": 5, "code": 6}  # the order in between


def columns(records: Sequence[Record], folders: Sequence[str]) -> tuple[dict[str, list[Any]], set[str]]:
    """The table of the records, by column, and the names of the columns that hold JSON.

    A column has one value per record, None if the record has no such key.

    Args:
        records: as read from their files.
        folders: the folder of each, relative to the results folder.
    """
    rows = [_flat(record) | {"folder": folder} for record, folder in zip(records, folders)]
    names = sorted({name for row in rows for name in row}, key=_rank)
    found = {name: [row.get(name) for row in rows] for name in names}
    encoded = {name for name, values in found.items() if _nested(values)}
    return {name: _texts(values) if name in encoded else values for name, values in found.items()}, encoded


def _flat(record: Record) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for key, value in record.items():
        if key in SECTIONS and value:
            row |= {f"{key}.{name}": one for name, one in value.items()}
        elif key != "path":  # added on reading
            row[key] = value
    return row | {"keys": list(row)}


def _rank(name: str) -> tuple[int, int, str]:
    if name in FIRST:
        return 0, FIRST.index(name), name
    if name in LAST:
        return 2, LAST.index(name), name
    section = name.partition(".")[0].partition("_")[0]
    return 1, AFTER.get(section, 7), name


def _nested(values: Iterable[Any]) -> bool:
    """Whether a column holds a list or a mapping, or values of several types."""
    kinds = {type(value) for value in values if value is not None}
    return len(kinds) > 1 or bool(kinds & {list, dict})


def _texts(values: Iterable[Any]) -> list[str | None]:
    return [None if value is None else json.dumps(value) for value in values]


def records(rows: Iterable[Mapping[str, Any]], json_columns: Iterable[str]) -> list[tuple[str, Record]]:
    """The folder and the record of each row of such a table."""
    encoded = set(json_columns)
    return [(row["folder"], _record(row, encoded)) for row in rows]


def _record(row: Mapping[str, Any], encoded: set[str]) -> Record:
    record: Record = {}
    for name in json.loads(row["keys"]):
        value = row[name]
        if value is not None and name in encoded:
            value = json.loads(value)
        section, dot, key = name.partition(".")
        if dot:
            record.setdefault(section, {})[key] = value
        else:
            record[name] = value
    return record
