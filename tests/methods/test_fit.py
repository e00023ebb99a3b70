"""The training loop: its schedules, its steps against a hand-written loop, exact resume, divergence, augmentation."""

import math

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from relearn.methods.fit import fit, plain_gradient


def toy(seed: int = 0, samples: int = 12):
    torch.manual_seed(seed)
    x = torch.randn(samples, 5, dtype=torch.float64)
    y = torch.randint(0, 3, (samples,))
    net = nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.Dropout(0.3), nn.Linear(8, 3)).double()
    return net, x, y


class Memory:
    """A checkpoint in memory that can stop the run after so many saves, as a kill would."""

    def __init__(self, stop_after: int | None = None) -> None:
        self.state: dict | None = None
        self.saves, self.stop_after = 0, stop_after

    def load(self):
        return self.state

    def save(self, state):
        self.state = {k: v.clone() if torch.is_tensor(v) else v for k, v in state.items()}
        self.saves += 1
        if self.saves == self.stop_after:
            raise KeyboardInterrupt


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_full_batch_steps_equal_the_published_update_by_hand(optimizer):
    """Momentum SGD and Adam written out in float64, on full batches so that the order of samples does not matter."""
    torch.manual_seed(0)
    x, y = torch.randn(8, 4, dtype=torch.float64), torch.randint(0, 3, (8,))
    net = nn.Linear(4, 3).double()
    parameters = [p.detach().clone().requires_grad_() for p in net.parameters()]
    first = [torch.zeros_like(p) for p in parameters]
    second = [torch.zeros_like(p) for p in parameters]
    steps, lr, decay = 6, 0.05, 0.01
    for t in range(steps):
        rate = lr * (1 + math.cos(math.pi * t / steps)) / 2
        loss = cross_entropy(x @ parameters[0].T + parameters[1], y)
        for i, g in enumerate(torch.autograd.grad(loss, parameters)):
            g = g + decay * parameters[i].detach()
            if optimizer == "sgd":
                first[i] = 0.9 * first[i] + g
                change = first[i]
            else:
                first[i] = 0.9 * first[i] + 0.1 * g
                second[i] = 0.999 * second[i] + 0.001 * g * g
                unbiased = second[i] / (1 - 0.999 ** (t + 1))
                change = first[i] / (1 - 0.9 ** (t + 1)) / (unbiased.sqrt() + 1e-8)
            parameters[i] = (parameters[i].detach() - rate * change).requires_grad_()
    fit(
        net,
        (x, y),
        loss=cross_entropy,
        epochs=steps,
        batch_size=8,
        lr=lr,
        optimizer=optimizer,
        weight_decay=decay,
    )
    for ours, truth in zip(net.parameters(), parameters, strict=True):
        torch.testing.assert_close(ours, truth, rtol=1e-10, atol=1e-12)


def test_resumed_run_has_the_bits_of_the_uninterrupted_one():
    whole, x, y = toy()
    settings = dict(loss=cross_entropy, epochs=6, batch_size=4, lr=0.1, seed=3)
    history = fit(whole, (x, y), **settings).history
    cut, _, _ = toy()
    memory = Memory(stop_after=3)
    with pytest.raises(KeyboardInterrupt):
        fit(cut, (x, y), checkpoint=memory, **settings)
    resumed, _, _ = toy(seed=99)  # another start: everything must come from the checkpoint
    memory.stop_after = None
    assert fit(resumed, (x, y), checkpoint=memory, **settings).history == history
    for a, b in zip(whole.state_dict().values(), resumed.state_dict().values(), strict=True):
        assert torch.equal(a, b)


def test_another_seed_gives_another_run():
    ends = []
    for seed in (0, 1):
        net, x, y = toy()
        fit(net, (x, y), loss=cross_entropy, epochs=2, batch_size=4, lr=0.1, seed=seed)
        ends.append(net[0].weight.detach().clone())
    assert not torch.equal(*ends)


def test_divergence_is_an_outcome_with_its_step():
    net, x, y = toy()
    calls = []

    def explode_at_fifth(model, loss, batch):
        calls.append(1)
        return plain_gradient(model, loss, batch) * (float("nan") if len(calls) == 5 else 1.0)

    fitted = fit(net, (x, y), loss=cross_entropy, epochs=9, batch_size=4, lr=0.1, gradient=explode_at_fifth)
    assert (fitted.outcome, fitted.outcome_step, len(fitted.history)) == ("diverged", 5, 1)


def test_gradient_strategy_is_what_moves_the_parameters():
    net, x, y = toy()
    before = [p.detach().clone() for p in net.parameters()]

    def no_gradient(model, loss, batch):
        for parameter in model.parameters():
            parameter.grad = torch.zeros_like(parameter)
        return torch.zeros(())

    fit(net, (x, y), loss=cross_entropy, epochs=2, batch_size=4, lr=0.1, gradient=no_gradient)
    assert all(torch.equal(a, b) for a, b in zip(before, net.parameters(), strict=True))


def test_frozen_mode_leaves_batch_statistics_alone_and_training_mode_does_not():
    for mode, changes in ((False, False), (True, True)):
        net, x, y = toy()
        fit(net, (x, y), loss=cross_entropy, epochs=1, batch_size=4, lr=0.1, training_mode=mode)
        assert bool(net[1].running_mean.abs().sum() > 0) is changes


def test_every_sample_is_used_once_an_epoch_but_a_lone_last_one():
    seen: list[int] = []

    def watch(model, loss, batch):
        seen.extend(batch[1].tolist())
        return plain_gradient(model, lambda z, i: z.sum(), batch)

    x = torch.randn(9, 5)
    fit(nn.Linear(5, 2), (x, torch.arange(9)), loss=None, epochs=1, batch_size=3, lr=0.0, gradient=watch)
    assert sorted(seen) == list(range(9))
    seen.clear()
    fit(nn.Linear(5, 2), (x, torch.arange(9)), loss=None, epochs=1, batch_size=4, lr=0.0, gradient=watch)
    assert len(set(seen)) == len(seen) == 8


def test_eight_bit_images_become_pixels_between_zero_and_one():
    class Probe(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.zeros(1))

        def forward(self, x):
            assert x.dtype == torch.float32 and float(x.max()) == 1.0 and float(x.min()) == 0.0
            return self.weight * x.mean()

    images = torch.zeros(4, 1, 2, 2, dtype=torch.uint8)
    images[:, :, 0] = 255
    fit(Probe(), (images,), loss=lambda z: z, epochs=1, batch_size=4, lr=0.1)


@pytest.mark.parametrize(
    "change,message",
    [
        (dict(optimizer="lion"), "optimizer: found 'lion'"),
        (dict(precision="fp8"), "precision: found 'fp8'"),
        (dict(schedule="x"), "schedule: found 'x'"),
    ],
)
def test_wrong_arguments_are_refused_before_the_first_step(change, message):
    net, x, y = toy()
    with pytest.raises(ValueError, match=message):
        fit(net, (x, y), loss=cross_entropy, epochs=1, batch_size=4, lr=0.1, **change)


def test_tensors_of_unequal_length_are_refused():
    net, x, y = toy()
    with pytest.raises(ValueError, match="unequal length"):
        fit(net, (x, y[:-1]), loss=cross_entropy, epochs=1, batch_size=4, lr=0.1)


def test_a_loss_of_one_entry_is_the_same_as_a_scalar():
    found = []
    for shape in ((), (1,)):
        net, x, y = toy(samples=16)
        found.append(
            fit(
                net,
                (x, y),
                loss=lambda z, y, shape=shape: cross_entropy(z, y).reshape(shape),
                epochs=1,
                batch_size=2,
                lr=0.0,
            )
        )
    assert found[0].history == found[1].history
    net, x, y = toy()
    fitted = fit(net, (x, y), loss=lambda z, y: z.sum().reshape(1) * math.nan, epochs=1, batch_size=4, lr=0.1)
    assert (fitted.outcome, fitted.outcome_step) == ("diverged", 1)
