"""Tables of a paper that hold settings instead of results: each printed value next to the value in params/paper.yaml.

``settings.yaml`` of a study's ``reported`` folder maps each setting to its key; the printed values are in the CSV file next to
it. A setting without a key is "not in params", and so is every setting of a row that is not run here.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from relearn.report import published, yaml_file
from relearn.report.deviations import Published, yaml_value
from relearn.report.table_formats import pipes

EQUAL, DIFFERS, ABSENT = "equal", "differs", "not in params"
NOT_RUN = "this row is not run here"
PRINTED = "printed value: "  # in a note, before a value that is not a number
FIELDS = {"keys", "index", "among", "note"}


@dataclass(frozen=True)
class Setting:
    """One printed setting; if no key holds it, ``here`` is "" and ``verdict`` is ABSENT."""

    row: str
    column: str
    printed: str
    here: str
    verdict: str
    keys: tuple[str, ...]
    note: str = ""

    def cells(self) -> tuple[str, ...]:
        """Row, setting, printed value, value here, verdict, keys and note."""
        beside = "; ".join(filter(None, (" x ".join(self.keys), self.note)))
        return self.row, self.column, self.printed, self.here or "-", self.verdict, beside


@dataclass(frozen=True)
class SettingsTable:
    """The settings of one table, in the order in which they are printed."""

    id: str
    title: str
    settings: tuple[Setting, ...]

    def tally(self) -> str:
        """How many settings are equal, differ, or are not in params."""
        counts = Counter(one.verdict for one in self.settings)
        return ", ".join(f"{counts[word]} {word}" for word in (EQUAL, DIFFERS, ABSENT))


def load(folders: Mapping[str, Path], paper: Published) -> list[SettingsTable]:
    """Compare all tables of every study's ``settings.yaml`` with the published settings.

    Raises:
        ValueError: naming the file, for an unknown key or a printed row or column without an entry.
        OSError: a file cannot be read.
    """
    paths = [folder / "settings.yaml" for folder in folders.values()]
    return [
        _table(path, name, values, paper)
        for path in paths
        if path.is_file()
        for name, values in yaml_file.read(path).items()
    ]


def _table(path: Path, name: str, raw: Mapping[str, Any], paper: Published) -> SettingsTable:
    if set(raw) != {"title", "rows", "columns"}:
        raise ValueError(f"{path}: {name}: found {', '.join(raw)}; allowed: title, rows, columns")
    for column, entry in raw["columns"].items():
        if strange := set(entry) - FIELDS or {"keys"} - set(entry):
            raise ValueError(
                f"{path}: {name}: {column}: {min(strange)}; allowed: keys and {', '.join(FIELDS)}"
            )
    found = []
    for value in published.values_of(path.with_name(published.FILE), name):
        for kind, label in (("rows", value.row), ("columns", value.column)):
            if label not in raw[kind]:
                raise ValueError(
                    f"{path}: {name}: {kind}: no {label}; allowed: all that {published.FILE} has of {name}"
                )
        found.append(_setting(value, raw["rows"][value.row], raw["columns"][value.column], paper))
    return SettingsTable(name, raw["title"], tuple(found))


def _setting(value: published.Value, row: str | None, entry: Mapping[str, Any], paper: Published) -> Setting:
    keys = tuple(key.replace("{row}", row or "") for key in entry["keys"])
    printed: Any = value.value if value.value is not None else value.note.partition(PRINTED)[2]
    printed_text = f"{printed:.10g}" if isinstance(printed, float) else printed
    note = entry.get("note", "")
    if row is None:
        return Setting(value.row, value.column, printed_text, "", ABSENT, (), NOT_RUN)
    if not keys or any(key not in paper.values for key in keys):
        return Setting(value.row, value.column, printed_text, "", ABSENT, keys, note)
    held = [paper.values[key] for key in keys]
    if "index" in entry:
        held = [one[entry["index"]] for one in held]
    here = math.prod(held) if len(held) > 1 else held[0]
    same = any(_same(printed, one) for one in here) if entry.get("among") else _same(printed, here)
    text = f"{here:.10g}" if isinstance(here, float) else yaml_value(here)
    return Setting(value.row, value.column, printed_text, text, EQUAL if same else DIFFERS, keys, note)


def _same(printed: float | str, here: Any) -> bool:
    """Compares numbers up to floating-point rounding, and words ignoring case."""
    if isinstance(printed, str):
        return isinstance(here, str) and printed.casefold() == here.casefold()
    return (
        not isinstance(here, str | bool | list)
        and here is not None
        and math.isclose(printed, here, rel_tol=1e-12)
    )


def markdown(tables: Sequence[SettingsTable]) -> str:
    """The page ``settings.md``."""
    lines = [
        "# Printed settings compared with params/paper.yaml",
        "",
        "These tables of the papers contain settings, not results. deviations.md lists how a scale differs.",
    ]
    for table in tables:
        lines += ["", f"## {table.id}: {table.title}", "", f"{table.tally()}.", ""]
        lines += ["| row | setting | printed | here | | key |", "|---|---|---|---|---|---|"]
        lines += [pipes(*one.cells()) for one in table.settings]
    return "\n".join(lines) + "\n"
