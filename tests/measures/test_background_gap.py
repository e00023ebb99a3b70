"""Accuracy of groups by hand, and what the gap says of networks that look at nothing but the background."""

from __future__ import annotations

import pytest
import torch

from relearn.measures.background_gap import background_gap, group_accuracy

GROUP = (0, 0, 1, -1, 2)


def test_by_hand() -> None:
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


def test_refusals() -> None:
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
