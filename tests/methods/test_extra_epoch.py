"""One extra epoch: SGD written by hand, and what is left of it."""

import copy
import math

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from relearn.methods.extra_epoch import extra_epoch

FLOAT = torch.float64


def network(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3)).to(FLOAT)


def batches(count, seed=1):
    generator = torch.Generator().manual_seed(seed)
    for _ in range(count):
        yield (
            torch.randn(8, 4, generator=generator, dtype=FLOAT),
            torch.randint(0, 3, (8,), generator=generator),
        )


def by_hand(model, data, rates, momentum, decay):
    velocity = [torch.zeros_like(one) for one in model.parameters()]
    for (x, y), rate in zip(data, rates):
        gradient = torch.autograd.grad(cross_entropy(model(x), y), list(model.parameters()))
        with torch.no_grad():
            for one, g, v in zip(model.parameters(), gradient, velocity):
                v.mul_(momentum).add_(g + decay * one)
                one.sub_(rate * v)


def test_constant_rate_is_sgd_by_hand():
    model, expected = network(), network()
    by_hand(expected, batches(7), [0.3] * 7, 0.9, 1e-2)
    result = extra_epoch(model, cross_entropy, batches(7), lr=0.3, steps=7, momentum=0.9, weight_decay=1e-2)
    for one, other in zip(model.parameters(), expected.parameters()):
        assert torch.allclose(one, other, atol=1e-12)
    assert result.outcome == "ok" and result.scales == {} and result.history[-1]["step"] == 7


def test_the_warm_up_rises_to_the_rate():
    """Slower than the constant rate at first; the rate of the last step is that of the text, the first a seventh of it or less."""
    model, constant = network(), network()
    result = extra_epoch(
        model, cross_entropy, batches(7), lr=0.3, steps=7, schedule="warmup", weight_decay=0.0
    )
    extra_epoch(constant, cross_entropy, batches(7), lr=0.3, steps=7, weight_decay=0.0)
    last = result.history[-1]["lr"]
    assert 0.3 * 6 / 7 - 1e-9 <= last <= 0.3 + 1e-9
    rates = [last - (6 - i) * 0.3 / 7 for i in range(7)]  # linear
    expected = network()
    by_hand(expected, batches(7), rates, 0.9, 0.0)
    for one, other, third in zip(model.parameters(), expected.parameters(), constant.parameters()):
        assert torch.allclose(one, other, atol=1e-12) and not torch.allclose(one, third)


def test_only_the_weights_remain():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Dropout(0.5), nn.Linear(6, 3)).to(FLOAT)
    model[0].eval()
    before = copy.deepcopy(model)
    state = torch.get_rng_state()
    extra_epoch(model, cross_entropy, batches(3), steps=3, seed=4)
    assert torch.equal(torch.get_rng_state(), state)
    assert [m.training for m in model.modules()] == [m.training for m in before.modules()]
    assert all(parameter.grad is None for parameter in model.parameters())
    for name, buffer in model.named_buffers():
        assert torch.equal(buffer, dict(before.named_buffers())[name])
    assert not torch.equal(model[0].weight, before[0].weight)
    again = copy.deepcopy(before)
    extra_epoch(again, cross_entropy, batches(3), steps=3, seed=4)
    other = copy.deepcopy(before)
    extra_epoch(other, cross_entropy, batches(3), steps=3, seed=5)
    assert torch.equal(model[0].weight, again[0].weight) and not torch.equal(model[0].weight, other[0].weight)


def test_clipping_bounds_the_step():
    model, start = network(), network()
    extra_epoch(model, cross_entropy, batches(1), lr=0.5, steps=1, weight_decay=0.0, clip_norm=1e-3)
    moved = sum(
        (one - other).square().sum() for one, other in zip(model.parameters(), start.parameters())
    ).sqrt()
    assert moved.item() == pytest.approx(0.5 * 1e-3, rel=1e-3)


def test_divergence_is_an_outcome():
    result = extra_epoch(network(), lambda out, y: cross_entropy(out, y) * math.nan, batches(3), steps=3)
    assert (
        result.outcome == "diverged" and result.outcome_step == 1 and "extra epoch" in result.outcome_reason
    )


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (dict(schedule="cosine"), "schedule: found 'cosine', allowed are constant, warmup"),
        (dict(steps=0), "steps: found 0"),
        (dict(steps=9), "batches: they ended after 3 (allowed: 9"),
        (dict(optimizer="lion"), "lion"),
    ],
)
def test_bad_input_is_named_in_one_line(settings, said):
    with pytest.raises(ValueError) as caught:
        extra_epoch(network(), cross_entropy, batches(3), **{"steps": 3, **settings})
    assert said in str(caught.value) and "\n" not in str(caught.value)
