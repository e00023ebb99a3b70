"""Accuracy: counts by hand, scikit-learn's score and recall, ties, empty classes."""

from __future__ import annotations

import math

import pytest
import torch
from sklearn.metrics import accuracy_score, recall_score

from relearn.measures.accuracy import accuracy, per_class_accuracy


@pytest.fixture
def samples():
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(0, 4, (200,), generator=generator)
    return torch.randn(200, 4, generator=generator) + torch.eye(4)[labels], labels


def test_is_the_share_of_samples_whose_largest_logit_is_their_label(samples):
    logits, labels = samples
    assert accuracy(logits, labels) == pytest.approx(accuracy_score(labels, logits.argmax(1)), abs=1e-15)
    assert accuracy(torch.eye(3), torch.tensor([0, 1, 0])) == 2 / 3
    assert accuracy(-logits.abs(), labels) == accuracy(3 * -logits.abs() + 5, labels)  # only the order counts


def test_of_a_class_is_its_recall_and_the_mean_by_size_is_the_whole(samples):
    logits, labels = samples
    found = per_class_accuracy(logits, labels, classes=4)
    assert found.tolist() == pytest.approx(recall_score(labels, logits.argmax(1), average=None))
    assert float((found * labels.bincount()).sum() / 200) == pytest.approx(accuracy(logits, labels))


def test_a_class_without_samples_is_nan_not_zero():
    found = per_class_accuracy(torch.eye(3), torch.tensor([0, 1, 0]), classes=4)
    assert found[:2].tolist() == [0.5, 1.0] and all(math.isnan(v) for v in found[2:].tolist())


def test_the_first_of_equal_logits_counts():
    assert accuracy(torch.zeros(2, 3), torch.tensor([0, 1])) == 0.5


@pytest.mark.parametrize(
    ("logits", "labels"),
    [((0, 3), (0,)), ((4, 3), (5,)), ((4,), (4,)), ((4, 3), (4, 1))],
)
def test_shapes_that_do_not_belong_together_are_refused(logits, labels):
    with pytest.raises(ValueError, match="allowed are"):
        accuracy(torch.zeros(logits), torch.zeros(labels, dtype=torch.long))
    with pytest.raises(ValueError, match="allowed are"):
        per_class_accuracy(torch.zeros(logits), torch.zeros(labels, dtype=torch.long), classes=3)
