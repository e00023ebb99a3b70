"""The artefacts that the report renders, read from data: which runs, which rows and columns, what beside.

The definitions lie in ``workflow/reported/artefacts.yaml``; no table or figure is described in code.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

Where = Mapping[str, Any]


@dataclass(frozen=True)
class Row:
    """One line of an artefact: a filter on runs; ``only`` names the columns that apply to it (None: all).

    A row with ``in_grid`` False is not part of the published artefact and not counted as such. ``along``
    names the sweep that the row runs over; ``reference`` filters the runs that it is drawn against.
    """

    id: str
    title: str
    where: Where
    only: tuple[str, ...] | None = None
    note: str = ""
    in_grid: bool = True
    along: str | None = None
    reference: Where | None = None

    def applies(self, column: str) -> bool:
        return self.only is None or column in self.only


@dataclass(frozen=True)
class Column:
    """One quantity of an artefact, with the metric's name in the published files where they have it."""

    id: str
    title: str
    quantity: str
    unit: str
    direction: str = "none"
    published_metric: str | None = None


@dataclass(frozen=True)
class Source:
    """Where published values of an artefact lie: a file, an artefact id in it, a column there."""

    file: str
    artefact: str
    column: str | None = None


@dataclass(frozen=True)
class Artefact:
    """One table or figure; ``members`` are the published values of the label ``over``.

    An ``addition`` is ours: no paper shows it, and coverage does not count it as published. ``head`` titles
    the column of row titles. ``sweeps`` are the published values that a row runs over besides its members.
    ``stated`` are published values that a figure draws as lines, each with the words for it.
    """

    id: str
    paper: str
    study: str
    kind: str
    title: str
    caption: str
    category: str
    where: tuple[Where, ...]
    over: str
    members: tuple[str, ...]
    rows: tuple[Row, ...]
    columns: tuple[Column, ...]
    common: Where = field(default_factory=dict)
    published: Mapping[str, Source] = field(default_factory=dict)
    renderer: str | None = None
    reference: str | None = None
    sweeps: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    stated: tuple[Mapping[str, Any], ...] = ()
    addition: bool = False
    head: str = "Defence"
    expand: Mapping[str, Any] = field(default_factory=dict)


def matches(where: Where, study: str, step: str, labels: Mapping[str, str]) -> bool:
    """Whether a run agrees with every key of ``where``: ``study``, ``step`` or a label; a list is any of."""
    for key, wanted in where.items():
        found = {"study": study, "step": step}.get(key, labels.get(key))
        if found not in (wanted if isinstance(wanted, list) else [wanted]):
            return False
    return True


def load(folder: str | Path) -> dict[str, Artefact]:
    """All artefacts of ``folder/artefacts.yaml``, in the file's order.

    Raises:
        ValueError: naming the file and the key, for a missing or unknown key or a column that does not exist.
    """
    import yaml

    path = Path(folder) / "artefacts.yaml"
    raw = yaml.safe_load(path.read_text(encoding="utf-8"))["artefacts"]
    return {name: _artefact(path, name, values) for name, values in raw.items()}


def _artefact(path: Path, name: str, raw: Mapping[str, Any]) -> Artefact:
    values = dict(raw)
    try:
        columns = tuple(Column(**column) for column in values.pop("columns"))
        rows = tuple(_row(row) for row in values.pop("rows"))
        over = values.pop("over")
        artefact = Artefact(
            id=name,
            where=tuple(values.pop("where")),
            over=over["label"],
            members=tuple(over["members"]),
            rows=rows,
            columns=columns,
            published={
                label: Source(**source) for label, source in (values.pop("published", None) or {}).items()
            },
            sweeps={label: tuple(swept) for label, swept in values.pop("sweeps", {}).items()},
            stated=tuple(values.pop("stated", ())),
            **values,
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"{path}: {name}: {error}") from None
    known = [column.id for column in columns]
    for row in rows:
        for column in row.only or ():
            if column not in known:
                raise ValueError(
                    f"{path}: {name}: row {row.id}: found column {column}, allowed: {', '.join(known)}"
                )
    return artefact


def expanded(artefact: Artefact, runs: Iterable[Any]) -> Artefact:
    """The artefact with a row a network that was measured, and a column a level that some run has.

    Which networks there are and at which eps they are attacked is a matter of params.yaml, not of this file.
    """
    if not artefact.expand:
        return artefact
    labels, order = artefact.expand["rows"], artefact.expand["order"]
    mine = [run for run in runs if any(run.matches(where) for where in artefact.where)]
    named = {tuple(run.labels[label] for label in labels) for run in mine}
    flag = artefact.expand.get("flag")  # a metric that is above 0 where the row's numbers are in doubt
    doubted = {
        tuple(run.labels[label] for label in labels)
        for run in mine
        if flag and (run.metrics.get(flag) or 0) > 0
    }
    rows = tuple(
        Row(
            "/".join(names),
            artefact.expand["title"].format(*names),
            dict(zip(labels, names)),
            note=artefact.expand["note"] if names in doubted else "",
        )
        for names in sorted(named, key=lambda names: (order.index(names[0]), names))
    )
    columns: list[Column] = []
    for column in artefact.columns:
        kind, every, _ = column.quantity.partition("_accuracy@*")
        if not every:
            columns.append(column)
            continue
        levels = sorted({float(row["level"]) for run in mine for row in run.trials if row["kind"] == kind})
        for level in levels:
            quantity = f"{kind}_accuracy@{level:g}"
            title = column.title.replace("*", f"{255 * level:.3g}/255")  # an eps, as people say it
            columns.append(replace(column, id=quantity, title=title, quantity=quantity))
    return replace(artefact, rows=rows, columns=tuple(columns))


def _row(raw: Mapping[str, Any]) -> Row:
    only = raw.get("only")
    return Row(**{**raw, "only": tuple(only) if only is not None else None})
