"""The training loop's options: length, schedule, clipping, groups, sources, evaluation, what is refused."""

import contextlib
import itertools
import math
import zlib

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils._python_dispatch import TorchDispatchMode

from relearn.methods.fit import fit, plain_gradient
from relearn.methods.mixing import mixup
from relearn.methods.schedules import learning_rate
from relearn.steps.trained.recipe import SgdEpochs


def toy(samples: int = 12):
    torch.manual_seed(0)
    x = torch.randn(samples, 5, dtype=torch.float64)
    y = torch.randint(0, 3, (samples,))
    net = nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.Dropout(0.3), nn.Linear(8, 3)).double()
    return net, x, y


def rates(**settings) -> list[float]:
    """The learning rate of every step, read off the optimiser: an SGD step on a gradient of one moves by it."""
    net = nn.Linear(1, 1, bias=False).double()
    nn.init.zeros_(net.weight)
    where = [0.0]

    def one(model, loss, batch):
        where.append(float(net.weight.detach()))
        net.weight.grad = torch.ones_like(net.weight)
        return torch.zeros(())

    data = (torch.zeros(12, 1, dtype=torch.float64),)
    fitted = fit(net, data, loss=None, batch_size=4, lr=0.5, momentum=0.0, gradient=one, **settings)
    where.append(float(net.weight.detach()))
    assert fitted.steps == len(where) - 2
    assert not fitted.history or fitted.history[-1]["step"] == fitted.steps
    return [a - b for a, b in itertools.pairwise(where[1:])]


def test_length_and_schedule_are_apart():
    cosine = [learning_rate(0.5, "cosine", t, 9) for t in range(9)]
    assert rates(epochs=3) == pytest.approx(cosine)
    assert rates(steps=9) == pytest.approx(cosine)
    assert rates(epochs=3, steps=5) == pytest.approx(cosine[:5])
    assert rates(steps=5, schedule_steps=9) == pytest.approx(cosine[:5])
    assert rates(epochs=1, steps=50) == pytest.approx([learning_rate(0.5, "cosine", t, 3) for t in range(3)])
    assert rates(epochs=0) == []


def test_warm_up_and_milestones_reach_the_optimiser():
    found = rates(epochs=3, schedule="step", milestones=(1, 2), warmup_steps=2)
    assert found == pytest.approx([0.25, 0.5, 0.5, *[0.05] * 3, *[0.005] * 3])


def test_factors_of_the_rate_reach_the_optimiser_at_every_step():
    moved = {}
    for factor in (1.0, 0.1):
        net, x, y = toy()
        before = net[3].bias.detach().clone()
        scale = {"3.bias": factor}
        fit(net, (x, y), loss=cross_entropy, steps=1, batch_size=12, lr=0.5, momentum=0.0, lr_scale=scale)
        moved[factor] = net[3].bias.detach() - before
    torch.testing.assert_close(moved[0.1], 0.1 * moved[1.0], rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize("clip", [0.1, 1.0e6])
def test_clipping_scales_the_whole_gradient_and_the_norm_before_it_is_written_down(clip):
    """g min(1, c / (‖g‖ + 1e-6)), over all parameters at once."""
    net, x, y = toy()
    net.eval()
    gradients = torch.autograd.grad(cross_entropy(net(x), y), list(net.parameters()))
    norm = math.sqrt(sum(float((g * g).sum()) for g in gradients))
    expected = [
        p.detach() - 0.5 * g * min(1.0, clip / (norm + 1e-6)) for p, g in zip(net.parameters(), gradients)
    ]
    settings = dict(loss=cross_entropy, steps=1, batch_size=12, lr=0.5, momentum=0.0, training_mode=False)
    fitted = fit(net, (x, y), clip_norm=clip, **settings)
    assert fitted.history[0]["gradient_norm"] == pytest.approx(norm)
    for ours, truth in zip(net.parameters(), expected, strict=True):
        torch.testing.assert_close(ours.detach(), truth, rtol=1e-9, atol=1e-12)


def test_an_infinite_clip_only_watches():
    ends = []
    for clip in (None, math.inf):
        net, x, y = toy()
        fitted = fit(net, (x, y), loss=cross_entropy, epochs=2, batch_size=4, lr=0.1, clip_norm=clip)
        ends.append(net[0].weight.detach().clone())
        assert ("gradient_norm" in fitted.history[0]) is (clip is not None)
    assert torch.equal(*ends)


class Sentences:
    """Batches of varying numbers of rows, whose input is a pair."""

    batches_per_epoch = 3

    def epoch(self, generator):
        for count in (2, 5, 1):
            x = torch.randn(count, 4, generator=generator, dtype=torch.float64)
            yield (x, x.flip(1)), torch.randint(0, 3, (count,), generator=generator)


class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.one, self.two = nn.Linear(4, 3).double(), nn.Linear(4, 3).double()

    def forward(self, a, b):
        return self.one(a) - self.two(b)


@pytest.mark.parametrize("terms", [None, lambda target: (target > 0).sum(), lambda target: 7.0])
def test_a_source_is_gone_through_and_its_mean_loss_is_weighted(terms):
    values, weights = [], []

    def watch(model, loss, batch):
        values.append(plain_gradient(model, loss, batch))
        weights.append(float(terms(batch[1])) if terms else len(batch[1]))
        return values[-1]

    fitted = fit(Pair(), Sentences(), loss=cross_entropy, epochs=2, lr=0.1, gradient=watch, terms=terms)
    assert fitted.steps == len(values) == 6
    for row, part in zip(fitted.history, (slice(0, 3), slice(3, 6)), strict=True):
        mean = sum(w * float(v) for w, v in zip(weights[part], values[part])) / sum(weights[part])
        assert row["loss"] == pytest.approx(mean, rel=1e-12)


def test_a_tuple_input_trains_as_the_same_model_by_hand():
    net, truth = Pair(), Pair()
    fit(net, Sentences(), loss=cross_entropy, steps=1, lr=0.1, seed=0, momentum=0.0, schedule="constant")
    generator = torch.Generator().manual_seed(zlib.crc32(b"0/0"))
    (a, b), y = next(Sentences().epoch(generator))
    cross_entropy(truth(a, b), y).backward()
    for ours, theirs in zip(net.parameters(), truth.parameters(), strict=True):
        torch.testing.assert_close(ours.detach(), theirs.detach() - 0.1 * theirs.grad, rtol=1e-12, atol=1e-15)


def test_mixed_labels_reach_the_loss():
    seen = []

    def loss(output, target):
        seen.append(target)
        return cross_entropy(output, target)

    net, x, y = toy()
    fit(net, (x, y), loss=loss, steps=2, batch_size=6, lr=0.1, mix=mixup(1.0, 3))
    assert all(t.shape == (6, 3) and torch.allclose(t.sum(1), torch.ones(6).double()) for t in seen)
    assert any(((t > 0) & (t < 1)).any() for t in seen)


@pytest.mark.parametrize("epochs", [1, 2, 3, 4, 5])
def test_a_step_schedule_falls_after_a_half_and_three_quarters_of_any_number_of_epochs(epochs):
    recipe = SgdEpochs(epochs=epochs, lr=0.5, momentum=0.0, weight_decay=0.0, schedule="step")
    found = rates(epochs=epochs, schedule="step", milestones=recipe.fit_arguments()["milestones"])
    length = 3 * epochs
    tenths = [(2 * t >= length) + (4 * t >= 3 * length) for t in range(length)]
    assert found == pytest.approx([0.5 * 0.1**tenth for tenth in tenths]) and tenths[0] == 0


def test_rows_of_the_history_by_epochs_or_by_steps_and_evaluation_among_them():
    settings = dict(loss=cross_entropy, batch_size=4, lr=0.1)
    calls = []

    def evaluate(model):
        assert not model.training and not torch.is_grad_enabled()
        calls.append(float(torch.rand(())))
        return {"accuracy": 0.5}

    net, x, y = toy()
    history = fit(net, (x, y), epochs=3, evaluate=evaluate, evaluate_every=2, **settings).history
    assert [row["step"] for row in history] == [3, 6, 9]
    assert [row["epoch"] for row in history] == [1, 2, 3]
    assert ["accuracy" in row for row in history] == [False, True, True]  # every second one, and the last one
    plain = fit(toy()[0], (x, y), epochs=3, **settings).history
    assert [row["loss"] for row in history] == [row["loss"] for row in plain]
    seen = []
    by_steps = fit(
        toy()[0],
        (x, y),
        epochs=3,
        history_steps=2,
        evaluate=evaluate,
        log=lambda step, **row: seen.append((step, row)),
        **settings,
    ).history
    assert [row["step"] for row in by_steps] == [2, 4, 6, 8, 9]
    assert [row["epoch"] for row in by_steps] == pytest.approx([2 / 3, 4 / 3, 2, 8 / 3, 3])
    assert [step for step, _ in seen] == [2, 4, 6, 8, 9]
    assert set(seen[0][1]) == {"loss", "lr", "accuracy"}
    pairs = zip(by_steps, (2, 2, 2, 2, 1))
    total = sum(
        row["loss"] * steps for row, steps in pairs
    )  # although evaluation drew from the global generator
    assert total == pytest.approx(sum(row["loss"] * 3 for row in plain), rel=1e-12)


@pytest.mark.parametrize("by", [{"epochs": 2}, {"steps": 6}])
def test_the_last_row_is_evaluated_where_steps_end_rows(by):
    net, x, y = toy()
    settings = dict(loss=cross_entropy, batch_size=4, lr=0.1, history_steps=2, evaluate_every=2)
    history = fit(net, (x, y), evaluate=lambda model: {"accuracy": 0.5}, **by, **settings).history
    assert [row["step"] for row in history] == [2, 4, 6]
    assert ["accuracy" in row for row in history] == [False, True, True]


def test_masks_are_the_cheap_ones_in_training_and_the_layer_is_afterwards_as_it_was():
    seen = []

    def watching(model, loss, batch):
        seen.append("forward" in vars(model[1]))
        return plain_gradient(model, loss, batch)

    net = nn.Sequential(nn.Linear(3, 8), nn.Dropout(0.5), nn.Linear(8, 2))
    data = torch.randn(8, 3), torch.arange(8) % 2
    fit(net, data, loss=cross_entropy, steps=2, batch_size=4, lr=0.1, gradient=watching)
    assert seen == [True, True] and "forward" not in vars(net[1])


@pytest.mark.parametrize("check_every", [1, 4, 100])
@pytest.mark.parametrize("bad,above", [(float("inf"), None), (float("nan"), None), (50.0, 40.0)])
def test_a_divergence_found_late_has_its_exact_step(check_every, bad, above):
    calls = []

    def explode(model, loss, batch):
        calls.append(1)
        return plain_gradient(model, loss, batch) * 0 + (bad if len(calls) in (7, 8, 10) else 1.0)

    net, x, y = toy(60)
    settings = dict(loss=cross_entropy, epochs=2, batch_size=4, lr=0.1, gradient=explode)
    fitted = fit(net, (x, y), diverged_above=above, check_every=check_every, **settings)
    assert (fitted.outcome, fitted.outcome_step, fitted.history) == ("diverged", 7, [])
    assert fitted.steps == min(15, math.ceil(7 / check_every) * check_every)


def test_a_large_loss_alone_is_no_divergence():
    net, x, y = toy()
    fitted = fit(net, (x, y), loss=lambda z, t: cross_entropy(z, t) + 50, epochs=1, batch_size=4, lr=0.1)
    assert fitted.outcome == "ok"


@pytest.mark.parametrize("options", [{"clip_norm": 1.0}, {"average": 0.9}])
def test_no_step_waits_for_the_device(options):
    """Reading a number from a tensor is what would wait; there are as many readings in 60 steps as in 15."""

    class Readings(TorchDispatchMode):
        count = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            self.count += func is torch.ops.aten._local_scalar_dense.default
            return func(*args, **(kwargs or {}))

    counts = []
    for samples in (60, 240):
        net, x, y = toy(samples)
        with Readings() as readings:
            fit(net, (x, y), loss=cross_entropy, epochs=1, batch_size=4, lr=0.1, **options)
        counts.append(readings.count)
    assert counts[0] == counts[1]


@pytest.mark.parametrize(
    "change,message",
    [
        (dict(epochs=None), "epochs, steps: both missing"),
        (dict(epochs=-1), "found a length of -3 steps"),
        (dict(epochs=1.5), "found a length of 4.5 steps, allowed is an integer"),
        (dict(batch_size=None), "batch_size: missing"),
        (dict(clip_norm=0.0), "clip_norm: found 0.0"),
        (dict(checkpoint_steps=0), "checkpoint_steps: found 0"),
        (dict(history_steps=0), "history_steps: found 0"),
        (dict(decay="some"), "decay: found 'some'"),
        (dict(warmup_steps=-2), "warmup_steps: found -2"),
        (dict(lr_scale={"x*": 1.0}), "'x\\*' matches no parameter"),
    ],
)
def test_wrong_arguments_are_refused_before_the_first_step(change, message):
    net, x, y = toy()
    settings = {**dict(loss=cross_entropy, epochs=1, batch_size=4, lr=0.1), **change}
    with pytest.raises(ValueError, match=message):
        fit(net, (x, y), **settings)


def test_a_source_wants_no_batch_size_and_must_have_a_batch():
    with pytest.raises(ValueError, match="the source makes the batches"):
        fit(Pair(), Sentences(), loss=cross_entropy, epochs=1, batch_size=4, lr=0.1)

    class Nothing(Sentences):
        def epoch(self, generator):
            return iter(())

    with pytest.raises(ValueError, match="epoch 1 has no batch"):
        fit(Pair(), Nothing(), loss=cross_entropy, steps=4, lr=0.1)


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("mode", [False, True])
def test_modes_and_the_global_generator_are_afterwards_what_they_were(mode, fails):
    """Also for a submodule in another mode, and after an error."""
    net, x, y = toy()
    net = torch.nn.Sequential(net, torch.nn.Dropout(0.5)).train(mode)
    net[1].train(not mode)
    gradients = [None, *(torch.ones_like(one) for one in list(net.parameters())[1:])]
    for one, given in zip(net.parameters(), gradients):
        one.grad = given
    torch.manual_seed(11)
    state = torch.get_rng_state()
    loss = (lambda z, t: 1 / 0) if fails else cross_entropy
    with pytest.raises(ZeroDivisionError) if fails else contextlib.nullcontext():
        fit(net, (x, y), loss=loss, epochs=2, batch_size=4, lr=0.1)
    assert [one.training for one in (net, net[0], net[1])] == [mode, mode, not mode]
    assert torch.equal(torch.get_rng_state(), state)
    assert all(one.grad is given for one, given in zip(net.parameters(), gradients))


MISTAKEN = {
    "a loader": (
        lambda x, y: {"data": torch.utils.data.DataLoader([*zip(x, y)], batch_size=4)},
        r"data: found a DataLoader \(allowed: .*docs/training.md\)",
    ),
    "a tensor": (
        lambda x, y: {"data": x, "batch_size": 4},
        r"data: found Tensor \(allowed: a tuple of tensors.*\)",
    ),
    "arrays": (
        lambda x, y: {"data": (x.numpy(), y), "batch_size": 4},
        r"data: found a ndarray among its items \(allowed: tensors\)",
    ),
    "an optimiser": (
        lambda x, y: {
            "data": (x, y),
            "batch_size": 4,
            "optimizer": torch.optim.SGD([torch.nn.Parameter(x)], lr=0.1),
        },
        r"optimizer: found an object, SGD \(allowed: a name: sgd, adam, .*\)",
    ),
}


@pytest.mark.parametrize("name", MISTAKEN)
def test_what_torch_users_give_first_is_answered_in_a_line(name):
    net, x, y = toy()
    made, said = MISTAKEN[name]
    given = made(x, y)
    with pytest.raises(TypeError, match=f"^{said}$"):
        fit(net, given.pop("data"), loss=cross_entropy, epochs=1, lr=0.1, **given)


def test_a_loss_without_a_gradient_and_one_of_many_entries_are_named():
    net, x, y = toy()
    with pytest.raises(ValueError, match=r"loss: returns shape \(12,\) \(allowed: a scalar tensor"):
        plain_gradient(net, lambda z, t: z.sum(1), (x, y))
    with torch.no_grad(), pytest.raises(ValueError, match="loss: has no gradient"):
        fit(net, (x, y), loss=cross_entropy, epochs=1, batch_size=4, lr=0.1)
