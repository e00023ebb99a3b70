r"""Differences between two renderings: verdicts, effects and cells, and whether they exceed the noise.

A difference of two numbers has a 95% interval if both have a spread:

* the effect of a claim, from its two intervals (method of variance estimates recovery):
  :math:`d - \sqrt{(a-l_a)^2 + (u_b-b)^2} \ldots d + \sqrt{(u_a-a)^2 + (b-l_b)^2}`, with :math:`d = a - b`;
* a cell with the same members on both sides (seeds, victims): Student's interval over the members' differences;
* a cell with different members: Welch's interval;
* a share of yes-or-no trials: from its two intervals as above, and also from its members if it has several.

For cells of medians, the interval is that of the means. The two sides count as independent except for members of the same name.
With one number on each side there is no spread: such a change is listed as ``no spread``, since the size of the noise is unknown.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import variance
from typing import Any

from relearn.report import claims_file
from relearn.report.claims_formats import CHECKED
from relearn.report.published_set import csv_files
from relearn.report.statistics import Interval, student_mean
from relearn.runs.record_file import RecordError

KINDS = ("verdict", "beyond noise", "no spread", "appeared", "vanished", "within noise", "identical")
"""What a change can be, the most telling first."""
Line = Mapping[str, Any]


@dataclass(frozen=True)
class Change:
    """One claim or cell on both sides. ``before`` and ``after`` are numbers; ``n`` says how many members or seeds each is based on.

    ``words`` are the verdicts of a claim, or the statuses of a cell. ``interval`` is that of after minus before, None without a
    spread.
    """

    artefact: str  # "claim", "check" or the id of a table
    name: str
    kind: str
    unit: str
    before: float | None = None
    after: float | None = None
    interval: Interval | None = None  # of the difference
    words: tuple[str, str] = ("", "")
    n: tuple[str, str] = ("", "")

    @property
    def difference(self) -> float | None:
        return None if self.before is None or self.after is None else self.after - self.before

    @property
    def weight(self) -> float:
        """The difference in units of half its interval; sorts changes of one kind."""
        if self.difference is None or self.interval is None:
            return 0.0
        half = (self.interval.high - self.interval.low) / 2
        return abs(self.difference) / half if half else math.inf


@dataclass(frozen=True)
class Side:
    """The content of one rendering."""

    name: str
    scale: str
    claims: Mapping[tuple[str, str], Line]
    cells: Mapping[tuple[str, str, str], Line]
    members: Mapping[tuple[str, str, str], Mapping[str, float]] = field(default_factory=dict)


def read(folder: Path, name: str = "") -> Side:
    """A rendering: ``claims.json`` and the tables' CSV files of a results folder or a published set.

    Raises:
        FileNotFoundError: nothing has been rendered there.
        RecordError: ``claims.json`` or a table is damaged; one line.
    """
    file = folder / "claims.json"
    if not file.is_file():
        raise FileNotFoundError(
            f"{folder}: no claims.json; allowed: a folder that `relearn render` has written"
        )
    judged = claims_file.read(file)
    claims = {(one["section"], one["id"]): one for one in judged["claims"]}
    cells: dict[tuple[str, str, str], Line] = {}
    members: dict[tuple[str, str, str], dict[str, float]] = {}
    for line in _lines(folder):
        key = (line["artefact"], line["row"], line["column"])
        if "member" in line:
            members.setdefault(key, {})[line["member"]] = float(line["mean"])
        else:
            cells[key] = line
    return Side(name or str(folder), judged["scale"], claims, cells, members)


def _lines(folder: Path) -> Iterator[dict[str, str]]:
    """The lines of all tables, checked.

    Raises:
        RecordError: a table is damaged; one line with the file and the number of the line.
    """
    together, allowed = folder / "tables.parquet", "allowed: as `relearn render` writes it"
    try:
        tables = csv_files(folder, "tables")
    except RecordError:
        raise
    except (LookupError, TypeError, ValueError) as error:
        raise RecordError(f"{together}: {type(error).__name__} {error}; {allowed}") from None
    for name, content in tables.items():
        where = f"{together}: {name}" if together.is_file() else folder / "tables" / name
        at = 1
        try:
            lines = csv.DictReader(io.StringIO(content.decode("utf-8"), newline=""))
            header = lines.fieldnames or ()
            for column in ("artefact", "row", "column", "mean"):
                if column not in header:
                    raise ValueError(f"the column {column} is missing")
            for line in lines:
                at = lines.line_num
                _check(line, len(header))
                yield line
        except (csv.Error, ValueError) as error:
            raise RecordError(f"{where}: line {at}: {error}; {allowed}") from None


def _check(line: Mapping[Any, Any], cells: int) -> None:
    there = [one for one in line.values() if isinstance(one, str)]
    if len(there) != cells or None in line:
        found = len(there) + len(line.get(None, ()))
        raise ValueError(f"found {found} cells, allowed: {cells}, as in the header")
    for name in ("mean", "pooled", "pooled_low", "pooled_high"):
        text, needed = line.get(name, ""), name == "mean" and "member" in line
        try:
            if text or needed:
                float(text)
        except ValueError:
            allowed = "a number" if needed else "a number or nothing"
            raise ValueError(f"{name} is {text!r:.60}, allowed: {allowed}") from None


def compare(before: Side, after: Side) -> list[Change]:
    """Every claim, and every cell measured on at least one side; sorted by kind, then by size relative to the noise."""
    found = [*of_claims(before, after), *_cells(before, after)]
    return sorted(found, key=lambda one: (KINDS.index(one.kind), -one.weight, one.artefact, one.name))


def of_claims(before: Side, after: Side) -> Iterator[Change]:
    """Every claim on at least one side."""
    for key in dict.fromkeys([*before.claims, *after.claims]):
        old, new = before.claims.get(key), after.claims.get(key)
        what = "check" if (new or old or {}).get("kind") == "check" else "claim"
        if old is None or new is None:
            kind = "appeared" if old is None else "vanished"
            yield Change(what, "/".join(key), kind, "", words=(_word(old), _word(new)))
            continue
        unit = str(new.get("unit") or old.get("unit") or "")
        numbers = (old.get("effect"), new.get("effect"))
        alike = None in numbers or old.get("unit") == new.get("unit")
        numbers = numbers if alike else (None, None)  # a ratio and a share have no difference
        difference = _of_claim(old, new) if alike else None
        kind = "no spread" if not alike else _kind(*numbers, difference)
        kind = "verdict" if _word(old) != _word(new) else kind
        yield Change(
            what,
            "/".join(key),
            kind,
            unit,
            *numbers,
            difference,
            words=(_word(old), _word(new)),
            n=(_count(old), _count(new)),
        )


def _of_claim(old: Line, new: Line) -> Interval | None:
    if old.get("method") == new.get("method") == "exact" and None not in (
        old.get("effect"),
        new.get("effect"),
    ):
        there = float(new["effect"]) - float(old["effect"])
        return Interval(there, there, there)  # cases are counted: no noise
    return _recovered(old, new)


def _word(claim: Line | None) -> str:
    if claim is None:
        return "no such claim"
    if claim.get("kind") == "check" and claim["verdict"] in CHECKED:
        return CHECKED[claim["verdict"]]
    return str(claim["verdict"]) + (" (provisional)" if claim.get("provisional") else "")


def _count(claim: Line) -> str:
    return ", ".join(f"{count} {what}" for what, count in claim.get("n", {}).items() if what != "trials")


def _cells(before: Side, after: Side) -> Iterator[Change]:
    for key in dict.fromkeys([*before.cells, *after.cells]):
        old, new = before.cells.get(key, {}), after.cells.get(key, {})
        numbers = (_number(old, "mean"), _number(new, "mean"))
        if numbers == (None, None):
            continue
        difference = None
        if None in numbers:
            kind = "appeared" if numbers[0] is None else "vanished"
        else:
            difference = _of_cell(old, new, before.members.get(key, {}), after.members.get(key, {}))
            kind = _kind(*numbers, difference)
        yield Change(
            key[0],
            f"{key[1]}, {key[2]}",
            kind,
            (new or old).get("unit", ""),
            *numbers,
            difference,
            words=(old.get("status", "no such cell"), new.get("status", "no such cell")),
            n=(old.get("members_count", ""), new.get("members_count", "")),
        )


def _number(line: Line, name: str) -> float | None:
    return float(line[name]) if line.get(name) else None


def _kind(before: float | None, after: float | None, difference: Interval | None) -> str:
    if before == after:
        return "identical"
    if before is None or after is None:
        return "appeared" if before is None else "vanished"
    if difference is None:
        return "no spread"
    return "within noise" if difference.low <= 0 <= difference.high else "beyond noise"


def _of_cell(old: Line, new: Line, was: Mapping[str, float], now: Mapping[str, float]) -> Interval | None:
    """The interval of a cell's difference; the wider one if both trials and members give one."""
    found = [one for one in (_over_members(was, now), _of_shares(old, new)) if one]
    return max(found, key=lambda one: one.high - one.low) if found else None


def _of_shares(old: Line, new: Line) -> Interval | None:
    sides = []
    for line in (old, new):
        estimate, low, high = (_number(line, name) for name in ("pooled", "pooled_low", "pooled_high"))
        if estimate is None or low is None or high is None:
            return None
        sides.append({"effect": estimate, "low": low, "high": high})
    return _recovered(*sides)


def _over_members(was: Mapping[str, float], now: Mapping[str, float]) -> Interval | None:
    if set(was) == set(now) and len(was) > 1:
        return _finite(student_mean([now[name] - was[name] for name in was]))
    if min(len(was), len(now)) < 2:
        return None
    return _welch([*was.values()], [*now.values()])


def _welch(was: list[float], now: list[float]) -> Interval | None:
    """Welch's interval for a difference of two means over different members, with Welch-Satterthwaite degrees of freedom."""
    from scipy import stats

    sides = [(sum(one) / len(one), variance(one) / len(one), len(one)) for one in (was, now)]
    total = sum(error for _, error, _ in sides)
    centre = sides[1][0] - sides[0][0]
    if total == 0:
        return Interval(centre, centre, centre)
    freedom = 1 / sum(
        (error / total) ** 2 / (n - 1) for _, error, n in sides
    )  # shares, so no square underflows
    half = float(stats.t.ppf(0.975, freedom)) * math.sqrt(total)
    return Interval(centre, centre - half, centre + half)


def _recovered(old: Line, new: Line) -> Interval | None:
    """The interval of new minus old from the interval of each; None if an effect or an end is missing."""
    numbers = [line.get(name) for line in (old, new) for name in ("effect", "low", "high")]
    if any(one is None for one in numbers):
        return None
    a, a_low, a_high, b, b_low, b_high = map(float, numbers)  # type: ignore[arg-type]
    low, high = math.hypot(b - b_low, a_high - a), math.hypot(b_high - b, a - a_low)
    return Interval(b - a, b - a - low, b - a + high)


def _finite(found: Interval) -> Interval | None:
    return found if math.isfinite(found.low) and math.isfinite(found.high) else None
