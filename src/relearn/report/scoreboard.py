"""The scoreboard: every claim at every scale, read from the ``claims.json`` written by `relearn render`.

Rows are the claims in the studies' ``claims.yaml``, so a claim without any run has a row, too. If a claim was renamed
after a scale was judged, it is found there by its former name (key ``formerly``).

A scale is published study by study. Until a study has new runs, its claims are taken from the earlier set
``published/<scale>_<version>``, and the scoreboard gives that version.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from relearn.report import claims_file
from relearn.report import verdict_words as words
from relearn.report.claims_formats import CHECKED, cases_hold, pairs
from relearn.report.table_formats import pipes
from relearn.report.views import words as page_words
from relearn.report.views.names import plural

SCALES = tuple(page_words.SCALES)
FIELDS = (
    *("study", "claim", "kind", "says", "source", "scale", "verdict", "provisional"),
    *("effect", "low", "high", "unit", "n", "cpu_h", "shown", "version", "rule_changed"),
)
READING = "Each cell: verdict; effect with its 95% interval, the claimed range and what is compared; n; CPU hours of its runs."

EARLIER = "Verdicts of an earlier version are not in the picture, and claims.md of their scale counts them as not run."


@dataclass(frozen=True)
class Cell:
    """One claim at one scale.

    Args:
        verdict: as in claims.json.
        effect: estimate; ``low`` and ``high`` are the ends of its 95% interval, None if there are none.
        shown: the effect with its interval, as text.
        n: targets, victims, seeds or cases, as text.
        cpu_h: CPU hours of the deciding runs and of the runs that they read; None if not recorded.
        version: version of this software that judged the claim, if it was an earlier one; otherwise empty.
        rule_changed: whether the design says that the rule was changed after runs had been seen.
        claimed: range in which the effect lies if the paper is right, with its unit; "" of cases, and in files of earlier versions.
        comparison: what the effect compares.
    """

    verdict: str
    provisional: bool
    effect: float | None
    low: float | None
    high: float | None
    unit: str
    shown: str
    n: str
    cpu_h: float | None
    version: str = ""
    rule_changed: bool = False
    claimed: str = ""
    comparison: str = ""


@dataclass(frozen=True)
class Row:
    """One claim with its cell at each judged scale."""

    study: str
    claim: str
    kind: str
    says: str
    source: str
    cells: Mapping[str, Cell]
    corrected: str = ""

    def word(self, scale: str) -> str:
        """The verdict as text; for a check of a theorem, whether it holds or fails."""
        cell = self.cells.get(scale)
        if cell is None:
            return "not judged"
        if self.kind == "check" and cell.verdict in CHECKED:
            return f"check: {CHECKED[cell.verdict]}"
        label = words.label(cell.verdict, cell.provisional, self.corrected)
        return label + f" (version {cell.version})" * bool(cell.version)


def files(results: Path) -> dict[str, Path]:
    """The current claims.json of each scale: the published one, or that of ``results/<scale>`` if it is newer."""
    found = {}
    for scale in SCALES:
        both = (results / "published" / scale / "claims.json", results / scale / "claims.json")
        there = [path for path in both if path.is_file()]
        if there:
            found[scale] = max(there, key=lambda path: path.stat().st_mtime_ns)
    return found


def rows(
    claims: Mapping[str, Mapping[str, Mapping[str, str]]],
    judged: Mapping[str, Mapping[str, Any]],
    earlier: Mapping[str, tuple[str, Mapping[str, Any]]] | None = None,
) -> list[Row]:
    """One row per claim, in the order of the studies.

    Args:
        claims: as from :func:`relearn.report.claims.load`: study, claim, then its texts.
        judged: by scale, the content of its claims.json.
        earlier: by scale, the version of an earlier set and the content of its claims.json.
    """
    earlier = earlier or {}
    by_name = {scale: _by_name(content) for scale, content in judged.items()}
    before = {scale: (version, _by_name(content)) for scale, (version, content) in earlier.items()}
    made = []
    for study, entries in claims.items():
        for name, entry in entries.items():
            known = [name, *([entry["formerly"]] if "formerly" in entry else [])]
            cells = {}
            for scale in (scale for scale in SCALES if scale in by_name or scale in before):
                one, version = _entry(by_name.get(scale, {}), study, known), ""
                if (one is None or one["verdict"] == "not_run") and scale in before:
                    version, found = before[scale]
                    one, version = (old, version) if (old := _entry(found, study, known)) else (one, "")
                if one is not None:
                    cells[scale] = _cell(one, version)
            facts = (entry["kind"], entry["says"], entry["source"])
            made.append(Row(study, name, *facts, cells, entry.get("corrected", "")))
    return made


def load(results: Path, claims: Mapping[str, Mapping[str, Mapping[str, str]]]) -> list[Row]:
    """The rows from the files in ``results``.

    Raises:
        RecordError: a claims.json is damaged.
    """
    judged = {
        scale: claims_file.read(path, f"render it again: relearn render --scale {scale}")
        for scale, path in files(results).items()
    }
    return rows(claims, judged, earlier(results / "published"))


def earlier(published: Path) -> dict[str, tuple[str, Any]]:
    """By scale, the version of the latest earlier set and the content of its claims.json.

    Raises:
        RecordError: a claims.json is damaged.
    """
    sets = {}
    for scale in SCALES:
        found = {
            path.parent.name.partition("_")[2]: path for path in published.glob(f"{scale}_*/claims.json")
        }
        if found:
            latest = max(found, key=_numbers)
            sets[scale] = (latest, claims_file.read(found[latest]))
    return sets


def _numbers(version: str) -> tuple[list[int], str]:
    """The numbers of a version, which order 0.10 behind 0.9; of equal numbers the text decides."""
    return [int(number) for number in re.findall(r"\d+", version)], version


Names = Mapping[tuple[str, str], Mapping[str, Any]]


def _by_name(content: Mapping[str, Any]) -> Names:
    return {(one["section"], one["id"]): one for one in content["claims"]}


def _entry(found: Names, study: str, names: Sequence[str]) -> Mapping[str, Any] | None:
    return next((found[study, name] for name in names if (study, name) in found), None)


def _cell(one: Mapping[str, Any], version: str) -> Cell:
    cost = one.get("cost") or {}
    counted = (one.get("n") or {}).get("cases") is not None
    return Cell(
        verdict=one["verdict"],
        provisional=bool(one.get("provisional")),
        effect=one.get("effect"),
        low=one.get("low"),
        high=one.get("high"),
        unit=one.get("unit", ""),
        shown=_effect_text(one),
        n=_count(one.get("n") or {}),
        cpu_h=cost["cpu_s"] / 3600 if cost.get("cpu_s") is not None else None,
        version=version,
        rule_changed=bool((one.get("design") or {}).get("changed")),
        claimed="" if counted else one.get("claimed_side", ""),
        comparison="" if counted else one.get("comparison", ""),
    )


def _effect_text(one: Mapping[str, Any]) -> str:
    effect, cases = one.get("effect"), (one.get("n") or {}).get("cases")
    if effect is None:
        return ""
    if cases is not None:
        return cases_hold(round(cases * (1 - effect)), cases)
    if "shown" in one:
        return str(one["shown"])
    # files of earlier versions hold only the numbers
    share = one.get("unit") == "fraction"
    unit = one.get("unit", "") if not share else ("points" if "difference" in one.get("method", "") else "%")
    estimate, low, high = (
        "none" if end is None else f"{end * (100 if share else 1):.3g}"
        for end in (effect, one.get("low"), one.get("high"))
    )
    return f"{estimate} [{low}, {high}] {unit}".rstrip()


def _count(count: Mapping[str, int]) -> str:
    if "targets" in count:
        return pairs(count)
    for unit in ("seed", "case"):
        if (n := count.get(f"{unit}s")) is not None:
            return plural(n, unit)
    return ""


def table(board: Sequence[Row]) -> list[list[Any]]:
    """One line per claim and judged scale, for the CSV file; FIELDS names the columns."""
    lines = []
    for row in board:
        for scale, cell in row.cells.items():
            hours = None if cell.cpu_h is None else round(cell.cpu_h, 4)
            named = (row.study, row.claim, row.kind, row.says, row.source, scale)
            judged = (cell.verdict, int(cell.provisional), cell.effect, cell.low, cell.high, cell.unit)
            lines.append([*named, *judged, cell.n, hours, cell.shown, cell.version, int(cell.rule_changed)])
    return lines


def scales_of(board: Iterable[Row]) -> list[str]:
    """The scales at which at least one claim was judged, from small to large."""
    there = {scale for row in board for scale in row.cells}
    return [scale for scale in SCALES if scale in there]


def counts(board: Sequence[Row], scale: str) -> dict[str, int]:
    """Number of claims with each verdict at a scale, strongest verdict first; checks of theorems are not counted."""
    verdicts = [row.cells[scale].verdict for row in board if row.kind != "check" and scale in row.cells]
    return {word: verdicts.count(word) for word in words.MEANINGS if word in verdicts}


def markdown(board: Sequence[Row]) -> str:
    """The whole scoreboard: one table per study with a column for each judged scale, then the meanings of the verdicts."""
    lines = ["# Scoreboard", "", *_summary(board), ""]
    lines += [READING, ""]
    for study in dict.fromkeys(row.study for row in board):
        lines += [f"## {study}", "", of_study(board, study)]
    provisional = any(cell.provisional for row in board for cell in row.cells.values())
    verdicts = {cell.verdict for row in board for cell in row.cells.values()}
    return "\n".join([*lines, words.markdown(verdicts, provisional), ""])


def of_study(board: Sequence[Row], study: str) -> str:
    """The table of one study: a line per claim, a column for each scale at which any claim of the board was judged.

    Raises:
        ValueError: no claim of the board is of this study.
    """
    own, there = [row for row in board if row.study == study], scales_of(board)
    if not own:
        allowed = ", ".join(dict.fromkeys(row.study for row in board))
        raise ValueError(f"found a table of {study!r}, allowed: of {allowed}")
    lines = [pipes("claim", "says", *there), pipes(*["---"] * (2 + len(there)))]
    lines += [pipes(f"`{row.claim}`", row.says, *(_cell_text(row, scale) for scale in there)) for row in own]
    return "\n".join(lines) + "\n"


def short(board: Sequence[Row]) -> str:
    """The short form for the README: the claims by verdict at each scale, with the meanings of the verdicts."""
    there = scales_of(board)
    verdicts = {word for scale in there for word in counts(board, scale)}
    heads = " | ".join(named(board, scale) for scale in there)
    lines = [f"| verdict | {heads} | meaning |", "|---|" + "---:|" * len(there) + "---|"]
    for word, meaning in words.explanations(verdicts):
        numbers = [str(counts(board, scale).get(word.replace(" ", "_"), 0)) for scale in there]
        lines.append(f"| {word} | {' | '.join(numbers)} | {meaning} |")
    old = any(named(board, scale) != scale for scale in there)
    return "\n".join([*lines, "", _of_which(board, there), *[EARLIER] * old]) + "\n"


def _of_which(board: Sequence[Row], there: Sequence[str]) -> str:
    """How many of the reproduced claims are exact, and of these corrected, and how many verdicts are provisional, at each scale."""
    exact, corrected, provisional = [], [], []
    for scale in there:
        cells = [(row, row.cells[scale]) for row in board if row.kind != "check" and scale in row.cells]
        sure = [row for row, cell in cells if row.kind == "exact" and cell.verdict == "reproduced"]
        exact.append(f"{len(sure)} ({scale})")
        corrected.append(str(sum(bool(row.corrected) for row in sure)))
        provisional.append(str(sum(cell.provisional for _, cell in cells)))
    sentence = (
        "Of the reproduced, exact: {}, and of these as errata correct them: {}. Provisional, of all: {}."
    )
    return sentence.format(*(", ".join(numbers) for numbers in (exact, corrected, provisional)))


def named(board: Sequence[Row], scale: str) -> str:
    """The scale, and how many of its verdicts come from an earlier version."""
    old = [row.cells[scale] for row in board if row.kind != "check" and scale in row.cells]
    old = [cell for cell in old if cell.version and cell.verdict != "not_run"]
    versions = ", ".join(sorted({cell.version for cell in old}))
    verdicts = plural(len(old), "verdict")
    return f"{scale} ({verdicts} from version {versions})" if old else scale


def _summary(board: Sequence[Row]) -> list[str]:
    """One line per scale: the claims by verdict."""
    lines = []
    for scale in SCALES:
        found = counts(board, scale)
        summary = ", ".join(f"{count} {words.label(word)}" for word, count in found.items())
        lines.append(
            f"- {named(board, scale)}: {f'{sum(found.values())} claims: {summary}' if found else 'not run'}"
        )
    return lines


def _cell_text(row: Row, scale: str) -> str:
    cell = row.cells.get(scale)
    if cell is None or cell.verdict == "not_run":
        return "not run"
    cost = f"{cell.cpu_h:.2g} CPU h" if cell.cpu_h else ""
    counted = cell.shown and cell.n.endswith(("case", "cases"))  # the effect already says of how many
    n = "" if counted else cell.n
    effect = ", ".join(filter(None, (cell.shown, _claimed(row, cell))))
    rule = "rule changed after runs" * cell.rule_changed
    return "; ".join(part for part in (row.word(scale), effect, n, cost, rule) if part)


def _claimed(row: Row, cell: Cell) -> str:
    """``claimed > 0 (A - B)``; with its unit, which the effect has already, only where the scales of a row differ in theirs."""
    if not cell.claimed:
        return ""
    units = {one.unit for one in row.cells.values() if one.claimed}
    unit = re.search(r"(?<=[\d\]]) [^\d\]]+$", cell.claimed)
    side = cell.claimed.removesuffix(unit[0]) if unit and len(units) == 1 else cell.claimed
    return f"claimed {side}" + f" ({cell.comparison})" * bool(cell.comparison)
