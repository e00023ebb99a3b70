"""MetaInit: the gradient quotient by its definition, its derivative by differences, both ways of moving the norms."""

import copy
import math
from collections import namedtuple

import pytest
import torch
from torch import nn
from torch.func import functional_call
from torch.nn.functional import cross_entropy

from relearn.methods.learned_scales import ScaledWeights, ScaleSign
from relearn.methods.metainit import gradient_quotient, metainit, noise

FLOAT = torch.float64


def smooth(norm=False):
    torch.manual_seed(0)
    middle = [nn.BatchNorm1d(5, track_running_stats=False)] if norm else []
    return nn.Sequential(nn.Linear(4, 5), *middle, nn.Tanh(), nn.Linear(5, 3)).to(FLOAT)


def batches(count, seed=1):
    generator = torch.Generator().manual_seed(seed)
    for _ in range(count):
        yield (
            torch.randn(8, 4, generator=generator, dtype=FLOAT) * 2 + 1,
            torch.randint(0, 3, (8,), generator=generator),
        )


def dense(model, theta, x, y, eps):
    """GQ with the whole Hessian, all in one vector."""
    names, shapes = list(theta), [one.shape for one in theta.values()]
    sizes = [shape.numel() for shape in shapes]

    def value(flat):
        parts = {name: part.view(shape) for name, part, shape in zip(names, flat.split(sizes), shapes)}
        return cross_entropy(functional_call(model, parts, (x,)), y)

    flat = torch.cat([one.detach().flatten() for one in theta.values()])
    g = torch.func.grad(value)(flat)
    hessian = torch.autograd.functional.hessian(value, flat)
    s = torch.where(g >= 0, 1.0, -1.0)
    return ((g - hessian @ g) / (g + eps * s) - 1).abs().mean()


@pytest.mark.parametrize("norm", [False, True])
def test_the_quotient_is_its_definition(norm):
    model = smooth(norm)
    x, y = next(batches(1))
    theta = {name: one.detach().clone().requires_grad_() for name, one in model.named_parameters()}
    value = cross_entropy(functional_call(model, theta, (x,)), y)
    for eps in (1e-5, 0.1):
        found = gradient_quotient(value, list(theta.values()), eps)
        assert found.item() == pytest.approx(dense(model, theta, x, y, eps).item(), rel=1e-9)


def test_quotients_of_a_parabola_are_known():
    """L = h θ²/2: g = hθ, Hg = h·hθ, so GQ = |(1 - h) g / (g + ε s) - 1|, which is |h| as ε goes to 0. A linear loss has 0."""
    theta = torch.tensor([0.7], dtype=FLOAT, requires_grad=True)
    for h in (0.25, 3.0, -2.0):
        assert gradient_quotient((h * theta.square() / 2).sum(), [theta], 1e-12).item() == pytest.approx(
            abs(h)
        )
    assert gradient_quotient((3 * theta).sum(), [theta], 1e-5).item() == pytest.approx(1e-5 / 3, rel=1e-2)
    # L = ab at (0, 1): g = (1, 0), H g = (0, 1). Where g is 0 the denominator is +ε.
    pair = torch.tensor([0.0, 1.0], dtype=FLOAT, requires_grad=True)
    assert gradient_quotient(pair[0] * pair[1], [pair], 0.5).item() == pytest.approx((1 / 3 + 3) / 2)
    assert gradient_quotient((0 * theta).sum(), [theta], 1e-5).item() == 1.0


def test_the_derivative_by_the_factors():
    model = smooth()
    x, y = next(batches(1))
    weights = ScaledWeights(model, least_dims=2)
    assert [weights.names[i] for i in weights.factors] == ["0.weight", "2.weight"]
    scales = torch.tensor([0.8, 1.3], dtype=FLOAT)

    def quotient(m):
        theta = weights.at(m)
        return theta, gradient_quotient(weights.loss(theta, cross_entropy, (x, y)), theta, 0.01)

    theta, value = quotient(scales)
    found = weights.by_scale(torch.autograd.grad(value, weights.scaled(theta)))
    for i in range(2):
        h = torch.zeros(2, dtype=FLOAT)
        h[i] = 1e-6
        difference = (quotient(scales + h)[1] - quotient(scales - h)[1]).item() / 2e-6
        assert found[i].item() == pytest.approx(difference, rel=1e-5)


def slow(model, data, *, tau, momentum, eps):
    """The published procedure on norms, with plain autograd, written for two tensors."""
    start = {name: one.detach().clone() for name, one in model.named_parameters()}
    norms = {name: one.norm().requires_grad_() for name, one in start.items() if one.dim() >= 2}
    memory = dict.fromkeys(norms, 0.0)
    for x, y in data:
        theta = {
            name: one / one.norm() * norms[name] if name in norms else one.clone().requires_grad_()
            for name, one in start.items()
        }
        value = gradient_quotient(
            cross_entropy(functional_call(model, theta, (x,)), y), list(theta.values()), eps
        )
        for name, slope in zip(norms, torch.autograd.grad(value, list(norms.values()))):
            memory[name] = momentum * memory[name] - tau * math.copysign(1.0, slope.item())
        norms = {name: (norm.detach() + memory[name]).requires_grad_() for name, norm in norms.items()}
    return {name: (norm / start[name].norm()).item() for name, norm in norms.items()}


def test_sign_descent_is_the_published_procedure():
    expected = slow(smooth(), batches(6), tau=0.02, momentum=0.9, eps=1e-5)
    model = smooth()
    result = metainit(model, cross_entropy, batches(6), data="real", tau=0.02, iterations=6)
    assert result.scales == pytest.approx(expected, rel=1e-9)
    for name, one in model.named_parameters():
        start = dict(smooth().named_parameters())[name]
        assert torch.allclose(one, start * result.scales.get(name, 1.0))
    assert [row["kind"] for row in result.history] == ["quotient"] * 6


def test_sign_descent_by_hand():
    mover = ScaleSign(torch.tensor([2.0, 4.0]), 0.1, 0.5, low=0.9)
    for slope in ([3.0, -1.0], [0.5, -9.0], [1.0, 0.0]):
        mover.step(torch.tensor(slope))
    # velocities: -0.1, -0.15, -0.175 of a norm of 2, bounded below; 0.1, 0.15, 0.075 of a norm of 4
    assert mover.scales.tolist() == pytest.approx([0.9, 1 + 0.325 / 4])
    with pytest.raises(ValueError, match="checkpoint: 2 scale factors, the network has 1"):
        ScaleSign(torch.ones(1), 0.1, 0.5).restore(mover.state())


@pytest.mark.parametrize("settings", [dict(optimizer="adam", tau=0.03), dict(optimizer="signsgd", tau=0.05)])
def test_the_quotient_falls(settings):
    model = smooth()
    with torch.no_grad():
        model[0].weight.mul_(4)
        model[2].weight.mul_(6)
    fixed = next(batches(1))
    result = metainit(model, cross_entropy, [fixed] * 40, data="real", iterations=40, eps=1e-2, **settings)
    values = [row["gradient_quotient"] for row in result.history]
    assert min(values[20:]) < 0.7 * values[0]
    assert all(scale != 1 for scale in result.scales.values())


@pytest.mark.parametrize("data", ["random", "real"])
def test_nothing_but_the_weights_changes(data):
    model = nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Dropout(0.5), nn.ReLU(), nn.Linear(5, 3)).to(
        FLOAT
    )
    before = copy.deepcopy(model)
    state = torch.get_rng_state()
    result = metainit(model, cross_entropy, batches(3), data=data, iterations=3, tau=0.01)
    assert torch.equal(torch.get_rng_state(), state)
    assert all(module.training for module in model.modules())
    for name, buffer in model.named_buffers():
        assert torch.equal(buffer, dict(before.named_buffers())[name])
    assert set(result.scales) == {"0.weight", "4.weight"}
    for name, one in model.named_parameters():
        assert torch.equal(one, dict(before.named_parameters())[name]) == (name not in result.scales)


def test_noise_has_the_moments_of_the_batch_and_nothing_else():
    x = torch.randn(400, 3, 8, 8) * torch.tensor([1.0, 2.0, 0.5]).view(3, 1, 1) + torch.tensor(
        [0.0, 5.0, -1.0]
    ).view(3, 1, 1)
    (drawn, label), (other, _) = noise([(x, "y"), (x, "y")], seed=3)
    assert label == "y" and drawn.shape == x.shape and not torch.equal(drawn, other)
    assert torch.allclose(drawn.mean((0, 2, 3)), x.mean((0, 2, 3)), atol=0.05)
    assert torch.allclose(drawn.std((0, 2, 3)), x.std((0, 2, 3)), rtol=0.02)
    correlation = ((drawn - drawn.mean()) * (x - x.mean())).mean((0, 2, 3)) / (drawn.std() * x.std())
    assert torch.equal(next(noise([(x, "y")], seed=3))[0], drawn)
    within = torch.stack(
        [torch.corrcoef(torch.stack([drawn[:, c].flatten(), x[:, c].flatten()]))[0, 1] for c in range(3)]
    )
    assert within.abs().max() < 0.05 and correlation.isfinite().all()
    for kind in (lambda *pair: pair, namedtuple("Pair", "a b")):
        pair = next(noise([(kind(x, x), "y")], seed=3))
        assert type(pair[0]) is type(kind(x, x)) and len(pair[0]) == 2


def test_a_resumed_run_is_the_uninterrupted_one():
    class Memory:
        state = None

        def load(self):
            return copy.deepcopy(self.state)

        def save(self, state):
            self.state = copy.deepcopy(state)

    settings = dict(iterations=6, tau=0.02)
    expected, memory = metainit(smooth(), cross_entropy, batches(6), **settings), Memory()
    with pytest.raises(ValueError, match="they ended after 5"):
        metainit(smooth(), cross_entropy, batches(5), checkpoint=memory, checkpoint_every=2, **settings)
    assert metainit(smooth(), cross_entropy, batches(6), checkpoint=memory, **settings) == expected


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (dict(data="noise"), "data: found 'noise', allowed are random, real"),
        (dict(optimizer="sgd"), "optimizer: found 'sgd', allowed are signsgd, adam"),
        (dict(tau=0.0), "tau: found 0.0"),
        (dict(eps=0.0), "eps: found 0.0"),
        (dict(momentum=1.0), "momentum: found 1.0"),
        (dict(iterations=0), "iterations: found 0"),
        (dict(iterations=2.5), "iterations: found 2.5, allowed: a whole number, at least 1"),
        (dict(min_scale=-1.0), "min_scale: found -1.0"),
        (dict(min_scale=0, optimizer="adam"), "min_scale: found 0, allowed: above 0 to 1"),
        (dict(clip=-1.0), "clip: found -1.0"),
        (dict(precision="fp16"), "precision: found 'fp16'"),
        (dict(tokens=True), "data: 'random' needs floating-point inputs, found torch.int64"),
        (dict(loss=lambda out, y: out.sum() * math.inf), "in the first iteration the loss is not finite"),
    ],
    ids=lambda one: next(iter(one)) if isinstance(one, dict) else "",
)
def test_bad_input_is_named_in_one_line(settings, said):
    settings = {"iterations": 2, **settings}
    data = [(x.long() if settings.pop("tokens", False) else x, y) for x, y in batches(2)]
    loss = settings.pop("loss", cross_entropy)
    with pytest.raises(ValueError) as caught:
        metainit(smooth(), loss, data, **settings)
    assert said in str(caught.value) and "\n" not in str(caught.value)


def test_noise_of_eight_bit_images_and_a_list_that_is_repeated():
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(0, 256, (6, 1, 2, 3), generator=generator, dtype=torch.uint8)
    pair = (x, torch.randint(0, 3, (6,), generator=generator))
    made = [nn.Sequential(nn.Flatten(), nn.Linear(6, 3)) for _ in range(2)]
    made[1].load_state_dict(made[0].state_dict())
    bytes_ = metainit(made[0], cross_entropy, [pair], iterations=3)
    assert bytes_ == metainit(made[1], cross_entropy, [(x.float() / 255.0, pair[1])] * 3, iterations=3)
