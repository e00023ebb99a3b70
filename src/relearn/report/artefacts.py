"""The artefacts that the report renders, read from data: which runs, which rows and columns, what beside.

The definitions lie in ``tables.yaml`` and ``figures.yaml`` of each study's ``reported`` folder, the published numbers beside them;
no table or figure is described in code.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from relearn.report import published, yaml_file
from relearn.report.published import Value

Where = Mapping[str, Any]
SEPARATOR = "/"  # between the group and the measure in the id of a grid's column
ANCHORS = "_"  # before a key that only holds anchors
MACHINES = "{machines}"  # in a caption: on what its runs were made
AGGREGATES = ("mean", "median")  # of a cell's members


@dataclass(frozen=True)
class Row:
    """One line of an artefact: a filter on runs; ``only`` names the columns that apply to it (None: all).

    A row with ``in_grid`` False is not part of the published artefact and not counted as such. ``along``
    names the sweep that the row runs over; ``reference`` filters the runs that it is drawn against.
    ``published`` is its name in the published file where that is not the title. ``best_over`` is a label: of
    the runs that differ in it, the group with the best mean counts, as where a paper reports its best setting;
    best of the quantity ``best_by``, or of the column's own. ``absent`` says why no run can fill the row ("not built
    here"): its cells are published cells all the same.
    """

    id: str
    title: str
    where: Where
    only: tuple[str, ...] | None = None
    note: str = ""
    in_grid: bool = True
    along: str | None = None
    reference: Where | None = None
    published: str | None = None
    best_over: str | None = None
    best_by: str | None = None
    absent: str = ""

    def applies(self, column: str) -> bool:
        return self.only is None or column in self.only


@dataclass(frozen=True)
class Column:
    """One quantity of an artefact, with the metric's name in the published files where they have it.

    In a grid a column has a filter of its own; ``group`` and ``measure`` are the titles that it is made of and
    ``published_column`` its name in the published file. ``panel`` says what a figure takes from the file.
    ``{row}`` in a quantity, or in a value of ``where``, stands for the id of the row: where one run measures all of
    them, or where the columns come from runs of several steps. ``every`` is a label of ``where`` with a list of values:
    a seed counts only with a run of each, as in a mean over tasks.
    """

    id: str
    title: str
    quantity: str
    unit: str
    direction: str = "none"
    published_metric: str | None = None
    where: Where = field(default_factory=dict, hash=False)
    published_column: str | None = None
    group: str = ""
    measure: str = ""
    panel: Mapping[str, Any] = field(default_factory=dict, hash=False)
    every: str | None = None

    def of(self, row: Row) -> Column:
        """The column as this row has it."""
        quantity, where = _filled(self.quantity, "{row}", row.id), _filled(self.where, "{row}", row.id)
        if (quantity, where) == (self.quantity, self.where):
            return self  # the same object: a table finds its cells by it
        return replace(self, quantity=quantity, where=where)


@dataclass(frozen=True)
class Source:
    """Where published values of an artefact lie: a study's file, an artefact id in it, a column there."""

    file: Path
    artefact: str
    column: str | None = None

    def values(self) -> list[Value]:
        """The published values.

        Raises:
            ValueError: the file cannot be read, or has none of this artefact.
        """
        return published.of(self.file, self.artefact)


@dataclass(frozen=True)
class Artefact:
    """One table or figure; ``members`` are the published values of the label ``over``.

    An ``addition`` is ours: no paper shows it, and coverage does not count it as published. ``head`` titles
    the column of row titles. ``sweeps`` are the published values that a row runs over besides its members.
    ``stated`` are published values that a figure draws as lines, each with the words for it.

    Layout ``members``: a cell is aggregated over the members. Layout ``grid``: a cell is what one row and one
    column select, aggregated over seeds; its columns are groups (networks) times measures.

    ``aggregate`` mean: of the members, with the standard deviation, in a grid the standard error of the mean;
    median: with the standard deviation.
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
    layout: str = "members"
    aggregate: str = "mean"

    @property
    def grid(self) -> bool:
        return self.layout == "grid"

    @property
    def spread_kind(self) -> str:
        """What stands behind a cell's ±."""
        return "standard_error" if self.grid and self.aggregate == "mean" else "standard_deviation"

    @property
    def full_caption(self) -> str:
        """The caption, and what a cell is where that is not a mean, as everywhere else."""
        if self.kind != "table" or self.aggregate == "mean":
            return self.caption
        said = f"A cell: {self.aggregate} ± {self.spread_kind.replace('_', ' ')} over {self.over}s, (n) = {self.over}s."
        return f"{self.caption} {said}"


def matches(where: Where, study: str, step: str, labels: Mapping[str, str]) -> bool:
    """Whether a run agrees with every key of ``where``: ``study``, ``step`` or a label.

    A list is any of its members; a ``*`` in a wanted value stands for any letters; None is a run without this label.
    """
    for key, wanted in where.items():
        found = {"study": study, "step": step}.get(key, labels.get(key))
        if not any(_agrees(found, one) for one in (wanted if isinstance(wanted, list) else [wanted])):
            return False
    return True


def _agrees(found: Any, wanted: Any) -> bool:
    if isinstance(found, str) and isinstance(wanted, str) and "*" in wanted:
        return fnmatchcase(found, wanted)
    return bool(found == wanted)


def load(folders: Mapping[str, Path]) -> dict[str, Artefact]:
    """All tables and figures of all studies.

    Args:
        folders: study to the folder of its definitions and published numbers.

    Raises:
        ValueError: naming the file and the key, for a missing or unknown key, a column that does not exist, or
            a study that is not there.
    """
    found = {}
    for study, folder in folders.items():
        for path in (folder / "figures.yaml", folder / "tables.yaml"):
            definitions = yaml_file.read(path) if path.is_file() else {}
            for name, values in definitions.items():
                if not name.startswith(ANCHORS):
                    found[name] = _artefact(path, name, {**values, "study": study}, folders)
    return found


def _artefact(path: Path, name: str, raw: Mapping[str, Any], folders: Mapping[str, Path]) -> Artefact:
    values = dict(raw)
    try:
        crossed = "groups" in values
        columns = grid_columns(values) if crossed else tuple(Column(**one) for one in values.pop("columns"))
        rows = tuple(_row(row, columns) for row in values.pop("rows"))
        grid = values.get("layout") == "grid"
        over = values.pop("over", {"label": "seed", "members": []}) if grid else values.pop("over")
        artefact = Artefact(
            id=name,
            where=tuple(values.pop("where")),
            over=over["label"],
            members=tuple(over["members"]),
            rows=rows,
            columns=columns,
            published={
                label: _source({"study": values["study"], **source}, folders)
                for label, source in (values.pop("published", None) or {}).items()
            },
            sweeps={label: tuple(swept) for label, swept in values.pop("sweeps", {}).items()},
            stated=tuple(values.pop("stated", ())),
            **values,
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"{path}: {name}: {error}") from None
    if (how := artefact.aggregate) not in AGGREGATES:
        raise ValueError(f"{path}: {name}: aggregate: found {how}, allowed: {', '.join(AGGREGATES)}")
    known = [column.id for column in columns]
    for row in rows:
        for column in row.only or ():
            if column not in known:
                raise ValueError(
                    f"{path}: {name}: row {row.id}: found column {column}, allowed: {', '.join(known)}"
                )
    return artefact


def _source(raw: Mapping[str, str], folders: Mapping[str, Path]) -> Source:
    """Another study's numbers are named with ``study``."""
    found = {key: value for key, value in raw.items() if key != "study"}
    return Source(file=folders[raw["study"]] / published.FILE, **found)


def expanded(artefact: Artefact, runs: Iterable[Any]) -> Artefact:
    """The artefact with a row a network that was measured, a column a level that some run has, and its machines named.

    Which networks there are and at which eps they are attacked is a matter of params.yaml, not of this file.
    """
    mine = [run for run in runs if any(run.matches(where) for where in artefact.where)]
    if MACHINES in artefact.caption:
        machines = ", ".join(sorted({run.machine for run in mine})) or "not run"
        artefact = replace(artefact, caption=artefact.caption.replace(MACHINES, machines))
    if not artefact.expand:
        return artefact
    labels, order = artefact.expand["rows"], artefact.expand["order"]
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


def _row(raw: Mapping[str, Any], columns: Iterable[Column]) -> Row:
    """``only`` may name a column, or a group or a measure of a grid: then all columns made of it."""
    if raw.get("only") is None:
        return Row(**{**raw, "only": None})
    only: list[str] = []
    for name in raw["only"]:
        made = [column.id for column in columns if name in column.id.split(SEPARATOR)]
        only += [one for one in (made or [name]) if one not in only]
    return Row(**{**raw, "only": tuple(only)})


def grid_columns(values: dict[str, Any]) -> tuple[Column, ...]:
    """The columns of a grid from its ``groups`` and ``measures``, which are taken out of ``values``.

    A column is named ``<group>/<measure>``; a grid of one nameless group has its measures alone. The published
    file calls it by both names, one behind the other. ``{group}`` in a measure's quantity stands for the group's id. What
    both say of a run's labels, the measure says.

    Raises:
        KeyError, TypeError: a key that lacks or that nobody knows.
    """
    groups, measures = values.pop("groups"), values.pop("measures")
    found = []
    for group in groups:
        for measure in measures:
            both = [part for part in (group, measure) if part["id"]]
            known = {key: value for key, value in measure.items() if key not in ("where", "published")}
            known |= {
                "quantity": _filled(measure["quantity"], "{group}", group["id"]),
                "every": group.get("every"),
                "id": SEPARATOR.join(part["id"] for part in both),
                "title": " ".join(part["title"] for part in both),
                "where": {**group["where"], **measure.get("where", {})},
                "published_column": " ".join(p["published"] for p in both if p.get("published")) or None,
                "group": group["title"],
                "measure": measure["title"],
            }
            found.append(Column(**known))
    return tuple(found)


def _filled(value: Any, mark: str, name: str) -> Any:
    """A text, or the texts of a filter, with the mark replaced."""
    if isinstance(value, Mapping):
        return {key: _filled(one, mark, name) for key, one in value.items()}
    return value.replace(mark, name) if isinstance(value, str) else value
