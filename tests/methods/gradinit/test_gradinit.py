"""GradInit as a procedure: against a slow re-implementation, what it leaves alone, its ablations, bad input."""

import copy
import itertools
import math
from collections import namedtuple

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy, mse_loss
from torch.utils.checkpoint import checkpoint

from relearn.methods.gradinit import gradinit

FLOAT = torch.float64


def smooth(seed=0, kind=nn.Sequential):
    """A small network that is differentiable everywhere."""
    torch.manual_seed(seed)
    return kind(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3)).to(FLOAT)


def pools(count, size=9, features=6, classes=3, seed=1):
    generator = None if seed is None else torch.Generator().manual_seed(seed)
    for _ in range(count):
        x = torch.randn(size, features, generator=generator, dtype=FLOAT)
        yield x, torch.randint(0, classes, (size,), generator=generator)


def slow(
    model, pools, *, optimizer, eta, gamma, tau, form="constraint", penalty=1.0, normalised=False, low=0.01
):
    """Algorithm 4 as it is written: autograd through the scales themselves, one Adam, nothing clever."""
    start = {name: p.detach().clone() for name, p in model.named_parameters()}
    live = [name for name, p in start.items() if p.norm() > 0]
    scales = {name: torch.ones((), dtype=FLOAT, requires_grad=True) for name in live}
    adam = torch.optim.Adam(scales.values(), lr=tau)
    kinds = []

    def bound():
        return {
            name: scales[name] * p if name in scales else p.clone().requires_grad_()
            for name, p in start.items()
        }

    for x, y in pools:
        size = 2 * len(x) // 3
        theta = bound()
        loss = cross_entropy(torch.func.functional_call(model, theta, (x[:size],)), y[:size])
        g = dict(zip(theta, torch.autograd.grad(loss, list(theta.values()), create_graph=True)))
        flat = torch.cat([one.flatten() for one in g.values()])
        norm = flat.abs().sum() if optimizer == "adam" else flat.square().sum().sqrt()
        if optimizer == "adam":
            step = {name: one.sign().detach() for name, one in g.items()}
        else:
            step = {name: (one / norm if normalised else one).detach() for name, one in g.items()}
        ahead = {name: theta[name] - eta * step[name] for name in theta}
        second = cross_entropy(torch.func.functional_call(model, ahead, (x[-size:],)), y[-size:])
        if form == "penalty":
            total, kind = second + penalty * norm, "penalty"
        else:
            total, kind = (norm, "constraint") if norm > gamma else (second, "objective")
        adam.zero_grad()
        total.backward()
        adam.step()
        with torch.no_grad():
            for one in scales.values():
                one.clamp_(min=low)
        kinds.append(kind)
    return {name: one.item() for name, one in scales.items()}, kinds


@pytest.mark.parametrize(
    "settings",
    [
        dict(optimizer="sgd", eta=0.5, gamma=0.9),
        dict(optimizer="sgd", eta=0.5, gamma=0.9, normalised=True),
        dict(optimizer="adam", eta=0.05, gamma=3.6),
        dict(optimizer="sgd", eta=0.5, gamma=1.0, form="penalty", penalty=0.3),
        dict(optimizer="adam", eta=0.05, gamma=1.0, form="penalty", penalty=0.3),
    ],
    ids=lambda settings: "-".join(f"{value}" for value in settings.values()),
)
def test_it_does_what_the_algorithm_says(settings):
    """Twelve iterations with branches of both kinds, factors equal to rounding."""
    model, reference = smooth(), smooth()
    with torch.no_grad():
        for one in (model, reference):
            one[0].weight.mul_(3)
    expected, kinds = slow(reference, pools(12), tau=0.05, **settings)
    result = gradinit(model, cross_entropy, pools(12), tau=0.05, iterations=12, **settings)
    assert [row["kind"] for row in result.history] == kinds
    if "form" not in settings:
        assert set(kinds) == {"objective", "constraint"}  # else the test says little
    assert result.scales == pytest.approx(expected, abs=1e-10)
    for name, parameter in model.named_parameters():
        start = dict(reference.named_parameters())[name]
        assert torch.allclose(parameter, start * expected[name], atol=1e-10)


def test_the_constraint_is_reached_and_then_the_objective_falls():
    """A network whose gradient explodes is brought below γ, and the loss after a step is lower than before."""
    torch.manual_seed(0)
    model = nn.Sequential(
        *[one for _ in range(6) for one in (nn.Linear(16, 16), nn.ReLU())], nn.Linear(16, 4)
    )
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2.5)
    x = torch.randn(600, 16)
    y = x[:, :4].argmax(1)

    def draws():
        generator = torch.Generator().manual_seed(0)
        while True:
            rows = torch.randint(0, 600, (96,), generator=generator)
            yield x[rows], y[rows]

    history = gradinit(model, cross_entropy, draws(), tau=0.05, iterations=150).history
    assert history[0]["kind"] == "constraint" and history[0]["gradient_norm"] > 2
    late = history[-50:]
    assert sum(row["gradient_norm"] <= 1.0 for row in late) > 25
    objectives = [row["objective"] for row in history if row["kind"] == "objective"]
    assert sum(objectives[-5:]) / 5 < history[0]["loss"]
    assert sum(objectives[-5:]) < sum(objectives[:5])


def test_without_a_bound_every_iteration_is_an_objective():
    result = gradinit(smooth(), cross_entropy, pools(5), gamma=math.inf, iterations=5)
    assert [row["kind"] for row in result.history] == ["objective"] * 5
    assert all(set(row) == {"step", "kind", "loss", "gradient_norm", "objective"} for row in result.history)


def test_objective_iterations_build_no_second_order_graph(monkeypatch):
    calls, plain = [], torch.autograd.grad

    def seen(*args, create_graph=False, **kwargs):
        calls.append(create_graph)
        return plain(*args, create_graph=create_graph, **kwargs)

    monkeypatch.setattr(torch.autograd, "grad", seen)
    gradinit(smooth(), cross_entropy, pools(4), gamma=math.inf, iterations=4)
    assert calls == [False] * 8  # two backward passes an iteration
    calls.clear()
    result = gradinit(smooth(), cross_entropy, pools(3), gamma=1e-3, iterations=3)
    assert {row["kind"] for row in result.history} == {"constraint"}
    assert calls == [False, True, False] * 3  # the negative control: here there is one


class Counted(torch.autograd.Function):
    """The identity, that counts how often a graph through its backward pass is made."""

    made = 0

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        Counted.made += torch.is_grad_enabled()
        return gradient


class Watched(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = smooth()

    def forward(self, x):
        return Counted.apply(self.inner(x))


@pytest.mark.parametrize("gamma", [math.inf, 1e-3])
def test_whether_a_second_graph_is_made_is_seen_from_inside_the_network(gamma):
    Counted.made = 0
    gradinit(Watched(), cross_entropy, pools(3), gamma=gamma, iterations=3)
    assert Counted.made == (0 if gamma == math.inf else 3)


class Everything(nn.Module):
    """Convolution, batch normalisation, Dropout, a tied weight, a buffer, a frozen and an unused parameter."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.drop = nn.Dropout(0.5)
        self.a = nn.Linear(4, 4, bias=False)
        self.b = nn.Linear(4, 4, bias=False)
        self.b.weight = self.a.weight
        self.head = nn.Linear(4, 3)
        self.unused = nn.Parameter(torch.ones(2))
        self.frozen = nn.Parameter(torch.full((4,), 2.0), requires_grad=False)
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x, shift):
        self.seen += 1
        x = self.drop(self.norm(self.conv(x))).relu().mean((2, 3)) * self.frozen
        return self.head(self.b(self.a(x) + shift).tanh())


def images(count, size=12):
    generator = torch.Generator().manual_seed(3)
    for _ in range(count):
        x = torch.randn(size, 1, 6, 6, generator=generator)
        shift = torch.randn(size, 4, generator=generator)
        yield (x, shift), torch.randint(0, 3, (size,), generator=generator)


@pytest.mark.parametrize("gamma", [math.inf, 0.05])
@pytest.mark.parametrize("training", [True, False])
def test_nothing_but_the_parameters_changes(gamma, training):
    torch.manual_seed(0)
    model = Everything().train(training)
    model.conv.eval()  # a mode of its own
    before = copy.deepcopy(model)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    torch.manual_seed(5)
    state = torch.get_rng_state()
    result = gradinit(model, cross_entropy, images(4), gamma=gamma, iterations=4, tau=0.1)
    assert torch.equal(torch.get_rng_state(), state)
    assert [m.training for m in model.modules()] == [m.training for m in before.modules()]
    assert model.norm.track_running_stats
    for name, buffer in before.named_buffers():
        assert torch.equal(buffer, dict(model.named_buffers())[name]), name
    for name, parameter in model.named_parameters():
        assert parameter.requires_grad == (name != "frozen")
        assert torch.equal(parameter.grad, torch.ones_like(parameter))
        expected = dict(before.named_parameters())[name] * result.scales.get(name, 1.0)
        assert torch.allclose(parameter, expected), name
    # Dropout off and no draw: the same again gives the same.
    again = copy.deepcopy(before)
    assert (
        gradinit(again, cross_entropy, images(4), gamma=gamma, iterations=4, tau=0.1).scales == result.scales
    )


def test_a_tied_weight_has_one_factor_and_stays_tied():
    torch.manual_seed(0)
    model = Everything()
    result = gradinit(model, cross_entropy, images(3), iterations=3, tau=0.1)
    assert "a.weight" in result.scales and "b.weight" not in result.scales
    assert model.a.weight is model.b.weight
    # Its derivative counts both uses: with two separate copies of the weight the sum of both derivatives is the tied one.
    steps = {}
    for tied in (True, False):
        torch.manual_seed(0)
        model = Everything()
        if not tied:
            model.b.weight = nn.Parameter(model.a.weight.detach().clone())
        one = gradinit(model, cross_entropy, images(1), iterations=1, tau=1e-3, gamma=math.inf)
        steps[tied] = one.history[0]["objective"]
    assert (
        math.isfinite(steps[True]) and steps[True] != steps[False]
    )  # the look-ahead step moves the tied weight as one


@pytest.mark.parametrize("p", [0.0, 0.5])
def test_batch_statistics_are_those_of_the_batch_and_dropout_is_off(p):
    """A loss that an eval-mode batch normalisation, or Dropout, would make another one."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.Dropout(p), nn.Linear(5, 3)).to(FLOAT)
    batch = next(pools(1))
    first = gradinit(copy.deepcopy(model).eval(), cross_entropy, iter([batch]), iterations=1).history[0]
    train = copy.deepcopy(model).train()
    train[2].p = 0.0
    expected = cross_entropy(train(batch[0][:6]), batch[1][:6])
    evaluated = cross_entropy(copy.deepcopy(model).eval()(batch[0][:6]), batch[1][:6])
    assert first["loss"] == pytest.approx(expected.item(), abs=1e-12)
    assert first["loss"] != pytest.approx(evaluated.item(), abs=1e-3)


def test_zero_tensors_are_skipped_and_reported():
    model = smooth()
    nn.init.zeros_(model[2].bias)
    result = gradinit(model, cross_entropy, pools(2), iterations=2)
    assert result.skipped == ("2.bias",) and "2.bias" not in result.scales
    assert (model[2].bias == 0).all()


@pytest.mark.parametrize("scope", ["fix_norm", "only_norm"])
def test_the_scope_says_which_parameters_move(scope):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.LayerNorm(5), nn.Linear(5, 3)).to(
        FLOAT
    )
    result = gradinit(model, cross_entropy, pools(2), iterations=2, scope=scope)
    norms = {"1.weight", "3.weight"}
    linear = {"0.weight", "0.bias", "4.weight", "4.bias"}
    assert set(result.scales) == (linear if scope == "fix_norm" else norms)
    assert set(result.skipped) == (set() if scope == "fix_norm" else {"1.bias", "3.bias"})


def test_an_excluded_parameter_keeps_its_value():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3)).to(FLOAT)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    result = gradinit(model, cross_entropy, pools(3), iterations=3, exclude=("*.bias", "2.*"))
    moved = {name for name, value in model.state_dict().items() if not value.equal(before[name])}
    assert set(result.scales) == moved == {"0.weight"}


def test_the_factors_stay_between_their_bounds():
    result = gradinit(
        smooth(), cross_entropy, pools(30), iterations=30, tau=0.5, min_scale=0.4, max_scale=1.2, gamma=0.01
    )
    assert min(result.scales.values()) == 0.4 and max(result.scales.values()) <= 1.2


def test_attention_is_differentiated_twice():
    """Fused attention has no second derivative; gradinit takes plain products."""
    torch.manual_seed(0)

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv, self.head = nn.Linear(8, 24), nn.Linear(8, 3)

        def forward(self, x):
            q, k, v = self.qkv(x).view(*x.shape[:2], 3, 2, 4).permute(2, 0, 3, 1, 4)
            mixed = nn.functional.scaled_dot_product_attention(q, k, v)
            return self.head(mixed.transpose(1, 2).flatten(2).mean(1))

    generator = torch.Generator().manual_seed(0)
    batches = [(torch.randn(6, 5, 8, generator=generator), torch.arange(6) % 3) for _ in range(3)]
    result = gradinit(Attention(), cross_entropy, batches, iterations=3, gamma=1e-3)
    assert {row["kind"] for row in result.history} == {"constraint"} and result.outcome == "ok"


def test_linear_in_the_weights_the_constraint_has_no_curvature():
    """Loss = mean of w·x: g does not depend on w, so the factor stays."""
    model = nn.Linear(6, 1).to(FLOAT)
    result = gradinit(model, lambda out, y: out.mean(), pools(2), gamma=1e-9, iterations=2)
    assert set(result.scales.values()) == {1.0}


class Memory:
    def __init__(self, state=None):
        self.state = state

    def load(self):
        return copy.deepcopy(self.state)

    def save(self, state):
        self.state = copy.deepcopy(state)


class Noisy(nn.Sequential):
    def forward(self, x):
        return super().forward(x + torch.randn_like(x))


@pytest.mark.parametrize(
    ("moments", "kind", "seed"),
    [("shared", nn.Sequential, 1), ("split", Noisy, 1), ("split", nn.Sequential, None)],
    ids=["shared", "network-draws", "batches-draw"],
)
def test_a_resumed_run_is_the_uninterrupted_one(moments, kind, seed):
    settings = dict(tau=0.1, gamma=0.7, iterations=9, moments=moments)
    whole, model = smooth(kind=kind), smooth(kind=kind)
    expected = gradinit(whole, cross_entropy, pools(9, seed=seed), **settings)
    memory = Memory()

    class Killed(Exception):
        pass

    def kill(done, total):
        if done == 6:
            raise Killed

    with pytest.raises(Killed):
        saving = dict(checkpoint=memory, checkpoint_every=4, progress=kill)
        gradinit(model, cross_entropy, pools(9, seed=seed), **settings, **saving)
    assert memory.state["step"] == 4
    old = Memory({key: value for key, value in memory.state.items() if key != "random"})
    assert all(
        torch.equal(a, b) for a, b in zip(model.parameters(), smooth().parameters())
    )  # untouched so far
    resumed = gradinit(model, cross_entropy, pools(9, seed=seed), **settings, checkpoint=memory)
    assert resumed == expected
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), whole.parameters()))
    again = gradinit(smooth(kind=kind), cross_entropy, pools(9, seed=seed), **settings, checkpoint=old)
    assert (again == expected) == (kind is not Noisy)


def test_a_number_that_stops_being_finite_is_an_outcome():
    def exploding(out, y):
        count[0] += 1
        return cross_entropy(out, y) * (math.nan if count[0] > 4 else 1.0)

    count = [0]
    model, start = smooth(), smooth()
    result = gradinit(model, exploding, pools(9), iterations=9, gamma=math.inf, tau=0.1)
    assert (result.outcome, result.outcome_step) == ("diverged", 3)
    assert "not finite" in result.outcome_reason and len(result.history) == 2
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter, dict(start.named_parameters())[name] * result.scales[name])


def test_logs_and_progress_are_called_once_an_iteration():
    seen, done = [], []
    gradinit(
        smooth(),
        cross_entropy,
        pools(3),
        iterations=3,
        log=lambda step, **numbers: seen.append((step, set(numbers))),
        progress=lambda step, total: done.append((step, total)),
        gamma=math.inf,
    )
    assert seen == [(step, {"loss", "gradient_norm", "objective"}) for step in (1, 2, 3)]
    assert done == [(1, 3), (2, 3), (3, 3)]


def nothing_trainable():
    return smooth().requires_grad_(False)


def all_zero():
    model = smooth()
    for parameter in model.parameters():
        nn.init.zeros_(parameter)
    return model


def not_finite():
    model = smooth()
    with torch.no_grad():
        model[2].weight[0, 0] = math.nan
    return model


@pytest.mark.parametrize("form", ["constraint", "penalty"])
def test_the_memory_format_of_a_network_does_not_matter_and_stays(form):
    torch.manual_seed(0)
    body = [
        nn.Conv2d(3, 4, 3, bias=False),
        nn.BatchNorm2d(4),
        nn.Tanh(),
        nn.Conv2d(4, 6, 2, stride=2, groups=2),
    ]
    plain = nn.Sequential(*body, nn.Tanh(), nn.Flatten(), nn.Linear(54, 3)).to(FLOAT)
    other = copy.deepcopy(plain).to(memory_format=torch.channels_last)
    data = [(torch.rand(9, 3, 8, 8, dtype=FLOAT), torch.randint(0, 3, (9,))) for _ in range(6)]
    formats = [[one.stride() for one in net.parameters()] for net in (plain, other)]
    assert formats[0] != formats[1]
    found = [gradinit(net, cross_entropy, data, form=form, iterations=6).scales for net in (plain, other)]
    assert found[0] == pytest.approx(found[1], rel=1e-9) and found[0]["0.weight"] != 1
    assert formats == [[one.stride() for one in net.parameters()] for net in (plain, other)]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (dict(optimizer="lamb"), "optimizer: found 'lamb', allowed are sgd, adam"),
        (dict(gamma=0.0), "gamma: found 0.0, allowed: above 0"),
        (dict(gamma=-1.0), "gamma: found -1.0"),
        (dict(gamma=math.nan), "gamma: found nan"),
        (dict(eta=0.0), "eta: found 0.0"),
        (dict(eta=math.inf), "eta: found inf"),
        (dict(tau=-0.1), "tau: found -0.1"),
        (dict(iterations=0), "iterations: found 0"),
        (dict(overlap=1.5), "overlap: found 1.5, allowed: 0 to 1"),
        (dict(form="both"), "form: found 'both'"),
        (dict(form="penalty", penalty=-1.0), "penalty: found -1.0"),
        (dict(scope="bn"), "scope: found 'bn', allowed are all, fix_norm, only_norm"),
        (dict(scope="only_norm"), "no parameter in scope 'only_norm' has a norm above zero"),
        (dict(moments="three"), "moments: found 'three'"),
        (dict(precision="fp8"), "precision: found 'fp8'"),
        (dict(clip=0.0), "clip: found 0.0"),
        (dict(iterations=2.5), "iterations: found 2.5"),
        (dict(min_scale=2.0), "min_scale: found 2.0"),
        (dict(min_scale=0.0), "min_scale: found 0.0, allowed: above 0 to 1, where the factors start"),
        (dict(max_scale=0.5), "max_scale: found 0.5"),
        (dict(optimizer="adam", normalised=True), "normalised: found True with optimizer 'adam'"),
        (dict(iterations=10), "batches: they ended after 5 (allowed: 10, one an iteration"),
        (dict(model=nothing_trainable), "it has no trainable parameters"),
        (dict(model=nn.ReLU), "it has no trainable parameters"),
        (dict(model=all_zero), "has a norm above zero"),
        (dict(model=not_finite), "parameter '2.weight' is not finite"),
        (dict(loss=lambda out, y: out.sum(1)), "loss: returns shape (6,) (allowed: a scalar tensor"),
        (dict(size=1), "a pool of 1 samples is too small for overlap 0.5"),
        (dict(loss=lambda out, y: out.sum() * math.nan), "in the first iteration the loss is not finite"),
    ],
    ids=lambda one: next(iter(one)) if isinstance(one, dict) else "",
)
def test_bad_input_is_named_in_one_line(settings, said):
    settings = {"iterations": 5, **settings}
    make, size = settings.pop("model", smooth), settings.pop("size", 9)
    loss = settings.pop("loss", cross_entropy)
    model = make()
    before = copy.deepcopy(model)
    with pytest.raises(ValueError) as caught:
        gradinit(model, loss, pools(5, size=size), **settings)
    assert said in str(caught.value) and "\n" not in str(caught.value)
    for a, b in zip(model.parameters(), before.parameters()):
        assert torch.equal(a, b) or not a.isfinite().all()


def test_bf16_runs_close_to_fp32():
    torch.manual_seed(0)
    start = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3))
    batches = [(x.float(), y) for x, y in pools(6, size=30)]
    found = {}
    for precision in ("fp32", "bf16"):
        result = gradinit(
            copy.deepcopy(start),
            cross_entropy,
            batches,
            iterations=6,
            gamma=0.8,
            tau=0.02,
            precision=precision,
        )
        found[precision] = torch.tensor(list(result.scales.values()))
        assert result.outcome == "ok"
    assert not torch.equal(found["fp32"], found["bf16"])
    assert torch.allclose(found["fp32"], found["bf16"], atol=0.05)


def test_a_regression_with_nested_input_works():
    """The loss may take several targets, the input may be a tuple, a batch may hold what is no tensor."""

    class Pair(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(3, 2), nn.Linear(4, 2)

        def forward(self, x, y):
            return self.a(x) + self.b(y)

    def weighted(out, target, weight, power):
        return (weight * mse_loss(out, target, reduction="none").mean(1) ** power).mean()

    named = namedtuple("Inputs", "x y")
    batches = [
        (named(torch.randn(9, 3), torch.randn(9, 4)), torch.randn(9, 2), torch.rand(9), 1) for _ in range(4)
    ]
    result = gradinit(Pair(), weighted, itertools.chain(batches), iterations=4, tau=0.1, gamma=0.1)
    assert set(result.scales) == {"a.weight", "a.bias", "b.weight", "b.bias"} and result.outcome == "ok"


def eight_bit(count, size=9):
    generator = torch.Generator().manual_seed(3)
    return [
        (
            torch.randint(0, 256, (size, 1, 2, 3), generator=generator, dtype=torch.uint8),
            torch.randint(0, 3, (size,), generator=generator),
        )
        for _ in range(count)
    ]


def test_eight_bit_images_are_pixels_between_zero_and_one_as_in_training():
    def flat():
        torch.manual_seed(4)
        return nn.Sequential(nn.Flatten(), nn.Linear(6, 3))

    bytes_, floats = eight_bit(4), [(x.float() / 255.0, y) for x, y in eight_bit(4)]
    assert gradinit(flat(), cross_entropy, bytes_, iterations=4) == gradinit(
        flat(), cross_entropy, floats, iterations=4
    )


@pytest.mark.parametrize("kind", ["list", "loader"])
def test_a_finite_loader_is_repeated(kind):
    given = list(pools(2))
    expected = gradinit(smooth(), cross_entropy, given * 2 + given[:1], iterations=5)
    finite = given if kind == "list" else torch.utils.data.DataLoader(given, batch_size=None)
    assert gradinit(smooth(), cross_entropy, finite, iterations=5) == expected


class Checkpointed(nn.Module):
    """Two blocks, whose activations are computed again in the backward pass if ``reentrant`` is a bool."""

    def __init__(self, reentrant):
        super().__init__()
        torch.manual_seed(0)
        self.a = nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.Tanh()).to(FLOAT)
        self.b = nn.Sequential(nn.Linear(5, 5), nn.Tanh(), nn.Linear(5, 3)).to(FLOAT)
        self.reentrant = reentrant

    def forward(self, x):
        for block in (self.a, self.b):
            x = block(x) if self.reentrant is None else checkpoint(block, x, use_reentrant=self.reentrant)
        return x


@pytest.mark.parametrize("gamma", [math.inf, 0.05])
@pytest.mark.parametrize("reentrant", [False, True])
def test_activation_checkpointing_changes_nothing(gamma, reentrant):
    settings = dict(iterations=4, tau=0.05, gamma=gamma)
    plain = gradinit(Checkpointed(None), cross_entropy, pools(4), **settings)
    model = Checkpointed(reentrant)
    found = gradinit(model, cross_entropy, pools(4), **settings)
    assert found.scales == plain.scales and len(set(plain.scales.values())) > 4
    # Afterwards it is on again: the block's forward runs a second time in the backward pass.
    calls = []
    model.a[0].register_forward_hook(lambda *_: calls.append(1))
    model(torch.randn(4, 6, dtype=FLOAT, requires_grad=True)).sum().backward()
    assert len(calls) == 2


@pytest.mark.parametrize("form", ["constraint", "penalty"])
def test_a_compiled_network_has_the_factors_of_the_plain_one(form):
    settings = dict(iterations=4, tau=0.05, gamma=0.1, form=form)
    plain = gradinit(smooth(), cross_entropy, pools(4), **settings)
    compiled = gradinit(torch.compile(smooth(), backend="eager"), cross_entropy, pools(4), **settings)
    assert list(compiled.scales.values()) == list(plain.scales.values())
    assert any(factor != 1.0 for factor in plain.scales.values())


def test_samples_that_cannot_be_told_are_named():
    pool = ({"x": torch.ones(9, 6)}, torch.zeros(9).long())
    with pytest.raises(TypeError, match=r"^batches: found a dict in a batch \(allowed: tensors, and tuples"):
        gradinit(smooth(), cross_entropy, [pool], iterations=3)


def test_an_empty_list_and_a_dict_are_named():
    with pytest.raises(ValueError, match=r"^batches: they ended after 0 \(allowed: 3"):
        gradinit(smooth(), cross_entropy, [], iterations=3)
    with pytest.raises(
        ValueError, match=r"^batches: found a batch of type dict \(allowed: \(input, \*rest\)"
    ):
        gradinit(smooth(), cross_entropy, [{"x": torch.ones(9, 6), "labels": torch.zeros(9).long()}])


@pytest.mark.parametrize(("name", "p"), [("SGD", 2), ("Adam", 1), ("AdamW", 1), ("RAdam", 2)])
def test_the_step_ahead_is_the_first_step_of_torchs_optimiser(name, p):
    """RAdam's rate is not adaptive in its first steps."""
    (x, y), model = next(pools(1)), smooth()
    settings = dict(optimizer=name.lower(), eta=0.05, gamma=math.inf, overlap=1.0, iterations=1)
    row = gradinit(smooth(), cross_entropy, [(x, y)], **settings).history[0]
    stepper = getattr(torch.optim, name)(model.parameters(), lr=0.05, weight_decay=0.0)
    cross_entropy(model(x), y).backward()
    norm = torch.cat([one.grad.flatten() for one in model.parameters()]).norm(p)
    stepper.step()
    assert row["objective"] == pytest.approx(cross_entropy(model(x), y).item(), abs=1e-7)
    assert row["gradient_norm"] == pytest.approx(norm.item())


def test_a_loss_of_one_entry_is_the_same_as_a_scalar():
    found = [
        gradinit(smooth(), lambda z, y: cross_entropy(z, y).reshape(shape), pools(3), iterations=3)  # noqa: B023
        for shape in ((), (1,))
    ]
    assert found[0].history == found[1].history
