"""Accuracy: counts by hand, scikit-learn's score and recall, ties, empty classes.

A mask against a slow search, and what it can and cannot do to an answer.

Accuracy of groups by hand, and what the gap says of networks that look at nothing but the background.
"""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, recall_score

from relearn.measures.accuracy import accuracy, per_class_accuracy
from relearn.measures.background_gap import background_gap, group_accuracy
from relearn.measures.masked_accuracy import masked_argmax


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


def test_a_sample_with_a_nan_among_its_logits_is_wrong_whatever_its_label(samples):
    logits, labels = samples
    right = logits.argmax(1) == labels
    assert right[:20].any()
    logits[:20, 0] = math.nan
    assert accuracy(logits, labels) == pytest.approx(float(right[20:].sum()) / 200)
    nothing = torch.full((3, 3), math.nan)
    assert per_class_accuracy(nothing, torch.arange(3), classes=3).tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("logits", "labels"),
    [((0, 3), (0,)), ((4, 3), (5,)), ((4,), (4,)), ((4, 3), (4, 1))],
)
def test_shapes_that_do_not_belong_together_are_refused(logits, labels):
    with pytest.raises(ValueError, match="allowed are"):
        accuracy(torch.zeros(logits), torch.zeros(labels, dtype=torch.long))
    with pytest.raises(ValueError, match="allowed are"):
        per_class_accuracy(torch.zeros(logits), torch.zeros(labels, dtype=torch.long), classes=3)


@settings(max_examples=40)
@given(st.integers(0, 10**6), st.integers(1, 12), st.integers(2, 9))
def test_it_is_the_best_allowed_class(seed: int, n: int, classes: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(n, classes, generator=generator, dtype=torch.float64)
    count = int(torch.randint(1, classes + 1, (), generator=generator))
    allowed = torch.randperm(classes, generator=generator)[:count].tolist()
    found = masked_argmax(logits, allowed)
    slow = [max(sorted(allowed), key=lambda c: float(row[c])) for row in logits]
    assert found.tolist() == slow
    labels = torch.tensor(allowed)[torch.randint(count, (n,), generator=generator)]
    free = logits.argmax(1)
    assert bool((found[free == labels] == labels[free == labels]).all()), "no right answer becomes wrong"
    assert torch.equal(masked_argmax(logits, range(classes)), free)


def test_it_changes_an_answer_outside_the_mask() -> None:
    logits = torch.tensor([[0.0, 9.0, 1.0, 5.0], [3.0, 0.0, 0.0, 2.0]])
    assert masked_argmax(logits, (3, 2, 0)).tolist() == [3, 0] and logits.argmax(1).tolist() == [1, 0]


@pytest.mark.parametrize(
    ("shape", "allowed", "said"),
    [
        ((3,), (0,), r"shape \(3,\); allowed: \(n, C\)"),
        ((2, 3), (), "allowed: 0 classes"),
        ((2, 3), (1, 1), "2 classes, 1 different"),
        ((2, 3), (0, 3), "class 3; allowed: 0 to 2"),
        ((2, 3), (-1, 2), "class -1; allowed: 0 to 2"),
    ],
)
def test_masked_accuracy_refusals(shape, allowed, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        masked_argmax(torch.zeros(shape), allowed)


GROUP = (0, 0, 1, -1, 2)


def test_group_accuracy_agrees_with_a_case_by_hand() -> None:
    predicted = torch.tensor([0, 1, 2, 3, 4, 4])
    labels = torch.tensor([0, 0, 0, 0, 2, 1])
    assert (
        group_accuracy(predicted, labels, GROUP) == 3 / 6
    )  # another class of the group is right, none of a group never


def test_an_answer_of_no_group_is_wrong_for_every_group() -> None:
    for group in range(3):
        assert group_accuracy(torch.full((4,), 3), torch.full((4,), group), GROUP) == 0


def test_the_gap_is_that_of_backgrounds() -> None:
    """Images as (foreground, background): same backgrounds fool nobody, random ones those who look at them."""
    foreground = torch.arange(9).repeat(20)
    random = foreground.roll(7)
    nine = tuple(range(9))
    same = group_accuracy(foreground, foreground, nine)
    assert background_gap(same, group_accuracy(random, foreground, nine)) == 1
    assert background_gap(same, group_accuracy(foreground, foreground, nine)) == 0
    assert background_gap(0.25, 0.75) == -0.5


def test_background_gap_refusals() -> None:
    for predicted, labels in (
        (torch.zeros(2, dtype=torch.int64), torch.zeros(3)),
        (torch.zeros(0), torch.zeros(0)),
    ):
        with pytest.raises(ValueError, match=r"allowed are \(n,\) and \(n,\), n > 0"):
            group_accuracy(predicted, labels, GROUP)
    for wrong in (5, -1):
        with pytest.raises(ValueError, match="allowed: 0 to 4"):
            group_accuracy(torch.tensor([wrong]), torch.tensor([0]), GROUP)
    with pytest.raises(ValueError, match="mixed_rand is 80; allowed: a fraction"):
        background_gap(0.9, 80)


@pytest.mark.parametrize(("labels", "found"), [([0, 4, 1], "0 to 4"), ([-1, 0, 1], "-1 to 1")])
def test_labels_that_are_no_class_are_refused(labels, found):
    with pytest.raises(ValueError, match=f"labels run from {found}; allowed: 0 to 3"):
        per_class_accuracy(torch.zeros(3, 4), torch.tensor(labels), classes=4)


def test_a_sample_without_a_largest_logit_among_the_allowed_has_no_class() -> None:
    logits = torch.tensor([[0.0, float("nan"), 1.0], [float("nan"), 2.0, 1.0]])
    assert masked_argmax(logits, (1, 2)).tolist() == [-1, 1]


def test_a_group_accuracy_names_the_class_that_is_out_of_range() -> None:
    for predicted, odd in (([-1, 2], -1), ([0, 3], 3)):
        with pytest.raises(ValueError, match=rf"^class {odd}; allowed: 0 to 2$"):
            group_accuracy(torch.tensor(predicted), torch.zeros(2, dtype=torch.long), [0, 1, 1])
