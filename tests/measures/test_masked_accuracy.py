"""A mask against a slow search, and what it can and cannot do to an answer."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from relearn.measures.masked_accuracy import masked_argmax


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
def test_refusals(shape, allowed, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        masked_argmax(torch.zeros(shape), allowed)
