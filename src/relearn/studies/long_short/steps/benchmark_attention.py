"""benchmark_attention: measure time and memory of attention against length, or its latency on tasks.

Protocol ``curve`` measures long-short and full attention; ``latency`` measures attentions of
relearn.layers.efficient at each task's length.

Settings, protocol ``curve`` (zhu2022, figure 5.5): the character model's layers, dim, heads, ffn, window, segment, rank,
vocabulary; attentions (full and long_short with a cache as long as the input, long_short_window_cache with a cache of one window,
long_short_no_cache), lengths and batches (batch sizes), measured in every combination; longest ({attention: its greatest measured
length}; other attentions are measured at all lengths); repeats, memory (whether peak memory is measured).
Settings, protocol ``latency`` (table 5.6): the encoder's layers, dim, heads, ffn, vocabulary, classes; tasks, {name: {length, batch_size,
pairs, arguments: {attention: arguments for this task}}}; attentions, from relearn.layers.efficient.KINDS; arguments ({attention:
arguments for all tasks}); repeats.
No input: tokens are random.
Output: cost.csv (attention, length, batch, step_s, peak_memory_mb, repeats) or latency.csv (task, attention, length, batch,
forward_s, train_s).

A step of the curve is forward, loss and backward; ``forward_s`` is a forward pass in eval mode, ``train_s`` forward, loss and backward.
There is no dropout and no optimiser, because the paper's caption says "forward-backprop". Times are medians over ``repeats`` rounds. A
round runs every combination once, and every second round runs in reverse order, so that a drift of the machine affects all alike. On a
CPU, times are CPU time of this process (wall time is unreliable on a shared machine); on a GPU, synchronised wall time. Memory is the
allocator's peak on a GPU; on a CPU it is the growth of a separate process's resident memory due to network and step. A combination
that does not fit into GPU memory has empty cells.

Metrics, ``curve``: {attention}_time_slope, {attention}_memory_slope: log-log slopes by least squares over the longer half of an
attention's lengths, at the first of ``batches``; {attention}_longest_step_s and {attention}_longest_count.
``latency``: {task}_{attention}_forward_s and {task}_{attention}_train_s.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from relearn.steps.trained.step_time import clock_of, timed
from relearn.studies.long_short.steps.cost_cases import (
    CURVES,
    CurveCase,
    CurveSettings,
    CurveSizes,
    LatencyCase,
    LatencySettings,
    LatencySizes,
    sizes_of,
)

NEEDS_TORCH = True
CURVE = ("attention", "length", "batch", "step_s", "peak_memory_mb", "repeats")
LATENCY = ("task", "attention", "length", "batch", "forward_s", "train_s")
Call = Callable[[], None]
Settings = CurveSettings | LatencySettings


def run(run, settings: Settings, inputs: dict[str, list[Path]], device: str, precision: str) -> None:
    from relearn.steps.csv_rows import write_rows

    if settings.repeats < 1:
        raise ValueError(f"repeats: {settings.repeats} (allowed: at least 1)")
    common = {"device": device, "precision": precision}
    if isinstance(settings, CurveSettings):
        rows = curve(settings, common)
        write_rows(run.output("cost.csv"), CURVE, rows)
        metrics = slopes(rows, settings.batches[0])
    else:
        rows = latency(settings, common)
        write_rows(run.output("latency.csv"), LATENCY, rows)
        metrics = {
            f"{row['task']}_{row['attention']}_{mode}_s": row[f"{mode}_s"]
            for row in rows
            for mode in ("forward", "train")
        }
    run.finish(
        {key: value for key, value in metrics.items() if value is not None},
        notes=[f"{clock_of(device)}; median of {settings.repeats} rounds; {precision}; random tokens"],
    )


def curve(settings: CurveSettings, common: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Measure the rows of ``cost.csv``.

    Raises:
        ValueError: nothing to measure, an unknown attention, an unmeasured attention in ``longest``, or a size below 1.
    """
    from relearn.studies.long_short.steps.peak_memory import peaks

    counts = {"lengths": settings.lengths, "batches": settings.batches}
    for key, found in {"attentions": settings.attentions, **counts}.items():
        if not found or len(set(found)) < len(found):
            raise ValueError(f"{key}: {found} (allowed: one or more, each once)")
    for key, numbers in counts.items():
        if min(numbers) < 1:
            raise ValueError(f"{key}: {numbers} (allowed: at least 1 each)")
    if unknown := sorted(set(settings.attentions) - set(CURVES)):
        raise ValueError(f"attentions: {', '.join(unknown)} (allowed: {', '.join(CURVES)})")
    if unknown := sorted(set(settings.longest) - set(settings.attentions)):
        raise ValueError(f"longest: {', '.join(unknown)} (allowed: {', '.join(settings.attentions)})")
    sizes = sizes_of(CurveSizes, settings)
    cases = [
        CurveCase(**common, sizes=sizes, attention=attention, length=length, batch=batch)
        for attention in settings.attentions
        for batch in settings.batches
        for length in sorted(settings.lengths)
        if length <= settings.longest.get(attention, length)
    ]
    if missing := sorted(set(settings.attentions) - {case.attention for case in cases}):
        raise ValueError(
            f"longest: no length for {', '.join(missing)} (allowed: at least {min(settings.lengths)})"
        )
    took = rounds(
        [case.make for case in cases], settings.repeats, common["device"], "benchmark_attention curve"
    )
    most = peaks(cases) if settings.memory else [None] * len(cases)
    return [
        {
            "attention": case.attention,
            "length": case.length,
            "batch": case.batch,
            "step_s": step_s,
            "peak_memory_mb": None if bytes_ is None else bytes_ / 1e6,
            "repeats": settings.repeats,
        }
        for case, step_s, bytes_ in zip(cases, took, most, strict=True)
    ]


def latency(settings: LatencySettings, common: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Measure the rows of ``latency.csv``.

    Raises:
        ValueError: no task or attention, or settings that the encoder rejects.
    """
    for key, found in (("tasks", settings.tasks), ("attentions", settings.attentions)):
        if not found:
            raise ValueError(f"{key}: none (allowed: at least one)")
    sizes = sizes_of(LatencySizes, settings)
    cases = [
        LatencyCase(
            **common,
            sizes=sizes,
            task=task,
            attention=attention,
            length=own.length,
            batch=own.batch_size,
            pairs=own.pairs,
            arguments={
                **settings.arguments.get(attention, {}),
                **own.arguments.get(attention, {}),
            },
            train=train,
        )
        for task, own in settings.tasks.items()
        for attention in settings.attentions
        for train in (False, True)
    ]
    took = rounds(
        [case.make for case in cases], settings.repeats, common["device"], "benchmark_attention latency"
    )
    return [
        {
            "task": case.task,
            "attention": case.attention,
            "length": case.length,
            "batch": case.batch,
            "forward_s": forward_s,
            "train_s": train_s,
        }
        for case, forward_s, train_s in zip(cases[::2], took[::2], took[1::2], strict=True)
    ]


def rounds(makers: Sequence[Callable[[], Call]], repeats: int, device: str, title: str) -> list[float | None]:
    """Median time of each maker's call over ``repeats`` rounds; None if it does not fit into GPU memory.

    An uncounted warm-up round precedes several rounds. Before a single round, only the first two cases are called once, to load the
    libraries.
    """
    import torch

    from relearn.runs.console import Progress

    times: list[list[float]] = [[] for _ in makers]
    lost: set[int] = set()
    if repeats == 1:
        for make in makers[:2]:
            make()()
    with Progress(title) as progress:
        for number in range(-1 if repeats > 1 else 0, repeats):
            order = range(len(makers)) if number % 2 == 0 else range(len(makers) - 1, -1, -1)
            for at in order:
                if at in lost:
                    continue
                try:
                    spent = timed(makers[at](), device)
                except torch.OutOfMemoryError:
                    lost.add(at)
                    torch.cuda.empty_cache()
                    continue
                if number >= 0:
                    times[at].append(spent)
            progress(max(number + 1, 0), repeats)
    return [None if at in lost else statistics.median(times[at]) for at in range(len(makers))]


def slopes(rows: Sequence[Mapping[str, Any]], batch: int) -> dict[str, float | None]:
    """Metrics of a curve at one batch size; an attention with fewer than two lengths has no slope."""
    found: dict[str, float | None] = {}
    for attention in dict.fromkeys(row["attention"] for row in rows):
        own = [row for row in rows if row["attention"] == attention and row["batch"] == batch]
        for key, word in (("step_s", "time"), ("peak_memory_mb", "memory")):
            points = sorted((row["length"], row[key]) for row in own if row[key] is not None)
            found[f"{attention}_{word}_slope"] = slope(points[len(points) // 2 if len(points) > 3 else 0 :])
        measured = [row for row in own if row["step_s"] is not None]
        if measured:
            longest = max(measured, key=lambda row: row["length"])
            found[f"{attention}_longest_step_s"] = longest["step_s"]
            found[f"{attention}_longest_count"] = float(longest["length"])
    return found


def slope(points: Sequence[tuple[float, float]]) -> float | None:
    r"""Least-squares slope of :math:`\log y` over :math:`\log x`; None for fewer than two points or a value that is not positive."""
    if len(points) < 2 or min(min(point) for point in points) <= 0:
        return None
    xs, ys = ([math.log(value) for value in side] for side in zip(*points, strict=True))
    return statistics.linear_regression(xs, ys).slope
