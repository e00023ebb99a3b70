"""A stack of heads trains each of them as if it were alone; sets that are equal are trained on once."""

import inspect
from collections import OrderedDict

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn.functional import cross_entropy

from relearn.methods import end_to_end, transfer
from relearn.methods.equal_sets import arrange
from relearn.methods.fit import Fitted, fit
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


@settings(max_examples=20)
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


def filtered(seed, sets, variants, count=8, bases=2, width=3):
    """Sets that differ in their first samples only, and filters that often drop these."""
    generator = torch.Generator().manual_seed(seed)
    features = torch.randn(count, 1, width, generator=generator, dtype=torch.float64).repeat(1, sets, 1)
    features[:bases] = torch.randn(bases, sets, width, generator=generator, dtype=torch.float64)
    keep = torch.randint(0, 3, (count, sets, variants), generator=generator).double()
    keep[bases:] = keep[bases:, :1, :1]  # the rest is filtered alike, so that equal sets are common
    return features, keep.clamp(max=2)


@settings(max_examples=60)
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


@settings(max_examples=60)
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


@pytest.mark.parametrize("whole", [False, True])
def test_a_reset_head_is_drawn_without_touching_any_global_generator(whole, monkeypatch):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.head = nn.Linear(4, 3)

        def forward(self, x):
            return self.head(x.flatten(1))

    features, labels, keep, head = problem()
    net, pixels = Net(), torch.rand(6, 1, 2, 2)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        expected = nn.Linear(4, 3)
    seeded = []
    for name in ("manual_seed", "manual_seed_all"):
        monkeypatch.setattr(torch.cuda, name, seeded.append)
    before = torch.get_rng_state()
    if whole:
        monkeypatch.setattr(end_to_end, "fit", lambda *_, **__: None)  # which has a test of its own
        fresh = end_to_end.fine_tune_network(net, pixels, labels[:6], reset_head=True, seed=5)[0].head
        found = fresh.weight, fresh.bias
    else:
        monkeypatch.setattr(transfer, "fit", lambda *_, **__: Fitted())
        heads = fine_tune(features, labels, keep, head, reset_head=True, seed=5)[0]
        found = heads.weight[0, 0], heads.bias[0, 0]
    assert torch.equal(found[0].float(), expected.weight) and torch.equal(found[1].float(), expected.bias)
    assert torch.equal(torch.get_rng_state(), before) and not seeded


def test_an_end_to_end_victim_has_a_tenth_of_the_rate_after_each_milestone():
    net = nn.Sequential(OrderedDict(flat=nn.Flatten(), head=nn.Linear(4, 3)))
    images = torch.rand(6, 1, 2, 2)
    recipe = dict(epochs=4, batch_size=6, lr=1e-3, milestones=(1, 3))
    rates = [
        row["lr"]
        for row in end_to_end.fine_tune_network(net, images, torch.arange(6) % 3, **recipe)[1].history
    ]
    assert rates == pytest.approx([1e-3, 1e-4, 1e-4, 1e-5])


def test_a_head_without_a_bias_is_refused():
    features, labels, keep, _ = problem()
    with pytest.raises(ValueError, match="head: found no bias, allowed"):
        fine_tune(features, labels, keep, nn.Linear(4, 3, bias=False), **SHORT)
