"""The choice of rate and radius: the best mean over seeds, the smallest of equals; and a run that takes it."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from relearn.runs import record
from relearn.studies.freelb.steps import finetune_search

from .runs import FINETUNE, Bench, tasks

BALL = {"passes": 2, "step_size": 0.2, "eps": 0.4, "start_norm": 0.2, "project": True, "mask": "always"}
PGD = {"kind": "pgd", **BALL, "reuse_masks": True}


def tried(root: Path, name: str, lr: float, factor: float, score: float | None) -> Path:
    ball = {key: factor * BALL[key] for key in ("step_size", "start_norm", "eps")}
    settings = {"lr": lr, "method": {**PGD, **ball}}
    path = root / f"{name}.json"
    path.write_text(
        json.dumps({"settings": settings, "metrics": {} if score is None else {"score_frac": score}})
    )
    return path


def test_the_best_mean_wins_and_the_smallest_of_equals(tmp_path: Path) -> None:
    scores: dict[tuple[float, float], list[float | None]] = {
        (1e-3, 1.0): [0.9, 0.5],  # the best single run, not the best mean
        (1e-3, 3.0): [0.75, 0.75],
        (2e-3, 1.0): [0.8, 0.7],
        (2e-3, 3.0): [1.0, None],  # diverged once
    }
    records = [
        tried(tmp_path, f"{rate}-{factor}-{seed}", rate, factor, score)
        for (rate, factor), row in scores.items()
        for seed, score in enumerate(row)
    ]
    given: dict[str, Any] = {"lr": 0.5, "steps": 7, "method": PGD}
    found = finetune_search.chosen(given, records)
    assert found["lr"] == 1e-3 and found["steps"] == 7
    assert found["method"] == {
        **PGD,
        "step_size": pytest.approx(0.6),
        "start_norm": pytest.approx(0.6),
        "eps": pytest.approx(1.2),
    }
    assert finetune_search.search(found, records) == pytest.approx(
        {"lr": 1e-3, "tried_count": 4, "step_size": 0.6, "eps": 1.2}
    )
    assert given["lr"] == 0.5 and finetune_search.chosen(given, []) == given
    with pytest.raises(ValueError, match="tried: found 1 runs without a score, allowed: one with a score"):
        finetune_search.chosen(given, [tried(tmp_path, "none", 1.0, 1.0, None)])


def test_a_run_takes_the_choice_and_is_scored_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The held-out score is of the saved network, equal to that on the test part where both hold the same samples."""
    task = tasks()["warm"]
    task = dataclasses.replace(task, further={"held_out": task.test})
    monkeypatch.setattr("relearn.data.text_tasks.read", lambda *_: task)
    records = [tried(tmp_path, f"{rate}", rate, 3.0, 0.9 - rate) for rate in (5e-3, 1e-2)]
    bench = Bench(tmp_path, "finetune", FINETUNE)
    done = bench.run("run", method=PGD, steps=10, inputs={"tried": records})
    found = done["metrics"]
    assert (found["lr"], found["tried_count"]) == (5e-3, 2) and found["eps"] == pytest.approx(1.2)
    assert found["held_out_score_frac"] == found["test_accuracy_frac"] == found["held_out_accuracy_frac"]
    assert {row["part"] for row in bench.rows("run", "answers.csv")} == {"dev", "test"}
    assert float(max(row["lr"] for row in bench.rows("run", "history.csv"))) <= 5e-3
    assert record.verify_outputs(done) == []
