"""Chooses learning rate and radius of a `finetune` run from tuning runs with separate seeds."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from relearn.runs.settings import plain

if TYPE_CHECKING:
    from relearn.studies.freelb.steps.finetune import Settings

BALL = ("step_size", "start_norm", "eps")


def chosen(settings: Settings, records: Sequence[Path]) -> Settings:
    """The settings with the lr, step_size, start_norm and eps that have the best mean score_frac over seeds (the smallest in a tie).

    A diverged run without a score counts as 0. Without records the settings are unchanged.

    Raises:
        ValueError: no run has a score.
    """
    if not records:
        return settings
    scores: dict[tuple[float, ...], list[float]] = defaultdict(list)
    methods: dict[tuple[float, ...], dict[str, Any]] = {}
    for path in records:
        record = json.loads(path.read_text(encoding="utf-8"))
        tried, score = record["settings"], record["metrics"].get("score_frac")
        ball = {key: tried["method"][key] for key in BALL if key in tried["method"]}
        candidate = (tried["lr"], *(value or 0.0 for value in ball.values()))
        scores[candidate].append(0.0 if score is None else score)
        methods[candidate] = ball
    if not any(map(any, scores.values())):
        raise ValueError(f"tried: found {len(records)} runs without a score, allowed: one with a score")
    best = min(scores, key=lambda one: (-sum(scores[one]) / len(scores[one]), one))
    return replace(settings, lr=best[0], method=replace(settings.method, **methods[best]))


def search(settings: Settings, records: Sequence[Path]) -> dict[str, float]:
    """Metrics of the search: the chosen lr, step_size and eps, and the number of tried settings; empty without records."""
    if not records:
        return {}
    tried = {
        json.dumps(json.loads(path.read_text(encoding="utf-8"))["settings"], sort_keys=True)
        for path in records
    }
    method = plain(settings.method)
    ball = {key: float(method[key]) for key in ("step_size", "eps") if method.get(key)}
    return {"lr": float(settings.lr), "tried_count": float(len(tried)), **ball}
