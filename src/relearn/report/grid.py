"""Text of a grid table: rows times networks, one line per measure, each cell next to the published value.

A cell of a grid is a mean over seeds ± its standard error, or a median ± standard deviation. Diverged runs count if
they have a number of their own (chance accuracy is a number), as do runs that did not converge; the cell gives their
numbers in brackets. A table with more than :data:`WIDEST` columns is shown in long form: one line for each row and column.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from decimal import ROUND_HALF_UP, Decimal

from relearn.report.artefacts import Artefact, Column
from relearn.report.published import Value
from relearn.report.table import Cell

LACKING = {"not_run": "not run", "diverged": "diverged", "not_applicable": "n/a", "no_value": "no value"}
NO_NUMBER = "-"  # the source prints no number here
WIDEST = 17  # columns of a table, those of published numbers and deviations included
#: factor and decimals by unit; None: three significant digits
FORMS: dict[str, tuple[float, int | None]] = {
    "fraction": (100.0, 1),
    "percent": (1.0, 1),
    "bleu": (1.0, 1),
    "bytes": (2.0**-20, 0),
    "nats": (1.0, 3),
    "nats_per_character": (1.0, 3),
    "bits_per_character": (1.0, 3),
    "count": (1.0, 0),
    "millions": (1.0, 2),
    "giga": (1.0, 2),
    "tokens": (1.0, 0),
    "none": (1.0, 4),
    "correlation": (1.0, 3),
}
COUNTED = ("count", "millions", "giga", "tokens")
"""Units of sizes, which all seeds share: a spread of 0 is left out."""
HEADS = {"fraction": "%", "bytes": "MiB", "seconds": "s", "nats": "nats"}
HEADS |= {"millions": "M", "giga": "G", "megabytes": "MB"}
HEADS |= {"nats_per_character": "nats", "bits_per_character": "bits", "nats_fine": "nats"}
LEAST_DECIMALS = {
    "seconds": 0,
    "nats_per_character": 3,
    "bits_per_character": 2,
    "millions": 0,
    "images_per_second": 0,
    "megabytes": 0,
    "tokens": 0,
}  # as the papers print them; 1 for other units


def header_and_rows(artefact: Artefact, cells: Sequence[Cell]) -> tuple[list[str], list[list[str]]]:
    """Header and lines as text: one line per row if there is one group, else one line per row and measure."""
    beside = {column.measure for column in artefact.columns if column.published_metric}
    if artefact.addition:
        beside = set()
    groups = list(dict.fromkeys(column.group for column in artefact.columns))
    found = {(cell.row.id, cell.column.id): cell for cell in cells}
    flat = len(groups) == 1
    measured = len(artefact.columns if flat else groups)
    if 1 + (not flat) + (3 if beside else 1) * measured > WIDEST:
        return _long(artefact, found, bool(beside))
    header = [artefact.head] if flat else [artefact.head, "Measure"]
    for name in artefact.columns if flat else groups:
        header.append(column_title(name) if isinstance(name, Column) else name)
        if (name.measure if isinstance(name, Column) else None) in beside or (beside and not flat):
            header += ["Paper", "Deviation"]
    lines = []
    for row in artefact.rows:
        title = row.title + (f" ({row.note})" if row.note else "")
        for measure in [None] if flat else _measures(artefact, row.id, found):
            line = [title] if flat else [title, _head(artefact, measure)]
            columns = [c for c in artefact.columns if measure in (None, c.measure)]
            for column in columns:
                cell = found[row.id, column.id]
                line.append(text(cell))
                if column.measure in beside:
                    line += [format_published(cell.printed.values()), away(cell)]
                elif beside and not flat:
                    line += [NO_NUMBER, NO_NUMBER]
            lines.append(line)
    return header, lines


def _long(
    artefact: Artefact, found: dict[tuple[str, str], Cell], beside: bool
) -> tuple[list[str], list[list[str]]]:
    """One line for each row and column that has a number, an outcome, or a published number, which ``beside`` shows."""
    several = len({column.group for column in artefact.columns}) > 1
    lines = []
    for row in artefact.rows:
        title = row.title + (f" ({row.note})" if row.note else "")
        for column in artefact.columns:
            cell = found[row.id, column.id]
            printed = format_published(cell.printed.values()) if beside else NO_NUMBER
            if cell.status in ("not_applicable", "not_run") and printed == NO_NUMBER:
                continue
            name = f"{column.group}: {column_title(column)}" if several else column_title(column)
            lines.append([title, name, text(cell), *([printed, away(cell)] if beside else [])])
    return [artefact.head, "Measure", "Here", *(["Paper", "Deviation"] if beside else [])], lines


def _measures(artefact: Artefact, row: str, found: dict[tuple[str, str], Cell]) -> list[str]:
    """The measures that apply to at least one column of the row."""
    used = {c.measure for c in artefact.columns if found[row, c.id].status != "not_applicable"}
    return [name for name in dict.fromkeys(c.measure for c in artefact.columns) if name in used]


def _head(artefact: Artefact, measure: str | None) -> str:
    unit = next(column.unit for column in artefact.columns if column.measure == measure)
    return f"{measure}, {HEADS[unit]}" if unit in HEADS else str(measure)


def column_title(column: Column) -> str:
    name = column.measure or column.title
    return f"{name}, {HEADS[column.unit]}" if column.unit in HEADS else name


def number(value: float | None, unit: str, signed: bool = False, beside: float | None = None) -> str:
    """A number rounded for a table; if ``beside`` is given, with as many decimals as it would have."""
    if value is None:
        return NO_NUMBER
    factor, decimals = FORMS.get(unit, (1.0, None))
    scaled = factor * value
    if decimals is None:
        size = abs(scaled if beside is None else factor * beside)
        decimals = 0 if size >= 100 else 1 if size >= 10 else 2 if size >= 1 or not size else 3
        if 0 < size < 0.01:
            return format(scaled, "+.2e" if signed else ".2e")
    return rounded(scaled, decimals, signed)


def rounded(value: float, decimals: int, signed: bool = False) -> str:
    """Rounded half away from zero, as by hand; what lies behind the 12th digit is the noise of binary numbers."""
    form = f"{'+' if signed else ''}.{decimals}f"
    if not math.isfinite(value):
        return format(value, form)
    near = Decimal(f"{value:.12g}").quantize(Decimal(1).scaleb(-decimals), ROUND_HALF_UP)
    return format(near or abs(near), form)  # no minus zero


def text(cell: Cell) -> str:
    """``mean ± standard error (seeds)`` with the numbers of diverged and unconverged runs, or why there is no number.

    For medians: ``median ± standard deviation (seeds)``.
    """
    if cell.status == "diverged":
        return f"diverged ({cell.diverged})"
    if cell.status != "measured":
        return cell.row.absent if cell.status == "absent" else LACKING[cell.status]
    unit = cell.column.unit
    exact = cell.spread is None or (not cell.spread and unit in COUNTED)
    spread = "" if exact else f" ± {number(cell.spread, unit, beside=cell.mean)}"
    ends = ((cell.diverged, "diverged"), (cell.stalled, "not converged"))
    lost = "".join(f" [{count} {word}]" for count, word in ends if count)
    best = f" [{cell.best}]" if cell.best else ""
    return f"{number(cell.mean, unit)}{spread} ({len(cell.members)}){best}{lost}"


def away(cell: Cell) -> str:
    """Measured minus published, in the column's unit, with the decimals of the larger of the two."""
    found = cell.deviation()
    if found is None or cell.mean is None:
        return NO_NUMBER
    larger = max(abs(cell.mean), abs(cell.mean - found[1]))
    return number(found[1], cell.column.unit, signed=True, beside=larger)


def format_published(values: Iterable[Value]) -> str:
    """The published value with its spread, number of runs and outcome, in the paper's digits."""
    for value in values:
        outcome = value.outcome.replace("_", " ")
        if value.value is None:
            return NO_NUMBER if value.outcome in ("ok", "not_reported") else outcome
        least = _decimals(value.value, LEAST_DECIMALS.get(value.unit, 1))
        spread = "" if value.spread is None else f" ± {value.spread_digits or _digits(value.spread, least)}"
        runs = "" if value.n_runs is None else f" ({value.n_runs})"
        outcome_text = "" if value.outcome == "ok" else f", {outcome}"
        return f"{value.digits or _digits(value.value, least)}{spread}{runs}{outcome_text}"
    return NO_NUMBER


def _decimals(value: float, least: int) -> int:
    return max(least, len(f"{value:.10g}".partition(".")[2]))


def _digits(value: float, least: int) -> str:
    """The digits as printed; restores trailing zeros lost in the conversion to a float."""
    return format(value, f".{_decimals(value, least)}f")
