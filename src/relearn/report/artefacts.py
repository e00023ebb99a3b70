"""Definitions of the tables and figures in the report, read from YAML: which runs, rows, columns and published values.

The definitions are in ``tables.yaml`` and ``figures.yaml`` of each study's ``reported`` folder, next to the published numbers;
no table or figure is defined in code.
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
ANCHORS = "_"  # prefix of keys that only hold YAML anchors
MACHINES = "{machines}"  # placeholder in a caption: the machines of its runs
FRACTION = "{fraction}"  # placeholder in a row's note: the setting of this name in its runs, in percent; a row without runs has no note
COSTS = ("seconds", "megabytes", "bytes", "images_per_second")
"""Units that depend on the machine, which the captions of tables with them name."""
AGGREGATES = ("mean", "median")  # of a cell's members


@dataclass(frozen=True)
class Row:
    """One row of an artefact: a filter on runs; ``only`` names the columns that apply to it (None: all).

    A row with ``in_grid`` False is not part of the published artefact and is not counted as such. ``along`` names the sweep
    over which the row is drawn; ``reference`` filters the runs that it is compared with. ``published`` is the row's name in the
    published file if it differs from the title. ``best_over`` is a label: runs are grouped by it and only the group
    with the best mean counts, as when a paper reports its best setting; best by the quantity ``best_by``, or by the
    column's own, in the column's direction. ``absent`` says why no run can fill the row ("not built here"); its cells
    still count as published cells. ``in_caption`` marks an own row that the caption of a figure names: the figure says so if
    it was not run.
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
    in_caption: bool = False

    def applies(self, column: str) -> bool:
        return self.only is None or column in self.only


@dataclass(frozen=True)
class Column:
    """One quantity of an artefact; ``published_metric`` is the metric's name in the published files, if they have it.

    In a grid a column has a filter of its own; ``group`` and ``measure`` are the titles it is composed of and
    ``published_column`` is its name in the published file. ``panel`` says what a figure draws from the file.
    ``{row}`` in a quantity, or in a value of ``where``, is replaced by the row's id: for rows measured by the same run,
    or for columns that come from runs of several steps. ``every`` names a label whose values ``where`` lists: a seed
    counts only if it has a run for each value, as in a mean over tasks.
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
        """The column for this row, with ``{row}`` filled in."""
        quantity, where = _fill(self.quantity, "{row}", row.id), _fill(self.where, "{row}", row.id)
        if (quantity, where) == (self.quantity, self.where):
            return self  # the same object: a table looks up its cells by it
        return replace(self, quantity=quantity, where=where)


@dataclass(frozen=True)
class Source:
    """Location of the published values of an artefact: a study's file, an artefact id in it and a column."""

    file: Path
    artefact: str
    column: str | None = None

    def values(self) -> list[Value]:
        """The published values.

        Raises:
            ValueError: the file cannot be read or has no values for this artefact.
        """
        return published.values_of(self.file, self.artefact)


@dataclass(frozen=True)
class Artefact:
    """One table or figure; ``members`` are the published values of the label ``over``.

    An ``addition`` is ours: no paper shows it, and coverage does not count it as published. ``head`` is the heading
    of the column of row titles. ``sweeps`` are the published values of further labels that a row sweeps over.
    ``stated`` are published values that a figure draws as lines, each with its text.

    Layout ``members``: a cell is aggregated over the members. Layout ``grid``, the default: a cell holds the runs selected by one row
    and one column, aggregated over seeds; its columns are groups (networks) times measures.

    ``protocol`` has the published values of settings (:meth:`relearn.report.quantities.Evidence.follows`): a cell of other runs shows no
    deviation. ``chosen`` names settings that the caption states because each row has its own: a key of the settings, and its words.

    ``aggregate`` mean: of the members, with the standard deviation; in a grid with the standard error of the mean.
    Median: with the standard deviation.
    """

    id: str
    study: str
    kind: str
    title: str
    caption: str
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
    layout: str = "grid"
    aggregate: str = "mean"
    protocol: Mapping[str, Any] = field(default_factory=dict)
    chosen: Mapping[str, str] = field(default_factory=dict)

    @property
    def grid(self) -> bool:
        return self.layout == "grid"

    @property
    def spread_kind(self) -> str:
        """What a cell's ± shows."""
        return "standard_error" if self.grid and self.aggregate == "mean" else "standard_deviation"

    @property
    def full_caption(self) -> str:
        """The caption; states what a cell shows unless it is a mean, the default."""
        if self.kind != "table" or self.aggregate == "mean":
            return self.caption
        return f"{self.caption} {self.legend}"

    @property
    def legend(self) -> str:
        """What a cell shows."""
        return f"A cell: {self.aggregate} ± {self.spread_kind.replace('_', ' ')} over {self.over}s, (n) = {self.over}s."


def matches(where: Where, study: str, step: str, labels: Mapping[str, str]) -> bool:
    """Whether a run matches every key of ``where``: ``study``, ``step`` or a label.

    A list matches any of its members; ``*`` in a wanted value is a wildcard; None matches a run without this label.
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
            an unknown study.
    """
    found = {}
    for study, folder in folders.items():
        for kind in ("figure", "table"):
            path = folder / f"{kind}s.yaml"
            definitions = yaml_file.read(path) if path.is_file() else {}
            for name, values in definitions.items():
                if not name.startswith(ANCHORS):
                    found[name] = _artefact(path, name, values, study, kind, folders)
    return found


def _artefact(
    path: Path, name: str, raw: Mapping[str, Any], study: str, kind: str, folders: Mapping[str, Path]
) -> Artefact:
    values = dict(raw)
    try:
        crossed = "groups" in values
        columns = grid_columns(values) if crossed else tuple(Column(**one) for one in values.pop("columns"))
        rows = tuple(_row(row, columns) for row in values.pop("rows"))
        grid = values.get("layout", "grid") == "grid"
        over = values.pop("over", {"label": "seed", "members": []}) if grid else values.pop("over")
        artefact = Artefact(
            id=name,
            study=study,
            kind=kind,
            where=tuple(values.pop("where")),
            over=over["label"],
            members=tuple(over["members"]),
            rows=rows,
            columns=columns,
            published={
                label: _source({"study": study, **source}, folders)
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
    """``study`` selects the published numbers of another study."""
    found = {key: value for key, value in raw.items() if key != "study"}
    return Source(file=folders[raw["study"]] / published.FILE, **found)


def expand_rows(artefact: Artefact, runs: Iterable[Any]) -> Artefact:
    """The artefact with one row per measured network, one column per level found in the runs, and its machines and data named.

    The networks and the eps of their attacks are set in params.yaml, not in this file.
    """
    whole = list(runs)
    mine = [run for run in whole if any(run.matches(where) for where in artefact.where)]
    timed = {column.quantity.partition(".")[0] for column in artefact.columns if column.unit in COSTS}
    machines = sorted({run.machine for run in mine if artefact.kind != "table" or run.step in timed})
    if MACHINES in artefact.caption:
        caption = artefact.caption.replace(MACHINES, ", ".join(machines) or "not measured at this scale")
        artefact = replace(artefact, caption=caption)
    elif artefact.kind == "table" and machines and any(column.unit in COSTS for column in artefact.columns):
        several = " Costs on different machines do not compare." if len(machines) > 1 else ""
        artefact = replace(artefact, caption=f"{artefact.caption} Machines: {', '.join(machines)}.{several}")
    if artefact.kind == "table" and (data := _data_of(mine, whole)):
        artefact = replace(artefact, caption=f"{artefact.caption} Data here: {', '.join(data)}.")
    if any(FRACTION in row.note for row in artefact.rows):
        artefact = replace(artefact, rows=tuple(_noted(artefact, row, whole) for row in artefact.rows))
    if not artefact.expand:
        return artefact
    labels, order = artefact.expand["rows"], artefact.expand["order"]
    named = {tuple(run.labels[label] for label in labels) for run in mine}
    flag = artefact.expand.get("flag")  # a metric that is above 0 if the row's numbers are unreliable
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
            title = column.title.replace("*", f"{255 * level:.3g}/255")  # eps in the usual notation
            columns.append(replace(column, id=quantity, title=title, quantity=quantity))
    return replace(artefact, rows=rows, columns=tuple(columns))


def _noted(artefact: Artefact, row: Row, runs: Iterable[Any]) -> Row:
    """The row with its note filled in."""
    where = {**artefact.common, **row.where}
    found = sorted(
        {run.settings["fraction"] for run in runs if run.matches(where) and "fraction" in run.settings}
    )
    shares = " and ".join(f"{100 * share:g}%" for share in found)
    return replace(row, note=row.note.replace(FRACTION, shares) if found or FRACTION not in row.note else "")


def _data_of(mine: Iterable[Any], every: Iterable[Any]) -> list[str]:
    """The data sets of these runs: ``dataset`` of the runs that prepared their inputs; with the task's name, as in ``text: python``."""
    by_folder = {run.folder: run for run in every}
    found, seen = set[str](), set[str]()
    waiting = [run.folder for run in mine]
    while waiting:
        folder = waiting.pop()
        run = by_folder.get(folder)
        if run is None or folder in seen:
            continue
        seen.add(folder)
        name = run.settings.get("dataset")
        if isinstance(name, str) and name:
            task = run.labels.get("task", "")
            found.add(name if task in ("", name) else f"{task}: {name}")
        waiting += run.sources
    return sorted(found)


def _row(raw: Mapping[str, Any], columns: Iterable[Column]) -> Row:
    """``only`` may name a column, or a group or measure of a grid, which stands for all its columns."""
    if raw.get("only") is None:
        return Row(**{**raw, "only": None})
    only: list[str] = []
    for name in raw["only"]:
        made = [column.id for column in columns if name in column.id.split(SEPARATOR)]
        only += [one for one in (made or [name]) if one not in only]
    return Row(**{**raw, "only": tuple(only)})


def grid_columns(values: dict[str, Any]) -> tuple[Column, ...]:
    """The columns of a grid from its ``groups`` and ``measures``, which are removed from ``values``.

    A column's id is ``<group>/<measure>``; in a grid with a single unnamed group it is the measure alone. In the published
    file its name is both names joined by a space. ``{group}`` in a measure's quantity is replaced by the group's id. If
    both filter by the same label, the measure's value wins.

    Raises:
        KeyError, TypeError: a missing or unknown key.
    """
    groups, measures = values.pop("groups"), values.pop("measures")
    found = []
    for group in groups:
        for measure in measures:
            both = [part for part in (group, measure) if part["id"]]
            known = {key: value for key, value in measure.items() if key not in ("where", "published")}
            known |= {
                "quantity": _fill(measure["quantity"], "{group}", group["id"]),
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


def _fill(value: Any, mark: str, name: str) -> Any:
    """A string, or the strings in a filter, with the mark replaced by the name."""
    if isinstance(value, Mapping):
        return {key: _fill(one, mark, name) for key, one in value.items()}
    return value.replace(mark, name) if isinstance(value, str) else value
