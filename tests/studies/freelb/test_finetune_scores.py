"""finetune's measures: losses, answers, what a constant answer scores, what is better than it."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import nn

from relearn.data.examples import Examples
from relearn.studies.freelb.steps import finetune_scores as scores


def examples(labels: torch.Tensor | None, candidates: list[int] | None = None) -> Examples:
    count = len(candidates or labels)  # type: ignore[arg-type]
    rows: Any = [[("a", None)] * one for one in candidates or [1] * count]
    return Examples(rows, labels, [str(place) for place in range(count)])


def test_losses() -> None:
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
