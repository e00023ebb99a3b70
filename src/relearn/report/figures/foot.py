"""The line below every figure: number of seeds or trials, meaning of bars and bands, published values."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from relearn.report import published
from relearn.report.artefacts import Artefact
from relearn.report.figures.style import MUTED, SMALL, short
from relearn.report.quantities import Evidence
from relearn.report.runs import Run

LETTERS = 15.0  # characters of the smallest font size per inch
COUNTED = {"seeds": ("seed", "seeds"), "trials": ("trial each", "trials each"), "runs_count": ("run", "runs")}
NAMING = ("network", "victim", "architecture", "variant")  # labels that name a network
SUITE = "suite"
SHARES = ("width", "depth")  # settings given as a fraction of the published network's
CHANNELS = ("embed_dim", "channels")  # settings that give them, those of stages in a list
BLOCKS = ("depths", "layers", "depth")  # settings that count blocks, those of stages in a list
MOST = 4  # sizes that are listed


def words(
    artefact: Artefact,
    points: Sequence[Mapping[str, Any]],
    bars: str,
    sizes: str = "",
    missing: Sequence[str] = (),
    note: str = "",
) -> str:
    """The text of the line.

    Args:
        bars: what bars, bands or whiskers show (``BARS`` of the renderer), "" if there are none.
        sizes: how much smaller the networks are than their names suggest, "" if they are not.
        missing: titles of the rows and panels that were not run; a figure without points says so by itself.
        note: what else a reader of the picture must know (``NOTE`` of the renderer).
    """
    parts = [_count(points, name) for name in COUNTED] if any(map(_counts, points)) else [_seeds(points)]
    if bars and any(_has_width(point) for point in points):
        parts.append(bars)
    parts.append(note if points else "")
    parts.append(_chance(points))
    parts.append(sizes)
    if points and missing:
        parts.append(f"not run here: {' · '.join(missing)}")
    if points and not artefact.addition:
        parts.append(_published(artefact, points))
    return "; ".join(filter(None, parts))


def write(figure: Any, text: str) -> None:
    """Put the line at the lower left edge, wrapped to the width of the figure."""
    if text:
        lines = textwrap.fill(text, int(figure.get_figwidth() * LETTERS), break_on_hyphens=False)
        figure.supxlabel(lines, x=0.01, ha="left", fontsize=SMALL, color=MUTED)


def from_paper(point: Mapping[str, Any]) -> bool:
    """Whether a point shows a published value."""
    return bool({point.get("source"), point.get("series")} & {"paper", "published code"})


def _counts(point: Mapping[str, Any]) -> bool:
    return any(point.get(name) for name in COUNTED)


def _seeds(points: Sequence[Mapping[str, Any]]) -> str:
    """Number of seeds among points of single runs."""
    seeds = {point["seed"] for point in points if point.get("seed") is not None}
    return f"{len(seeds)} {COUNTED['seeds'][len(seeds) > 1]}" if seeds else ""


def _count(points: Sequence[Mapping[str, Any]], name: str) -> str:
    counts = {
        int(point[name])
        for point in points
        if point.get(name) and point.get("source", "measured") == "measured"
    }
    if not counts:
        return ""
    low, high = min(counts), max(counts)
    one, several = COUNTED[name]
    return f"{low} {one if low == 1 else several}" if low == high else f"{low} to {high} {several}"


def _chance(points: Sequence[Mapping[str, Any]]) -> str:
    levels = sorted({point["chance"] for point in points if point.get("chance") is not None})
    return f"chance: {' and '.join(f'{100 * level:.3g}%' for level in levels)}" if levels else ""


def _has_width(point: Mapping[str, Any]) -> bool:
    lows = [name for name in point if name.endswith("low")]
    for low in lows:
        ends = [point[low], point.get(f"{low[:-3]}high", point.get("error"))]
        if None not in ends and ends[0] != ends[1]:
            return True
    return bool(point.get("std"))


def _published(artefact: Artefact, points: Sequence[Mapping[str, Any]]) -> str:
    """The published statements, or a note that the figure shows no published numbers; most figures in the papers are pictures only."""
    if statements := [_statement(artefact, line) for line in artefact.stated if "says" in line]:
        return "; ".join(statements)
    return "" if any(map(from_paper, points)) or artefact.stated else "no published numbers to compare with"


def _statement(artefact: Artefact, line: Mapping[str, Any]) -> str:
    """``says`` of a stated line with the published values filled in.

    Raises:
        ValueError: a value is missing from the published file.
    """
    numbers = []
    for row in line.get("rows", ()):
        known = artefact.published["paper"].values()
        value = published.find(known, row=row, metric=line["metric"], column=line.get("column"))
        if value is None or value.value is None:
            raise ValueError(f"{artefact.id}: stated: found no published {line['metric']} of {row}")
        numbers.append(short(value.value))
    return f"the paper: {line['says'].format(*numbers)}"


def sizes(points: Sequence[Mapping[str, Any]], evidence: Evidence) -> str:
    """``networks at 0.125 of the width of the named networks``; "" if they have full size or if no run gives their size."""
    folders = {folder for point in points for folder in str(point.get("runs") or "").split()}
    drawn = [run for run in evidence.runs if run.folder in folders]
    named = {(name, run.labels.get(SUITE, "")) for run in drawn for name in _names(run)}
    made = [
        run
        for run in evidence.runs
        if any((name, suite) in named for name in _names(run) for suite in _suites(run, drawn))
    ]
    return size_of(made, evidence)


def size_of(runs: Sequence[Run], evidence: Evidence, full: str = "") -> str:
    """The same of the networks that these runs made; ``full`` if they are known to have full size."""
    given = [(run, run.settings.get("network")) for run in runs]
    counted = [(run, one) for run, one in given if isinstance(one, Mapping) and _channels(one)]
    scaled = [
        one if isinstance(one, Mapping) else run.settings for run, one in given if (run, one) not in counted
    ]
    known = {share: _values(scaled, share) for share in SHARES}
    shares = [f"{_range(found)} of the {share}" for share, found in known.items() if found and found[0] < 1]
    statements = [f"networks at {' and '.join(shares)} of the named networks"] if shares else []
    compared = [(one, evidence.published_networks(run)) for run, one in counted]
    if smaller := _smaller(compared):
        statements.append(smaller)
    sure = any(known.values()) or (compared and all(whole for _, whole in compared))
    return "; ".join(statements) or (full if sure else "")


def _smaller(networks: Sequence[tuple[Mapping[str, Any], Sequence[Mapping[str, Any]]]]) -> str:
    """``narrower and shallower versions of the named networks: 16 of 64 channels in the first stage, 5 of 13 blocks``.

    Args:
        networks: the settings of each, and those of its published version, none if they are not known.
    """
    first: dict[str, set[tuple[int, int]]] = {}  # by where the channels are
    blocks = set()
    for one, published_ones in networks:
        channels, width = _channels(one), _agreed(_channels, published_ones)
        count, depth = _blocks(one), _agreed(_blocks, published_ones)
        if not width or channels < width:
            stages = any(isinstance(one.get(name), list | tuple) for name in BLOCKS)
            first.setdefault(" in the first stage" if stages else "", set()).add((channels, width))
        if count < depth:
            blocks.add((count, depth))
    counts = [f"{_listed(found)} channels{where}" for where, found in sorted(first.items(), reverse=True)]
    counts += [f"{_listed(blocks)} blocks"] if blocks else []
    how = " and ".join(word for word, there in (("narrower", first), ("shallower", blocks)) if there)
    return f"{how} versions of the named networks: {', '.join(counts)}" if how else ""


def _agreed(count: Callable[[Mapping[str, Any]], int], networks: Sequence[Mapping[str, Any]]) -> int:
    """The count of all these networks; 0 if they differ, or if there are none."""
    found = {count(one) for one in networks}
    return found.pop() if len(found) == 1 else 0


def _listed(counts: set[tuple[int, int]]) -> str:
    """``4 of 12 and 5 of 13``; of many the first and the last."""
    shown = [f"{count} of {whole}" if whole else f"{count}" for count, whole in sorted(counts)]
    if len(shown) > MOST:
        return f"{shown[0]} to {shown[-1]}"
    return " and ".join(filter(None, (", ".join(shown[:-1]), shown[-1])))


def _channels(network: Mapping[str, Any]) -> int:
    """Channels of the first stage, or of all blocks; 0 of a network whose size is given in shares."""
    found = next((network[name] for name in CHANNELS if name in network), 0)
    return int(found[0] if isinstance(found, list | tuple) else found)


def _blocks(network: Mapping[str, Any]) -> int:
    found = next((network[name] for name in BLOCKS if name in network), 0)
    return int(sum(found) if isinstance(found, list | tuple) else found)


def _values(made: Sequence[Mapping[str, Any]], name: str) -> list[float]:
    return sorted({float(one[name]) for one in made if isinstance(one.get(name), int | float)})


def _range(values: list[float]) -> str:
    return " to ".join(f"{value:g}" for value in dict.fromkeys((values[0], values[-1])))


def _names(run: Run) -> set[str]:
    return {run.labels[label] for label in NAMING if label in run.labels}


def _suites(run: Run, drawn: Sequence[Run]) -> set[str]:
    """Suites that a network of this run may stand for: its own, or all if it has none; networks of one name can differ in size by suite."""
    own = run.labels.get(SUITE)
    return {own, ""} if own else {"", *(one.labels.get(SUITE, "") for one in drawn)}
