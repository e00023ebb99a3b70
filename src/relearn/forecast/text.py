"""Formats a forecast as text and as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from relearn.forecast import data_sets
from relearn.forecast.machine import Machine
from relearn.forecast.state import DONE, STALE, TO_DO
from relearn.forecast.summary import Part
from relearn.studies.work import work_of

COLUMNS = ("", "to do", "stale", "done", "hours", "range", "wall", "chain", "memory", "disk", "measured")


def page(whole: Part, scale: str, on: Machine) -> str:
    """The printed table with its totals, then the longest chain, reasons and data sets."""
    unit = "GPU" if on.gpus else "CPU"
    places = f"{on.gpus} GPU, {on.at_once} jobs at once" if on.gpus else f"{on.cores} cores"
    lines = [
        f"scale {scale} on {on.name}, {places}, {on.precision} ({on.source})",
        "",
    ]
    head = [*COLUMNS[:4], f"{unit} time", *COLUMNS[5:]]
    rows = [row for part in whole.parts for row in [cells(part), *(cells(one, "  ") for one in part.parts)]]
    lines += align([head, *rows, cells(whole)])
    chain = whole.schedule.chain
    if chain:
        names = " > ".join(f"{job.study}/{job.step}" for job in chain)
        lines += ["", f"longest chain: {duration(whole.schedule.chain_s)}: {names}"]
    for why, count in whole.reasons.most_common(8):
        lines.append(f"{count} because: {why}")
    lines += ["", *data_lines(whole)]
    uncounted = sum(one.amount is None and work_of(one.job) is not None for one in whole.waiting)
    if uncounted:
        lines.append(
            f"{uncounted} jobs have networks that are not counted: "
            f"`relearn plan --calibrate --scale {scale}` counts them"
        )
    if whole.unknown:
        lines.append(f"{whole.unknown} jobs of unknown cost are in no sum")
    return "\n".join(line.rstrip() for line in lines) + "\n"


def data_lines(whole: Part) -> list[str]:
    """A table of the external data sets that the jobs to do read."""
    sets = data_sets.needed(one.job for one in whole.waiting)
    if not sets:
        return ["data sets: none from outside"]
    head = ("data set", "status", "size", "from", "to", "licence")
    rows = [(one.title, one.status, one.size, one.source, one.put, one.licence) for one in sets]
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in (head, *rows)
    ]


def cells(part: Part, indent: str = "") -> list[str]:
    """One row of the table."""
    middle, low, high = part.seconds
    plan = part.schedule
    waiting = bool(part.waiting)
    return [
        f"{indent}{part.name}",
        *(str(part.count(what) or "") for what in (TO_DO, STALE, DONE)),
        duration(middle) if waiting else "",
        f"{duration(low)} - {duration(high)}" if waiting else "",
        duration(plan.wall_s) if waiting else "",
        duration(plan.chain_s) if waiting else "",
        size(part.memory_mb) if waiting else "",
        size(part.disk_mb) if waiting else "",
        f"{part.measured_share:.0%}" if waiting else "",
    ]


def align(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows as aligned text: names left, numbers right, two blanks between columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if at else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]


def duration(seconds: float) -> str:
    """A duration with two or three digits and its unit."""
    for limit, each, unit in (
        (100, 1, "s"),
        (6000, 60, "min"),
        (360_000, 3600, "h"),
        (float("inf"), 86400, "days"),
    ):
        if seconds < limit:
            return f"{seconds / each:.2g} {unit}" if seconds / each < 10 else f"{seconds / each:.0f} {unit}"
    raise AssertionError


def size(megabytes: float) -> str:
    """A size in MB (10^6 bytes) or GB (10^9 bytes)."""
    return f"{megabytes / 1000:.1f} GB" if megabytes >= 1000 else f"{megabytes:.0f} MB"


def to_dict(whole: Part, scale: str, on: Machine) -> dict[str, Any]:
    """The forecast as plain data: seconds, MB, counts."""
    found = numbers(whole)
    found["studies"] = {
        part.name: {**numbers(part), "steps": {one.name: numbers(one) for one in part.parts}}
        for part in whole.parts
    }
    found["data_sets"] = [one._asdict() for one in data_sets.needed(one.job for one in whole.waiting)]
    machine = {"name": on.name, "cores": on.cores, "gpus": on.gpus, "source": on.source}
    return {"scale": scale, "machine": machine, **found}


def with_range(seconds: float, part: Part) -> dict[str, float]:
    """A duration with the relative range of the part's seconds."""
    middle, low, high = part.seconds
    ends = {"low": low / middle, "high": high / middle} if middle else {"low": 1.0, "high": 1.0}
    return {"forecast": round(seconds, 2), **{name: round(seconds * end, 2) for name, end in ends.items()}}


def numbers(part: Part) -> dict[str, Any]:
    middle, low, high = part.seconds
    plan = part.schedule
    return {
        "jobs": {"to_do": part.count(TO_DO), "stale": part.count(STALE), "done": part.count(DONE)},
        "reasons": dict(part.reasons),
        "seconds": {"forecast": round(middle, 2), "low": round(low, 2), "high": round(high, 2)},
        "wall_s": with_range(plan.wall_s, part),
        "chain_s": with_range(plan.chain_s, part),
        "chain": [job.folder for job in plan.chain],
        "memory_mb": round(part.memory_mb),
        "disk_mb": round(part.disk_mb, 2),
        "measured_share": round(part.measured_share, 3),
        "unknown_jobs": part.unknown,
    }
