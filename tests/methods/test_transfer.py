"""Stacked heads are separate trainings; dropped samples have no say."""

import inspect

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn.functional import cross_entropy

from relearn.methods.fit import fit
from relearn.methods.transfer import Heads, fine_tune, poisoned_sets, weighted_loss


def problem(seed=0, count=10, sets=3, variants=2, width=4, classes=3):
    torch.manual_seed(seed)
    features = torch.randn(count, sets, width, dtype=torch.float64)
    labels = torch.randint(0, classes, (count,))
    keep = torch.rand(count, sets, variants) < 0.7
    return features, labels, keep, nn.Linear(width, classes).double()


SHORT = dict(epochs=7, batch_size=10, lr=0.1, milestones=(3, 5))


def test_a_stack_of_heads_equals_separate_trainings():
    """Against the slow truth: one ordinary training per set and variant, on the kept samples only (full batches)."""
    features, labels, keep, head = problem()
    heads, outcome, _ = fine_tune(features, labels, keep, head, **SHORT)
    assert outcome == "ok"
    for t in range(keep.shape[1]):
        for v in range(keep.shape[2]):
            rows = keep[:, t, v]
            alone = nn.Linear(4, 3).double()
            alone.load_state_dict(head.state_dict())
            fit(
                alone,
                (features[rows, t], labels[rows]),
                loss=cross_entropy,
                optimizer="adam",
                schedule="step",
                **SHORT,
            )
            torch.testing.assert_close(heads.weight[t, v], alone.weight, rtol=1e-9, atol=1e-11)
            torch.testing.assert_close(heads.bias[t, v], alone.bias, rtol=1e-9, atol=1e-11)


def test_mini_batches_of_a_stack_equal_mini_batches_of_one_head():
    features, labels, keep, head = problem(count=9)
    settings_ = dict(epochs=4, batch_size=3, lr=0.1, milestones=(2,), seed=5)
    together, _, _ = fine_tune(features, labels, keep, head, **settings_)
    alone, _, _ = fine_tune(features[:, 1:2], labels, keep[:, 1:2], head, **settings_)
    torch.testing.assert_close(together.weight[1], alone.weight[0], rtol=1e-9, atol=1e-11)


def test_dropped_samples_have_no_say_and_kept_ones_have():
    features, labels, keep, head = problem()
    dropped = (~keep[:, 0, 0]).nonzero()[0, 0]
    kept = keep[:, 0, 0].nonzero()[0, 0]
    keep = keep[:, :1, :1]
    start, _, _ = fine_tune(features[:, :1], labels, keep, head, **SHORT)
    for row, same in ((dropped, True), (kept, False)):
        changed = features[:, :1].clone()
        changed[row] += 10.0
        again, _, _ = fine_tune(changed, labels, keep, head, **SHORT)
        assert torch.equal(start.weight, again.weight) is same


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 6), st.integers(1, 3), st.integers(1, 3), st.integers(2, 5), st.integers(0, 99))
def test_logits_and_loss_equal_their_definition(batch, sets, variants, classes, seed):
    torch.manual_seed(seed)
    width = 3
    weight = torch.randn(sets, variants, classes, width, dtype=torch.float64)
    bias = torch.randn(sets, variants, classes, dtype=torch.float64)
    x = torch.randn(batch, sets, width, dtype=torch.float64)
    keep = (torch.rand(batch, sets, variants) < 0.5).double()
    labels = torch.randint(0, classes, (batch,))
    logits = Heads(weight, bias)(x)
    total = torch.zeros((), dtype=torch.float64)
    for t in range(sets):
        for v in range(variants):
            truth = x[:, t] @ weight[t, v].T + bias[t, v]
            torch.testing.assert_close(logits[:, t, v], truth)
            rows = keep[:, t, v] == 1
            if rows.any():
                total += cross_entropy(truth[rows], labels[rows])
    torch.testing.assert_close(weighted_loss(logits, labels, keep), total)


def test_poisons_stand_in_the_place_of_their_bases_and_nowhere_else():
    clean, poisons = torch.zeros(6, 2), torch.arange(1.0, 9.0).reshape(2, 2, 2)
    sets = poisoned_sets(clean, poisons, torch.tensor([4, 1]))
    assert sets.shape == (2, 6, 2)
    assert torch.equal(sets[1, 4], poisons[1, 0]) and torch.equal(sets[1, 1], poisons[1, 1])
    assert sets[:, [0, 2, 3, 5]].abs().sum() == 0 and clean.abs().sum() == 0


def test_the_head_given_is_not_changed_and_a_reset_one_starts_elsewhere():
    features, labels, keep, head = problem()
    before = head.weight.detach().clone()
    kept, _, _ = fine_tune(features, labels, keep, head, **{**SHORT, "lr": 0.0})
    fresh, _, _ = fine_tune(features, labels, keep, head, reset_head=True, **{**SHORT, "lr": 0.0})
    assert torch.equal(head.weight, before) and torch.equal(kept.weight[0, 0], before)
    assert not torch.equal(fresh.weight[0, 0], before)


def test_defaults_are_the_published_setting():
    defaults = {k: p.default for k, p in inspect.signature(fine_tune).parameters.items()}
    assert (defaults["lr"], defaults["epochs"], defaults["batch_size"]) == (0.1, 60, 64)
    assert defaults["milestones"] == (30, 45) and defaults["weight_decay"] == 0.0


def test_shapes_that_do_not_belong_together_are_refused():
    features, labels, keep, head = problem()
    with pytest.raises(ValueError, match="allowed are"):
        fine_tune(features, labels, keep[:-1], head)
