"""Measurement and reporting shared by all benchmarks: interleaved pairs, medians, spread, CPU time.

CPU time (all threads of the process) is used because wall time is distorted on a shared machine. Pairs are
interleaved, and every second pair runs in the opposite order, so that drift of the machine affects both
sides equally.
"""

from __future__ import annotations

import datetime
import json
import platform
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from relearn.forecast.calibrate import processor

RESULTS = Path(__file__).with_name("results.json")  # by the name of the benchmark


def compare(
    ours: Callable[[], Any],
    reference: Callable[[], Any],
    pairs: int = 7,
    *,
    clock: Callable[[], float] = time.process_time,
    warm_up: int = 1,
) -> dict[str, float]:
    """Compare the times of two calls.

    Args:
        ours, reference: called without arguments; return values are discarded.
        pairs: at least 7 measured pairs, after `warm_up` unmeasured pairs.
        clock: returns seconds; by default the process's CPU time. For an accelerator, pass a wall clock that
            synchronises.

    Returns:
        ratio (median over the pairs of ours/reference), ratio_low and ratio_high (the extremes over the
        pairs), ours_s and reference_s (medians, seconds).

    Raises:
        ValueError: fewer than 7 pairs.
    """
    if pairs < 7:
        raise ValueError(f"pairs is {pairs}; at least 7 are needed for a meaningful median")
    for _ in range(warm_up):
        ours()
        reference()
    times: list[tuple[float, float]] = []
    for pair in range(pairs):
        if pair % 2:
            second, first = _time(reference, clock), _time(ours, clock)
        else:
            first, second = _time(ours, clock), _time(reference, clock)
        times.append((first, second))
    ratios = [first / second for first, second in times]
    return {
        "ratio": statistics.median(ratios),
        "ratio_low": min(ratios),
        "ratio_high": max(ratios),
        "ours_s": statistics.median(first for first, _ in times),
        "reference_s": statistics.median(second for _, second in times),
    }


def report(
    name: str, rows: Sequence[Mapping[str, Any]], *, part_by: Sequence[str] = (), **facts: Any
) -> None:
    """Print the rows as a table and keep them in results.json, under this name, with machine and date.

    With ``part_by``, columns that identify a row, the rows are a part of the benchmark: they take the place of
    the kept rows with the same values there, each with its own date and processor, and the other kept rows remain.
    """
    columns = list(dict.fromkeys(column for row in rows for column in row))
    cells = [[_text(row.get(column)) for column in columns] for row in rows]
    widths = [max(len(c), *(len(line[i]) for line in cells)) for i, c in enumerate(columns)]
    for line in [columns, ["-" * width for width in widths], *cells]:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip())
    date = datetime.datetime.now(datetime.UTC).date().isoformat()
    if part_by:
        document = _kept()[name] | facts
        made = {"date": date, "cpu": processor()}
        new = {tuple(row.get(key) for key in part_by): dict(row) | made for row in rows}
        old = {tuple(row.get(key) for key in part_by): row for row in document["rows"]}
        keep(name, document | {"rows": list((old | new).values())})
        return
    document = {
        "date": date,
        "machine": {"cpu": processor(), "python": platform.python_version(), **_torch_facts()},
        **facts,
        "rows": [dict(row) for row in rows],
    }
    keep(name, document)


def keep(name: str, document: Mapping[str, Any]) -> None:
    """Write a benchmark's result into results.json in place of its last one; one line a fact, and one a row; six digits."""
    kept = _rounded(dict(sorted((_kept() | {name: document}).items())))
    RESULTS.write_text(_pretty(kept) + "\n", encoding="utf-8")


def _rounded(value: Any) -> Any:
    """The same with floats of six significant digits, more than a timing repeats."""
    if isinstance(value, dict):
        return {key: _rounded(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(one) for one in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def _kept() -> dict[str, Any]:
    """The results of earlier runs, by the name of the benchmark."""
    return json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.is_file() else {}


def _pretty(value: Any, depth: int = 0) -> str:
    """JSON in which only documents and lists of rows take several lines."""
    named = isinstance(value, dict)
    opened, closed = ("{", "}") if named else ("[", "]")
    items = list(value.items() if named else enumerate(value if isinstance(value, list) else []))
    if depth > 2 or not any(isinstance(one, dict | list) for _, one in items):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    lines = [(f"{json.dumps(key)}: " if named else "") + _pretty(one, depth + 1) for key, one in items]
    pad = " " * (depth + 1)
    return f"{opened}\n" + ",\n".join(pad + line for line in lines) + f"\n{pad[1:]}{closed}"


def _time(call: Callable[[], Any], clock: Callable[[], float]) -> float:
    start = clock()
    call()
    return clock() - start


def _torch_facts() -> dict[str, Any]:
    import torch

    return {"torch": torch.__version__, "threads": torch.get_num_threads()}


def _text(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else "" if value is None else str(value)
