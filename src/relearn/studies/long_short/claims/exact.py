"""Predicates without random variation: growth of cost with length, aligned norms, counted multiply-adds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from relearn.report.comparisons import Exact, Finding
from relearn.report.derived import rows_of
from relearn.report.quantities import Evidence
from relearn.report.runs import Run, folders, having, select
from relearn.report.statistics import log_slope
from relearn.report.views.names import plural

LINEAR, QUADRATIC = 1.15, 1.7  # log-log slopes: at most, at least
FIGURE_ENDS = 14_336  # length; figure 5.5
LONGEST = 8192  # length of the last published training phase
PUBLISHED = {
    "dim": 512,
    "heads": 8,
    "ffn": 2048,
    "window": 512,
    "segment": 16,
    "rank": 1,
}  # a layer of figure 5.5
ALIGNED, APART = 0.01, 1.02  # ratio of norms: 1 ± ALIGNED with DualLN, above APART without
MILLIONS = (44, 110)  # parameters of the published character models
WITHIN = 0.10  # relative distance to the printed multiply-adds
OURS, FULL = "long_short", "full"
CONVENTION = "one product with its sum counts one (fvcore's convention)"


def linear_cost(evidence: Evidence) -> Finding:
    """Log-log slope of long-short attention at most 1.15 in time and memory; of full attention at least 1.7 in time.

    The lengths that decide are the longer half of those at which an attention was measured (``lengths`` up to its ``longest``; of an odd
    number also the middle one, of three or fewer all), because "linear" is about growth: at short lengths fixed costs hide it. They differ
    between attentions and scales. A note has the slope of the time over the lengths of figure 5.5, which ends at 14,336.

    Long-short attention is judged with a cache as long as the input, as in training, with a cache of one window, and without a cache.
    A curve counts as full size if its layers have the published sizes and it reaches the longest published length.
    """
    curves = select(evidence.runs, {"step": "benchmark_attention", "protocol": "curve"})
    runs = having(curves, "cost.csv")
    if not runs:
        return Finding(missing=["no runs for the curves of figure 5.5"])
    parts, missing = [], []
    for words, attention, what, good in CLAIMED:
        slopes = {one: [run.metrics.get(f"{attention}_{one}_slope") for run in runs] for one in what}
        found = [f"{one}: power {value:.3f}" for one in what for value in slopes[one] if value is not None]
        kind = words.partition(":")[0]
        missing += [f"no power of {one} measured, {kind}" for one in what if None in slopes[one]]
        if found:
            failures = sum(not good(value) for one in what for value in slopes[one] if value is not None)
            whole = all(_published(run) and _longest(run, OURS) >= LONGEST for run in runs)
            reached = ", ".join(f"to {_longest(run, attention)}" for run in runs)
            sizes = ", ".join(
                f"{plural(run.settings.get('layers') or 0, 'layer')} of width {run.settings.get('dim')}"
                for run in runs
            )
            notes = (*found, *_as_in_figure(runs, attention), f"lengths: {reached}; {sizes}")
            parts.append(Exact(words, len(found), failures, whole, folders(runs), notes))
    return Finding(parts, missing)


def _as_in_figure(runs: Sequence[Run], attention: str) -> list[str]:
    """Log-log slopes of the time of a step over the measured lengths up to the end of figure 5.5, one note for each run."""
    notes = []
    for run in runs:
        own = [row for row in run.rows("cost.csv") if row["attention"] == attention and row["step_s"]]
        own = [row for row in own if row["batch"] == own[0]["batch"]]
        line = {row["length"]: math.log(row["step_s"]) for row in own if row["length"] <= FIGURE_ENDS}
        if len(line) > 1:
            reach = f"over all lengths up to {max(line):.0f}, those within figure 5.5"
            notes.append(f"time, {reach}: power {log_slope(line):.3f}")
    return notes


def _published(run: Run) -> bool:
    return all(run.settings.get(key) == value for key, value in PUBLISHED.items())


CLAIMED: tuple[tuple[str, str, tuple[str, ...], Any], ...] = (
    *(
        (
            f"long-short attention, {words}: time and memory grow with a power <= {LINEAR:g}",
            attention,
            ("time", "memory"),
            lambda slope: slope <= LINEAR,
        )
        for attention, words in (
            (OURS, "a cache as long as the input"),
            (f"{OURS}_window_cache", "a cache of a window"),
            (f"{OURS}_no_cache", "no cache"),
        )
    ),
    (
        f"full attention: time grows with a power >= {QUADRATIC:g}",
        FULL,
        ("time",),
        lambda slope: slope >= QUADRATIC,
    ),
)


def dual_norm_aligns(evidence: Evidence) -> Finding:
    """Before training, the ratio of norms of keys and of values is 1 ± 0.01 at every layer with DualLN, and above 1.02 without.

    Judged on the published architecture, measured by `initial_norms` without training. The size counts as full if the network has the
    published 44 million parameters. The networks trained at this scale are reported in the notes.
    """
    sides: tuple[tuple[str, str, Any], ...] = (
        (
            "dual_norm",
            f"with DualLN: 1 ± {ALIGNED:g} at every layer",
            lambda ratio: abs(ratio - 1) <= ALIGNED,
        ),
        ("no_dual_norm", f"without: above {APART:g} at every layer", lambda ratio: ratio > APART),
    )
    parts, missing = [], []
    for variant, words, good in sides:
        runs = having(select(evidence.runs, {"step": "initial_norms", "variant": variant}), "norms.csv")
        ratios = _ratios(runs)
        if not ratios:
            missing.append(f"no runs for {words}")
            continue
        failed = [name for name, ratio in ratios.items() if not good(ratio)]
        notes = [_spread(ratios)]
        small = _ratios(select(evidence.runs, {"step": "train_long_char_lm", "variant": variant}))
        if small:
            notes.append(f"networks that were trained, before training: {_spread(small)}")
        whole = all(round((run.metrics.get("parameters_count") or 0) / 1e6) in MILLIONS for run in runs)
        parts.append(Exact(words, len(ratios), len(failed), whole, folders(runs), tuple(notes)))
    return Finding(parts, missing)


def _ratios(runs: Sequence[Run]) -> dict[str, float]:
    """Ratios before training, by stream, seed, layer and part."""
    return {
        f"{run.labels['dataset']}, seed {run.seed}, layer {row['layer']}, {of}": float(row[name])
        for run in having(runs, "norms.csv")
        for row in rows_of(run, "norms.csv", moment="start")
        for of, name in (("keys", "ratio"), ("values", "value_ratio"))
        if row.get(name) is not None
    }


def _spread(ratios: Mapping[str, float]) -> str:
    least, most = min(ratios, key=ratios.__getitem__), max(ratios, key=ratios.__getitem__)
    low, high = f"{ratios[least]:.4f}", f"{ratios[most]:.4f}"
    return f"{low} at every layer" if low == high else f"from {low} ({least}) to {high} ({most})"


def lra_flops(evidence: Evidence) -> Finding:
    """Multiply-adds of long-short (w, r = 8, 32) and full attention at the published lengths are within 10% of table 5.1.

    The other rows of the table are reported in a note.
    """
    runs = having(select(evidence.runs, {"step": "count_params_flops", "family": "lra"}), "counts.csv")
    rows = [
        row for run in runs for row in rows_of(run, "counts.csv") if row["printed_flops_giga"] is not None
    ]
    own = [row for row in rows if row["model"] in (OURS, FULL)]
    if not own:
        return Finding(missing=["no runs for the counts of table 5.1"])
    notes = [CONVENTION, *(_described(row) for row in own)]
    others = [row for row in rows if row not in own]
    if others:
        near = sum(_near(row) for row in others)
        notes.append(f"other rows of table 5.1: {near} of {len(others)} within {100 * WITHIN:g}%")
        notes += [f"not deciding: {_described(row)}" for row in others if not _near(row)]
    failures = sum(not _near(row) for row in own)
    there = {(row["model"], row["task_or_input"]) for row in own}
    missing = [
        f"no count of {name}, {task}"
        for name in (OURS, FULL)
        for task in ("listops", "text", "retrieval")
        if (name, task) not in there
    ]
    words = f"multiply-adds within {100 * WITHIN:g}% of those printed"
    return Finding([Exact(words, len(own), failures, True, folders(runs), tuple(notes))], missing)


def flops_of(evidence: Evidence) -> tuple[Mapping[tuple[str, str], float], tuple[str, ...]]:
    """Multiply-adds in 10^9 by attention and task, and the runs that counted them."""
    runs = select(evidence.runs, {"step": "count_params_flops", "family": "lra"})
    found = {
        (str(row["model"]), str(row["task_or_input"])): float(row["flops_count"]) / 1e9
        for run in runs
        for row in rows_of(run, "counts.csv")
        if row["flops_count"] is not None
    }
    return found, folders(runs)


def _near(row: Mapping[str, Any]) -> bool:
    return abs(_giga(row) / float(row["printed_flops_giga"]) - 1) <= WITHIN


def _giga(row: Mapping[str, Any]) -> float:
    return math.nan if row["flops_count"] is None else float(row["flops_count"]) / 1e9


def _described(row: Mapping[str, Any]) -> str:
    return f"{row['model']}, {row['task_or_input']}: {_giga(row):.3g}, printed {row['printed_flops_giga']:g}"


def _longest(run: Run, attention: str) -> int:
    return max((int(row["length"]) for row in rows_of(run, "cost.csv", attention=attention)), default=0)
