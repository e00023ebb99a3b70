"""finetune's measures: losses, answers, what a constant answer scores, what is better than it.

The choice of rate and radius: the best mean over seeds, the smallest of equals; and a run that takes it.
"""

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from relearn.data.examples import Examples
from relearn.runs import record
from relearn.runs.settings import plain, read
from relearn.studies.freelb.steps import finetune, finetune_search
from relearn.studies.freelb.steps import finetune_scores as scores

from .runs import FINETUNE, Bench, tasks


def examples(labels: torch.Tensor | None, candidates: list[int] | None = None) -> Examples:
    count = len(candidates or labels)  # type: ignore[arg-type]
    rows: Any = [[("a", None)] * one for one in candidates or [1] * count]
    return Examples(rows, labels, [str(place) for place in range(count)])


def test_losses_are_their_formulas() -> None:
    logits, labels = torch.randn(5, 3, dtype=torch.float64), torch.tensor([0, 2, 1, 1, 0])
    slow = -sum(logits[row].softmax(0)[label].log() for row, label in enumerate(labels)) / 5
    assert scores.loss_of("classification")(logits, labels) == pytest.approx(float(slow))
    assert scores.loss_of("ranking") is scores.loss_of("classification")
    values = torch.tensor([1.0, 2.5])
    assert scores.loss_of("regression")(values, torch.tensor([0.0, 2.0])) == (1 + 0.25) / 2
    for loss, given, wanted in (
        (scores.class_error, logits.bfloat16(), labels),
        (scores.squared_error, values.bfloat16(), torch.tensor([0.0, 2.0])),
    ):
        assert loss(given, wanted).dtype == torch.float32


def test_answers_and_scores() -> None:
    ranked = [[1.0, 2.0], [3.0, 3.0, 1.0], [0.0]]
    assert scores.answers("ranking", ranked).tolist() == [1, 0, 0]
    assert scores.measured("ranking", 1, ranked, torch.tensor([1, 1, 0])) == {"accuracy": 2 / 3}
    two = [[0.0, 1.0], [1.0, 0.0], [0.0, 1.0]]
    assert set(scores.measured("classification", 2, two, torch.tensor([1, 0, 1]))) == {
        "accuracy",
        "f1",
        "mcc",
    }
    assert set(scores.measured("classification", 3, two, torch.tensor([1, 0, 2]))) == {"accuracy", "mcc"}
    values = [[0.0], [1.0], [2.5]]
    found = scores.measured("regression", 1, values, torch.tensor([0.0, 2.0, 3.0]))
    assert found["spearman"] == pytest.approx(1.0) and 0.9 < found["pearson"] < 1
    assert scores.measured("regression", 1, values[:1], torch.tensor([0.0])) == {}
    assert scores.recorded("dev", {"accuracy": 0.5, "mcc": 0.1}) == {"dev_accuracy_frac": 0.5, "dev_mcc": 0.1}


def test_the_best_constant_answer() -> None:
    assert scores.majority(examples(torch.tensor([0, 1, 1, 2])), "classification") == 0.5
    # most often the first one is right; a random choice of two is right as often
    assert scores.majority(examples(torch.tensor([0, 1, 2]), [3, 3, 3]), "ranking") == pytest.approx(1 / 3)
    assert scores.majority(examples(torch.tensor([0, 1, 2, 3]), [2, 2, 4, 4]), "ranking") == 0.375
    assert scores.majority(examples(torch.tensor([0.5, 1.0])), "regression") is None


def test_what_is_better_than_a_constant_answer() -> None:
    edge = 0.6 + 2 * math.sqrt(0.6 * 0.4 / 100)
    assert scores.learned("accuracy", {"accuracy": edge + 1e-9}, 0.6, 100)
    assert not scores.learned("accuracy", {"accuracy": edge - 1e-9}, 0.6, 100)
    assert not scores.learned("f1", {"accuracy": 0.6, "f1": 0.9}, 0.6, 100)  # accuracy decides
    for metric in ("mcc", "pearson", "spearman"):
        assert scores.learned(metric, {metric: 0.21}, None, 101)
        assert not scores.learned(metric, {metric: 0.19}, None, 101)
    assert not scores.learned("pearson", {}, None, 101)
    with pytest.raises(ValueError, match=r"metric: accuracy \(allowed for values: pearson, spearman\)"):
        scores.learned("accuracy", {"accuracy": 1.0}, None, 9)


class Given(nn.Module):
    """Returns what it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.one = nn.Parameter(torch.ones(()))

    def forward(self, out: torch.Tensor) -> torch.Tensor:
        return out * self.one


def test_outputs_that_are_not_finite_are_none() -> None:
    class Batches:
        def __init__(self, *out: torch.Tensor) -> None:
            self.out = out

        def in_order(self) -> Any:
            return (((one,), None) for one in self.out)

    net, good = Given(), torch.tensor([[0.5, 1.0]])
    ragged: Any = Batches(good, torch.ones(1, 3))
    assert scores.predict(net, ragged, "fp32") == [[0.5, 1.0], [1.0, 1.0, 1.0]]
    values: Any = Batches(torch.tensor([0.5, 1.0]))
    assert scores.predict(net, values, "bf16") == [[0.5], [1.0]]
    broken: Any = Batches(good, torch.tensor([[0.0, math.nan]]))
    assert scores.predict(net, broken, "fp32") is None


def test_rows_keep_single_precision() -> None:
    value = float(torch.tensor(1 / 3))
    (row,) = scores.rows("test", examples(None, [1]), [[value, -1e-8]])
    assert row[:3] == ["test", "0", None]
    assert [float(torch.tensor(float(one))) for one in row[3].split()] == [value, float(torch.tensor(-1e-8))]
    assert next(iter(scores.rows("dev", examples(torch.tensor([2])), None)))[2:] == [2, ""]


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
    given = read(finetune.Settings, {**FINETUNE, "lr": 0.5, "steps": 7, "method": PGD})
    found = finetune_search.chosen(given, records)
    assert found.lr == 1e-3 and found.steps == 7
    assert plain(found.method) == {
        **PGD,
        "step_size": pytest.approx(0.6),
        "start_norm": pytest.approx(0.6),
        "eps": pytest.approx(1.2),
    }
    assert finetune_search.search(found, records) == pytest.approx(
        {"lr": 1e-3, "tried_count": 4, "step_size": 0.6, "eps": 1.2}
    )
    assert given.lr == 0.5 and finetune_search.chosen(given, []) == given
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
