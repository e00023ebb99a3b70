"""Statistics of gradients against all of them stacked, the state that is left alone, and what each tensor is called."""

import copy
import gc
import math
from itertools import count as counter

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn.functional import cross_entropy

from relearn.measures.gradient_statistics import COLUMNS, KINDS, gradient_statistics
from relearn.models import create


class Small(nn.Module):
    """Convolution, both kinds of normalisation, dropout and a scalar parameter; float64."""

    def __init__(self, dropout: float = 0.5) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 3, 3)
        self.bn = nn.BatchNorm2d(3)
        self.drop = nn.Dropout(dropout)
        self.gain = nn.Parameter(torch.tensor(0.7))
        self.ln = nn.LayerNorm(12)
        self.head = nn.Linear(12, 4)
        self.double()

    def forward(self, x):
        x = self.drop(self.bn(self.conv(x)).relu()).flatten(1)
        return self.head(self.gain * self.ln(x))


def batches(number: int, seed: int = 0, size: int = 6):
    generator = torch.Generator().manual_seed(seed)
    for _ in range(number):
        x = torch.randn(size, 1, 4, 4, generator=generator, dtype=torch.float64)
        yield x, torch.randint(0, 4, (size,), generator=generator)


def small(seed: int = 0) -> Small:
    torch.manual_seed(seed)
    return Small()


def stacked(model, given) -> dict[str, torch.Tensor]:
    """Every minibatch's gradient, kept: the slow truth. Training mode with dropout 0 is what is meant."""
    model = copy.deepcopy(model).train()
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    found: dict[str, list[torch.Tensor]] = {name: [] for name, _ in model.named_parameters()}
    for x, y in given:
        model.zero_grad()
        cross_entropy(model(x), y).backward()
        for name, one in model.named_parameters():
            found[name].append(one.grad.clone())
    return {name: torch.stack(all_of_it) for name, all_of_it in found.items()}


@given(st.integers(2, 7), st.integers(0, 1000))
@settings(max_examples=20)
def test_one_pass_gives_what_all_gradients_give(number, seed):
    model = small(seed)
    rows = gradient_statistics(model, cross_entropy, batches(number, seed), count=number)
    truth = stacked(model, batches(number, seed))
    assert [row["name"] for row in rows] == list(truth)
    for row in rows:
        all_of_it, weight = truth[row["name"]], model.get_parameter(row["name"]).detach()
        std = float(all_of_it.std(0, correction=1).mean())
        size = float(all_of_it.mean(0).abs().mean())
        assert tuple(row) == COLUMNS
        assert row["gradient_std"] == pytest.approx(std, rel=1e-9, abs=1e-12)
        assert row["gradient_abs_mean"] == pytest.approx(size, rel=1e-9, abs=1e-12)
        if size > 1e-12:
            assert row["relative_std"] == pytest.approx(std / size, rel=1e-8)
        assert row["weight_abs_mean"] == pytest.approx(float(weight.abs().sum()) / weight.numel())
        assert row["weight_norm"] == pytest.approx(math.sqrt(float(weight.square().sum())))
        assert row["numel"] == weight.numel()


def test_linear_regression_has_the_statistics_of_its_closed_form():
    """Loss mean of (w x - y)² / 2 over a minibatch of one: gradient x (w x - y), known without autograd."""
    model = nn.Linear(1, 1, bias=False).double()
    x = torch.tensor([1.0, -2.0, 0.5, 3.0], dtype=torch.float64)
    y = torch.tensor([0.3, 1.0, -1.0, 2.0], dtype=torch.float64)
    given = [(x[i].reshape(1, 1), y[i].reshape(1, 1)) for i in range(4)]
    (row,) = gradient_statistics(model, lambda out, goal: ((out - goal) ** 2).mean() / 2, given, count=4)
    gradients = x * (float(model.weight.detach()) * x - y)
    assert row["gradient_std"] == pytest.approx(float(gradients.std()))
    assert row["gradient_abs_mean"] == pytest.approx(abs(float(gradients.mean())))


def test_a_large_common_mean_does_not_drown_the_deviation():
    """Welford in float32: sums of squares would lose σ = 1e-3 next to a mean of 1e3."""
    model = nn.Linear(4, 1, bias=False)
    noise = torch.randn(50, 4, generator=torch.Generator().manual_seed(1)) * 1e-2
    given = [((1e3 + row).reshape(1, 4), None) for row in noise]
    (row,) = gradient_statistics(model, lambda out, _: out.sum(), given, count=50)
    kept = torch.stack([x[0] for x, _ in given]).double()  # as float32 rounds the inputs, the gradient
    assert row["gradient_std"] == pytest.approx(float(kept.std(0).mean()), rel=1e-3)


def test_relative_std_of_gradients_without_a_mean_saturates_with_the_number_of_minibatches():
    number = 40
    model = nn.Linear(4000, 1, bias=False).double()
    noise = torch.randn(number, 1, 4000, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    (row,) = gradient_statistics(model, lambda out, _: out.sum(), [(x, None) for x in noise], count=number)
    assert row["relative_std"] == pytest.approx(math.sqrt(math.pi * number / 2), rel=0.03)


@pytest.mark.parametrize("training", [True, False])
def test_nothing_is_left_behind(training):
    model = small().train(training)
    model.drop.train(not training)  # a mode that is not the model's own is found again too
    for _ in range(2):
        model(next(iter(batches(1)))[0])
    before = copy.deepcopy(model.state_dict())
    modes = [module.training for module in model.modules()]
    torch.manual_seed(5)
    state = torch.get_rng_state()
    gradient_statistics(model, cross_entropy, batches(3), count=3)
    assert all(torch.equal(before[name], one) for name, one in model.state_dict().items())
    assert [module.training for module in model.modules()] == modes
    assert model.bn.track_running_stats and all(one.grad is None for one in model.parameters())
    assert torch.equal(torch.get_rng_state(), state)


def test_modes_are_found_again_after_an_error():
    model = small().train()
    with pytest.raises(RuntimeError):
        gradient_statistics(model, cross_entropy, [(torch.zeros(2, 9, 4, 4).double(), None)], count=2)
    assert all(module.training for module in model.modules()) and model.bn.track_running_stats


def test_batch_normalisation_sees_the_batch_and_dropout_nothing():
    """Rescaling the convolution before BN leaves the head's gradient as it is: so only on batch statistics."""
    model = small()

    def measured() -> dict[str, float]:
        rows = gradient_statistics(model, cross_entropy, batches(3), count=3)
        return {row["name"]: row["gradient_std"] for row in rows}

    before = measured()
    with torch.no_grad():
        model.conv.weight.mul_(100.0)
        model.conv.bias.mul_(100.0)
    after = measured()
    assert after["head.weight"] == pytest.approx(before["head.weight"], rel=1e-3)
    assert after["conv.weight"] == pytest.approx(before["conv.weight"] / 100, rel=1e-2)
    assert measured() == after  # dropout at 0.5 would not repeat itself


def test_two_tensors_are_kept_beside_each_parameter_however_many_minibatches():
    gc.freeze()  # what was there before is not looked at: there may be a million objects of other tests
    model = nn.Linear(13, 7, bias=False).double()  # a shape that nothing else here has
    alive: list[int] = []

    def loss(out, _):
        gc.collect()
        tensors = [one for one in gc.get_objects() if type(one) in (torch.Tensor, nn.Parameter)]
        alive.append(sum(one.shape == (7, 13) for one in tensors))
        return out.square().mean()

    x = torch.randn(6, 4, 13, dtype=torch.float64)
    try:
        gradient_statistics(model, loss, [(one, None) for one in x], count=6)
    finally:
        gc.unfreeze()
    assert alive == [3] * 6  # the weight, the mean, the sum of squares


def test_no_more_minibatches_are_drawn_than_asked_for():
    taken = counter()

    def endless():
        for batch in batches(100):
            next(taken)
            yield batch

    gradient_statistics(small(), cross_entropy, endless(), count=4)
    assert next(taken) == 4


class Pair(nn.Module):
    """Two inputs, a shared embedding, a frozen and an unused tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(5, 3)
        self.q, self.k, self.v, self.out = (nn.Linear(3, 3) for _ in range(4))
        self.fc1, self.fc2 = nn.Linear(3, 6), nn.Linear(6, 3)
        self.norm = nn.LayerNorm(3)
        self.skip = nn.Parameter(torch.ones(3))
        self.frozen = nn.Parameter(torch.ones(3), requires_grad=False)
        self.unused = nn.Parameter(torch.ones(2, 2))
        self.output = nn.Linear(3, 5, bias=False)
        self.output.weight = self.embedding.weight

    def forward(self, a, b):
        a, b = self.embedding(a), self.embedding(b)
        x = self.out(self.v(b) * torch.sigmoid(self.q(a) * self.k(b))) + self.skip * a
        return self.output(self.norm(self.fc2(self.fc1(x).relu())))


def test_each_tensor_once_with_kind_and_group():
    torch.manual_seed(0)
    tokens = torch.randint(0, 5, (4, 7, 2))
    given = [((row[:, 0], row[:, 1]), row[:, 0]) for row in tokens]
    rows = gradient_statistics(Pair(), cross_entropy, given, count=4)
    found = {row["name"]: (row["kind"], row["group"]) for row in rows}
    assert found == {
        "skip": ("scalar", "scalar"),
        "unused": ("linear", "linear"),
        "embedding.weight": ("embedding", "embedding"),
        "norm.weight": ("norm", "layer_norm"),
        "norm.bias": ("bias", "layer_norm"),
        **{
            f"{one}.{own}": (kind, one)
            for one in ("q", "k", "v", "out", "fc1", "fc2")
            for own, kind in (("weight", "linear"), ("bias", "bias"))
        },
    }
    assert [row["index"] for row in rows] == list(range(len(rows)))
    unused = next(row for row in rows if row["name"] == "unused")
    assert unused["gradient_std"] == 0 and unused["relative_std"] is None
    kinds = {row["kind"] for row in rows}
    assert kinds <= set(KINDS)


def test_a_tensor_that_only_some_minibatches_reach_counts_zero_in_the_others():
    class Sometimes(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(2))

        def forward(self, x):
            return (x * self.a).sum() + ((x * self.b).sum() if x.sum() > 0 else 0)

    given = [(torch.full((2,), value), None) for value in (1.0, -1.0, 3.0)]
    rows = gradient_statistics(Sometimes(), lambda out, _: out, given, count=3)
    assert rows[0]["gradient_abs_mean"] == pytest.approx(1.0)  # (1 - 1 + 3) / 3
    assert rows[1]["gradient_abs_mean"] == pytest.approx(4 / 3)  # (1 + 0 + 3) / 3
    assert rows[1]["gradient_std"] == pytest.approx(float(torch.tensor([1.0, 0.0, 3.0]).std()))


def test_the_models_of_this_package_are_distinguished():
    net = create("ResNet18", width=0.125, depth=0.25)
    generator = torch.Generator().manual_seed(0)
    given = [
        (torch.rand(4, 3, 8, 8, generator=generator), torch.randint(0, 10, (4,), generator=generator))
        for _ in range(2)
    ]
    rows = gradient_statistics(net, cross_entropy, given, count=2)
    assert {(row["kind"], row["group"]) for row in rows} == {
        ("linear", "conv"),
        ("norm", "batch_norm"),
        ("bias", "batch_norm"),
        ("linear", "head"),
        ("bias", "head"),
    }
    assert sum(row["numel"] for row in rows) == sum(one.numel() for one in net.parameters())


@pytest.mark.parametrize(
    ("model", "number", "count", "match"),
    [
        (Small(), 3, 1, "count: 1"),
        (Small(), 2, 3, "batches: 2 minibatches; 3 are needed"),
        (nn.ReLU(), 3, 2, "no parameter"),
    ],
)
def test_wrong_arguments_are_refused(model, number, count, match):
    with pytest.raises(ValueError, match=match):
        gradient_statistics(model, cross_entropy, batches(number), count=count)


def test_a_loss_that_is_no_scalar_is_refused():
    with pytest.raises(ValueError, match="scalar"):
        gradient_statistics(
            small(), lambda out, y: cross_entropy(out, y, reduction="none"), batches(2), count=2
        )
