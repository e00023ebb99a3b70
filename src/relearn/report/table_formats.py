"""A table's cells as CSV (raw numbers), Markdown and LaTeX (the only place where numbers are rounded)."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from pathlib import Path

from relearn.report import blank, grid
from relearn.report import latex as tex
from relearn.report.artefacts import Artefact, Column
from relearn.report.quantities import quantity
from relearn.report.statistics import wilson
from relearn.report.table import Cell
from relearn.report.views.names import plural

LACKING = {**grid.LACKING, "no_value": "no such attack"}
MANY = 4  # cells, rows or columns that a sentence of the caption names
LABELS = ("paper", "published code")
FIELDS = (
    *("artefact", "row", "column", "unit", "direction", "status", "mean", "spread", "members_count"),
    *("pooled", "pooled_low", "pooled_high", "trials_count", "diverged_count", "not_converged_count"),
    *("paper", "published_code", "deviation", "deviation_from", "runs", "aggregate", "spread_kind"),
)
MEMBER_FIELDS = (
    *("artefact", "row", "column", "unit", "member", "mean", "low", "high", "trials_count"),
    *("published_code", "runs"),
)


def text(cell: Cell) -> str:
    """``mean ± spread (n)``, or why there is no number; ``(n, m attacks)`` if only attacks that succeed undefended count."""
    if cell.status != "measured":
        return cell.row.absent if cell.status == "absent" else LACKING[cell.status]
    unit = cell.column.unit
    spread = "" if cell.spread is None else f" ± {grid.number(cell.spread, unit, beside=cell.mean)}"
    lost = f" [{cell.diverged} diverged]" if cell.diverged else ""
    attacks = f", {plural(cell.trials, 'attack')}" if quantity(cell.column.quantity).effective else ""
    return f"{grid.number(cell.mean, unit)}{spread} ({len(cell.members)}{attacks}){lost}"


def title(column: Column) -> str:
    return f"{column.title}, %" if column.unit == "fraction" else column.title


def header_and_rows(artefact: Artefact, cells: Sequence[Cell]) -> tuple[list[str], list[list[str]]]:
    """Header and rows as text: each measured column, followed by its published values and its deviation from them.

    Left out are what :mod:`relearn.report.blank` names, and a column without any deviation.
    """
    artefact, _ = blank.without_empty(artefact, cells)
    header, lines = (grid.header_and_rows if artefact.grid else _of_members)(artefact, cells)
    kept = [
        at
        for at, name in enumerate(header)
        if name != "Deviation" or any(line[at] != grid.NO_NUMBER for line in lines)
    ]
    return [header[at] for at in kept], [[line[at] for at in kept] for line in lines]


def _of_members(artefact: Artefact, cells: Sequence[Cell]) -> tuple[list[str], list[list[str]]]:
    labels = [label for label in LABELS if label == "paper" or label in artefact.published]
    header = [artefact.head]
    beside = {column for column in artefact.columns if column.published_metric and not artefact.addition}
    for column in artefact.columns:
        header.append(title(column))
        if column in beside:
            header += [label.capitalize() for label in labels] + ["Deviation"]
    lines = []
    for row in artefact.rows:
        line = [row.title + (f" ({row.note})" if row.note else "")]
        for column in artefact.columns:
            cell = next(cell for cell in cells if cell.row is row and cell.column is column)
            line.append(text(cell))
            if column in beside:
                line += [grid.number(cell.published.get(label), column.unit) for label in labels]
                line.append(grid.away(cell))
        lines.append(line)
    return header, lines


def caption(artefact: Artefact, cells: Sequence[Cell]) -> str:
    """The caption, what a cell shows if neither says so, network sizes, settings that rows chose, and what is missing."""
    spread = any(cell.spread is not None for cell in cells)
    unsaid = spread and artefact.aggregate == "mean" and "±" not in artefact.caption
    legend = artefact.legend if unsaid else ""
    shown = [cell for cell in cells if cell.status == "measured"]
    stated = [_stated(shown, [getattr(cell, name) for cell in shown]) for name in ("size", "chosen")]
    apart = not artefact.addition and any(cell.published and not cell.comparable for cell in shown)
    why = (
        "No deviation is shown where data, networks, length of training or machine are not the published ones."
        if apart
        else ""
    )
    left_out = blank.without_empty(artefact, cells)[1]
    return " ".join(filter(None, (artefact.full_caption, legend, *stated, why, left_out)))


def _stated(cells: Sequence[Cell], statements: Sequence[str]) -> str:
    """What is stated of cells, once if it is the same for all, otherwise with the columns, rows or cells that it is true of."""
    told = [(cell, words) for cell, words in zip(cells, statements) if words]
    ways: tuple[Callable[[Cell], str], ...] = (
        lambda cell: "",
        lambda cell: cell.column.group or cell.column.title,
        lambda cell: cell.row.title,
        lambda cell: f"{cell.row.title} ({cell.column.group or cell.column.title})",
        lambda cell: f"{cell.row.title} ({cell.column.title})",
    )
    for way in ways:
        names = {way(cell): words for cell, words in told}
        if all(names[way(cell)] == words for cell, words in told):
            break
    by_words: dict[str, list[str]] = {}
    for name, words in names.items():
        by_words.setdefault(words, []).append(name)
    most = max(map(len, by_words.values()), default=0)
    last = [words for words, of in by_words.items() if len(of) == most > MANY and len(by_words) > 1][:1]
    parts = [
        f"{' · '.join(of)}: {words}" if any(of) else words
        for words, of in by_words.items()
        if words not in last
    ]
    parts += [f"all others: {words}" for words in last]
    sentence = "; ".join(parts)
    return f"{sentence[0].upper()}{sentence[1:]}." if sentence else ""


def write(artefact: Artefact, cells: Sequence[Cell], folder: Path) -> list[Path]:
    """Write ``<id>.csv``, ``<id>.<over>s.csv`` (such as ``.victims.csv``), ``<id>.md`` and ``<id>.tex`` into ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    files = {
        f"{artefact.id}.csv": csv_text(FIELDS, [_raw(artefact, cell) for cell in cells]),
        f"{artefact.id}.{artefact.over}s.csv": csv_text(MEMBER_FIELDS, _members(artefact, cells)),
        f"{artefact.id}.md": markdown(artefact, cells),
        f"{artefact.id}.tex": latex(artefact, cells),
    }
    for name, content in files.items():
        (folder / name).write_text(content, encoding="utf-8", newline="\n")
    return [folder / name for name in files]


def markdown(artefact: Artefact, cells: Sequence[Cell]) -> str:
    header, lines = header_and_rows(artefact, cells)
    table = [header, ["---"] * len(header), *lines]
    body = "\n".join(pipes(*line) for line in table)
    return f"# {artefact.id}: {artefact.title}\n\n{body}\n\n{caption(artefact, cells)}\n"


def latex(artefact: Artefact, cells: Sequence[Cell]) -> str:
    """Floating tables that fit the page; see :mod:`relearn.report.latex`."""
    header, lines = header_and_rows(artefact, cells)
    return tex.table(artefact.id, artefact.title, caption(artefact, cells), header, lines)


def _raw(artefact: Artefact, cell: Cell) -> list[object]:
    away = cell.deviation() or (None, None)
    named = (artefact.id, cell.row.id, cell.column.id, cell.column.unit, cell.column.direction, cell.status)
    measured = (cell.mean, cell.spread, len(cell.members), cell.pooled, cell.low, cell.high, cell.trials)
    beside = (cell.published.get("paper"), cell.published.get("published code"), away[1], away[0])
    made = (" ".join(cell.runs), artefact.aggregate, artefact.spread_kind)
    return [*named, *measured, cell.diverged, cell.stalled, *beside, *made]


def _members(artefact: Artefact, cells: Sequence[Cell]) -> list[list[object]]:
    """One line per member, such as a victim: its mean with Wilson's interval if binary, and the published code's value."""
    lines: list[list[object]] = []
    for cell in cells:
        named = [artefact.id, cell.row.id, cell.column.id, cell.column.unit]
        for member, values in cell.members.items():
            ends = wilson(sum(values), len(values)) if cell.low is not None else None
            runs = [run for run in cell.runs if f"/{member}/" in f"{run}/"]
            numbers = [sum(values) / len(values), ends.low if ends else None, ends.high if ends else None]
            beside = cell.published_members[member].get("published code")
            lines.append([*named, member, *numbers, len(values), beside, " ".join(runs)])
    return lines


def pipes(*cells: object) -> str:
    """A row of a Markdown table."""
    return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |"


def csv_text(fields: Sequence[str], lines: Sequence[Sequence[object]]) -> str:
    import io

    out = io.StringIO(newline="")
    table = csv.writer(out, lineterminator="\n")
    table.writerow(fields)
    table.writerows(["" if item is None else item for item in line] for line in lines)
    return out.getvalue()
