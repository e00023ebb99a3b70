"""A comparison of two renderings as terminal text, CSV, Markdown and an HTML fragment."""

from __future__ import annotations

import html
import textwrap
from collections import Counter
from collections.abc import Sequence
from itertools import zip_longest

from relearn.report.changed_settings import Setting
from relearn.report.changes import KINDS, Change, Side
from relearn.report.claims_formats import cases_hold
from relearn.report.table_formats import csv_text, pipes
from relearn.report.views.names import plural

FIELDS = (
    *("artefact", "name", "change", "unit", "before", "after", "difference", "low", "high"),
    *("words_before", "words_after", "n_before", "n_after"),
)
HEAD = ("what", "before", "after", "difference [95%]", "change")
TOLD = ("verdict", "beyond noise")
JUDGED = ("claim", "check")
MOST = 12  # most settings listed


def as_csv(changes: Sequence[Change]) -> str:
    """Every change, including identical ones, in full precision."""
    lines = []
    for one in changes:
        ends = (one.interval.low, one.interval.high) if one.interval else (None, None)
        numbers = (one.before, one.after, one.difference, *ends)
        lines.append([one.artefact, one.name, one.kind, one.unit, *numbers, *one.words, *one.n])
    return csv_text(FIELDS, lines)


def count_lines(changes: Sequence[Change]) -> list[str]:
    """Lines that count the changes of claims and cells, with the number of cells expected to change by chance alone."""
    lines = []
    groups: dict[str, list[Change]] = {"claim": [], "check": [], "cell": []}
    for one in changes:
        groups[one.artefact if one.artefact in JUDGED else "cell"].append(one)
    for what, several in groups.items():
        counts = Counter(one.kind for one in several)
        summary = ", ".join(f"{counts[kind]} {_kind_label(kind)}" for kind in KINDS if counts[kind])
        if several or what != "check":
            lines.append(f"{plural(len(several), what)}: {summary or 'none'}.")
        judged = counts["beyond noise"] + counts["within noise"]
        if what == "cell" and judged:
            lines.append(
                f"Of {judged} cells that changed and have an interval, about {0.05 * judged:.0f} would lie beyond it by chance."
            )
    return lines


def _kind_label(kind: str) -> str:
    return {"verdict": "with another verdict", "no spread": "changed without a known spread"}.get(kind, kind)


def settings_lines(settings: Sequence[Setting]) -> list[str]:
    """``poisoning filter: k 50 → 60 (16 runs)``."""
    lines = [f"{one.step}: {one.key} {one.before} → {one.after} ({one.runs} runs)" for one in settings[:MOST]]
    more = len(settings) - MOST
    return lines + ([f"and {more} more settings"] if more > 0 else [])


def rows(changes: Sequence[Change], everything: bool = False) -> list[tuple[str, ...]]:
    """Table rows: changed verdicts and changes beyond noise; with `everything`, all that are not identical."""
    shown = [one for one in changes if one.kind in TOLD or (everything and one.kind != "identical")]
    return [
        (f"{one.artefact} {one.name}", *_sides(one), _difference(one), _kind_label(one.kind)) for one in shown
    ]


def _sides(change: Change) -> tuple[str, str]:
    sides = []
    for value, words, n in zip((change.before, change.after), change.words, change.n):
        judged = change.artefact in JUDGED
        status = "" if not judged and value is not None else words.replace("_", " ")
        number = "" if value is None else _number(value, change.unit)
        if value is not None and n.endswith(
            " cases"
        ):  # of an exact claim, whose effect is the share that fails
            cases = int(n.split()[0])
            number = cases_hold(round(cases * (1 - value)), cases)
        count = f"({n})" if n and not judged else ""
        sides.append(" ".join(filter(None, (status, number, count))))
    return sides[0], sides[1]


def _difference(change: Change) -> str:
    if change.difference is None or change.n[1].endswith(" cases"):
        return ""
    text = _number(change.difference, change.unit, signed=True)
    if change.interval is None:
        return text
    both = (change.interval.low, change.interval.high)
    ends = ", ".join(_number(end, change.unit, signed=True) for end in both)
    return f"{text} [{ends}]"


def _number(value: float, unit: str, signed: bool = False) -> str:
    sign = "+" if signed else ""
    if unit.startswith("fraction"):
        return f"{100 * value:{sign}.1f}%"
    return f"{value:{sign}.4g}"


def terminal(
    before: Side,
    after: Side,
    changes: Sequence[Change],
    settings: Sequence[Setting],
    columns: int,
    everything: bool = False,
) -> str:
    """Counts, changed settings and a table no wider than `columns`."""
    lines = [f"before: {before.name} (scale {before.scale})", f"after:  {after.name} (scale {after.scale})"]
    for line in [*count_lines(changes), *settings_lines(settings)]:
        lines += textwrap.wrap(line, columns)
    shown = rows(changes, everything)
    for kind in dict.fromkeys(row[-1] for row in shown):
        lines += ["", f"{kind}:"]
        lines += _table([row[:-1] for row in shown if row[-1] == kind], columns)
    return "\n".join(lines) + "\n"


def _table(lines: Sequence[Sequence[str]], columns: int) -> list[str]:
    """Columns as wide as their widest cell; if the table is too wide, the first columns are wrapped first."""
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    for i, least in enumerate((36, 22, 22)):
        over = sum(widths) + 2 * len(widths) - columns
        widths[i] = max(min(widths[i], least), widths[i] - max(over, 0))
    found = []
    for line in lines:
        wrapped = [textwrap.wrap(text, width or 1) for text, width in zip(line, widths)]
        for parts in zip_longest(*wrapped, fillvalue=""):
            found.append("  " + "  ".join(part.ljust(width) for part, width in zip(parts, widths)).rstrip())
    return found


def markdown(before: Side, after: Side, changes: Sequence[Change], settings: Sequence[Setting]) -> str:
    """The comparison as a Markdown page."""
    lines = [f"# {before.name} → {after.name}", "", f"Scale {before.scale} → {after.scale}.", ""]
    lines += [*count_lines(changes), "", *(f"- {line}" for line in settings_lines(settings)), ""]
    lines += [pipes(*row) for row in (HEAD, ["---"] * len(HEAD), *rows(changes))]
    return "\n".join(lines) + "\n"


def fragment(before: Side, after: Side, changes: Sequence[Change], settings: Sequence[Setting]) -> str:
    """The comparison as a section of an HTML page, without styles of its own; a wide table scrolls inside its box."""
    paragraphs = "".join(f"<p>{html.escape(line)}</p>" for line in count_lines(changes))
    listed = "".join(f"<li>{html.escape(line)}</li>" for line in settings_lines(settings))
    head = "".join(f'<th scope="col">{cell}</th>' for cell in HEAD)
    body = "\n".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows(changes)
    )
    return (
        f'<section id="changes"><h2>{html.escape(before.name)} → {html.escape(after.name)}</h2>\n{paragraphs}\n'
        f"{f'<ul>{listed}</ul>' if listed else ''}\n"
        f'<div class="wide"><table><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table></div></section>\n'
    )
