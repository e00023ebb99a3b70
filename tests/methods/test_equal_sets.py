"""Equal fine-tuning sets are trained on once, and nothing else changes."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from relearn.methods.equal_sets import arrange
from relearn.methods.transfer import fine_tune


def filtered(seed, sets, variants, count=8, bases=2, width=3):
    """Sets that differ in their first samples only, and filters that often drop these."""
    generator = torch.Generator().manual_seed(seed)
    features = torch.randn(count, 1, width, generator=generator, dtype=torch.float64).repeat(1, sets, 1)
    features[:bases] = torch.randn(bases, sets, width, generator=generator, dtype=torch.float64)
    keep = torch.randint(0, 3, (count, sets, variants), generator=generator).double()
    keep[bases:] = keep[bases:, :1, :1]  # the rest is filtered alike, so that equal sets are common
    return features, keep.clamp(max=2)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 5), st.integers(1, 5))
def test_each_given_set_stands_in_its_place_with_its_samples_and_weights(seed, sets, variants):
    features, keep = filtered(seed, sets, variants)
    found = arrange(features, keep)
    width = found.keep.shape[2]
    for t in range(sets):
        for v in range(variants):
            row, column = divmod(int(found.place[t, v]), width)
            assert torch.equal(found.keep[:, row, column], keep[:, t, v])
            kept = keep[:, t, v] > 0
            assert torch.equal(features[kept, found.sets[row]], features[kept, t])


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 5), st.integers(1, 5))
def test_places_are_shared_exactly_by_what_is_equal(seed, sets, variants):
    features, keep = filtered(seed, sets, variants)
    place = arrange(features, keep).place

    def same(a, b):
        (t, v), (s, w) = a, b
        kept = keep[:, t, v] > 0
        return torch.equal(keep[:, t, v], keep[:, s, w]) and torch.equal(features[kept, t], features[kept, s])

    pairs = [(t, v) for t in range(sets) for v in range(variants)]
    for a in pairs:
        for b in pairs:
            assert (place[a] == place[b]) == same(a, b)


def test_a_filter_that_removes_every_poison_leaves_one_training():
    features, keep = filtered(0, sets=6, variants=4)
    keep[:] = 1.0
    assert (
        arrange(features, keep).place.unique().numel() == 6
    )  # equal weights, but each set has its own poisons
    keep[:2] = 0.0
    found = arrange(features, keep)
    assert found.keep.shape[1:] == (1, 1) and (found.place == 0).all()


@pytest.mark.parametrize("weight_decay", [0.0, 0.01])
def test_heads_of_equal_sets_are_those_of_separate_trainings(weight_decay):
    features, keep = filtered(3, sets=4, variants=5)
    labels, head = torch.arange(8) % 3, nn.Linear(3, 3).double()
    recipe = dict(epochs=5, batch_size=3, milestones=(2,), weight_decay=weight_decay, seed=1)
    together, _, _ = fine_tune(features, labels, keep, head, **recipe)
    assert arrange(features, keep).place.unique().numel() < 20  # some are equal
    for t in range(4):
        for v in range(5):
            alone, _, _ = fine_tune(
                features[:, t : t + 1], labels, keep[:, t : t + 1, v : v + 1], head, **recipe
            )
            torch.testing.assert_close(together.weight[t, v], alone.weight[0, 0], rtol=1e-9, atol=1e-11)
            torch.testing.assert_close(together.bias[t, v], alone.bias[0, 0], rtol=1e-9, atol=1e-11)
