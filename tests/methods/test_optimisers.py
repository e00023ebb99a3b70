"""Optimisers by name against their published updates in float64, and which parameters land in which group."""

import math

import pytest
import torch
from torch import nn
from torch.nn.utils.parametrize import register_parametrization

from relearn.methods.optimisers import make_optimiser, parameter_groups


class LayerScaleNorm(nn.Module):
    """A normalisation of somebody's own: known by its name only."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(width))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3)
        self.bn = nn.BatchNorm2d(4)
        self.ln = nn.LayerNorm(4)
        self.own = LayerScaleNorm(4)
        self.head = nn.Linear(4, 4)
        self.tied = nn.Linear(4, 4, bias=False)
        self.tied.weight = self.head.weight
        self.bias1 = nn.Parameter(torch.zeros(()))
        self.scale = nn.Parameter(torch.ones(()))
        self.frozen = nn.Parameter(torch.ones(3), requires_grad=False)


def names(groups, **wanted):
    return {
        name for g in groups if all(g[key] == value for key, value in wanted.items()) for name in g["names"]
    }


NORMS = {"bn.weight", "bn.bias", "ln.weight", "ln.bias", "own.gain"}
REST = {"conv.weight", "conv.bias", "head.weight", "head.bias", "bias1", "scale"}


@pytest.mark.parametrize(
    "decay,spared",
    [
        ("all", set()),
        ("no_norm", NORMS),
        ("no_norm_no_bias", NORMS | {"conv.bias", "head.bias", "bias1"}),
        ("no_vectors", (NORMS | REST) - {"conv.weight", "head.weight"}),
    ],
)
def test_decay_spares_what_it_says_and_every_trained_parameter_is_in_one_group(decay, spared):
    groups = parameter_groups(Net(), 0.1, decay)
    assert names(groups, weight_decay=0.0) == spared
    assert names(groups, weight_decay=0.1) == (NORMS | REST) - spared
    everything = [id(p) for g in groups for p in g["params"]]
    assert len(everything) == len(set(everything)) == 11


def test_what_the_network_names_does_not_decay_where_vectors_do_not():
    class Named(Net):
        def no_weight_decay(self):
            return {"conv.weight", "somewhere.else"}

    assert names(parameter_groups(Named(), 0.1, "no_vectors"), weight_decay=0.1) == {"head.weight"}
    assert parameter_groups(Named(), 0.1, "all")[0]["names"] == parameter_groups(Net(), 0.1)[0]["names"]


def test_a_parametrised_parameter_counts_as_the_parameter_it_computes():
    class Times(nn.Module):
        def __init__(self):
            super().__init__()
            self.scalar = nn.Parameter(torch.ones(()))

        def forward(self, x):
            return self.scalar * x

    net = Net()
    for module, name in ((net.bn, "weight"), (net.conv, "weight"), (net.conv, "bias")):
        register_parametrization(module, name, Times())
    here = "{0}.parametrizations.{1}.original", "{0}.parametrizations.{1}.0.scalar"
    found = names(parameter_groups(net, 0.1, "no_norm_no_bias"), weight_decay=0.0)
    spared = {text.format(*where) for text in here for where in (("bn", "weight"), ("conv", "bias"))}
    assert found == (NORMS - {"bn.weight"}) | {"head.bias", "bias1"} | spared


def test_all_without_factors_is_one_group_in_the_model_s_order():
    net = Net()
    (group,) = parameter_groups(net, 0.1)
    trained = [p for p in net.parameters() if p.requires_grad]
    assert all(a is b for a, b in zip(group["params"], trained, strict=True))


def test_first_matching_pattern_scales_the_rate():
    groups = parameter_groups(Net(), 0.0, lr_scale={"head.bias": 0.5, "*bias*": 0.1, "scale": 0.2})
    assert names(groups, lr_scale=0.5) == {"head.bias"}
    assert names(groups, lr_scale=0.1) == {"conv.bias", "bn.bias", "ln.bias", "bias1"}
    assert names(groups, lr_scale=0.2) == {"scale"}
    assert names(groups, lr_scale=1.0) == (NORMS | REST) - {
        *("head.bias", "conv.bias", "bn.bias", "ln.bias", "bias1", "scale")
    }


@pytest.mark.parametrize(
    "settings,message",
    [
        (dict(name="lion"), "optimizer: found 'lion', allowed are sgd, adam, adamw, radam"),
        (dict(name="sgd", decay="none"), "decay: found 'none', allowed are all, no_norm, no_norm_no_bias"),
        (dict(name="sgd", lr_scale={"*.scal": 0.1}), "'\\*.scal' matches no parameter of Net"),
        (dict(name="sgd", lr_scale={"scale": -1.0}), "lr_scale 'scale': found -1.0"),
    ],
)
def test_impossible_settings_are_named(settings, message):
    with pytest.raises(ValueError, match=message):
        make_optimiser(Net(), lr=0.1, **settings)


def test_a_model_without_a_parameter_to_train_is_refused():
    for empty in (nn.ReLU(), nn.Linear(2, 2).requires_grad_(False)):
        with pytest.raises(ValueError, match="no parameter requires a gradient"):
            make_optimiser(empty, "sgd", lr=0.1)


def published(name, theta, gradients, lr, decay, betas, momentum, nesterov, eps=1e-8):
    """The updates as printed: Sutskever et al. 2013, Kingma & Ba 2015, Loshchilov & Hutter 2019, Liu et al. 2020."""
    b1, b2 = betas
    m = v = torch.zeros_like(theta)
    for t, gradient in enumerate(gradients, 1):
        decoupled = name in ("adamw", "radam")
        g = gradient if decoupled else gradient + decay * theta
        if name == "sgd":
            m = momentum * m + g
            theta = theta - lr * (g + momentum * m if nesterov else m)
            continue
        m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g * g
        first = m / (1 - b1**t)
        theta = theta - lr * decay * theta if decoupled else theta
        if name == "radam":
            longest = 2 / (1 - b2) - 1
            rho = longest - 2 * t * b2**t / (1 - b2**t)
            if rho > 5:
                adapted = math.sqrt(1 - b2**t) / (v.sqrt() + eps)
                r = (rho - 4) * (rho - 2) * longest / ((longest - 4) * (longest - 2) * rho)
                theta = theta - lr * first * math.sqrt(r) * adapted
            else:
                theta = theta - lr * first
            continue
        theta = theta - lr * first / ((v / (1 - b2**t)).sqrt() + eps)
    return theta


@pytest.mark.parametrize("eps", [None, 0.3])
@pytest.mark.parametrize(
    "name,nesterov", [("sgd", False), ("sgd", True), ("adam", 0), ("adamw", 0), ("radam", 0)]
)
def test_steps_equal_the_published_update(name, nesterov, eps):
    torch.manual_seed(0)
    gradients = torch.randn(12, 5, dtype=torch.float64)
    net = nn.Linear(5, 1, bias=False).double()
    start = net.weight.detach().clone()[0]
    settings = dict(lr=0.05, momentum=0.8, betas=(0.85, 0.95), weight_decay=0.03) | (
        {"eps": eps} if eps else {}
    )
    stepper = make_optimiser(net, name, nesterov=bool(nesterov), **settings)
    for gradient in gradients:
        net.weight.grad = gradient[None].clone()
        stepper.step()
    truth = published(name, start, gradients, 0.05, 0.03, (0.85, 0.95), 0.8, bool(nesterov), eps or 1e-8)
    torch.testing.assert_close(net.weight.detach()[0], truth, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("name", ["sgd", "adam", "adamw"])
def test_strides_of_gradients_and_moments_do_not_matter(name):
    """A fused kernel walks through memory, so torch's own optimiser mixes up entries of unequal strides."""
    torch.manual_seed(0)
    nets = [nn.Conv2d(3, 4, 3) for _ in range(2)]
    nets[1].load_state_dict(nets[0].state_dict())
    nets[1].to(memory_format=torch.channels_last)
    steppers = [make_optimiser(net, name, lr=0.1, weight_decay=0.1) for net in nets]
    for step in range(4):
        gradients = [torch.randn_like(parameter) for parameter in nets[0].parameters()]
        for net, stepper in zip(nets, steppers):
            for parameter, gradient in zip(net.parameters(), gradients):
                parameter.grad = gradient.clone()
            if step == 2:  # as a checkpoint returns them
                for moments in stepper.state.values():
                    moments.update({key: value.contiguous() for key, value in moments.items()})
            stepper.step()
    assert not nets[1].weight.is_contiguous()
    torch.testing.assert_close(nets[1].weight, nets[0].weight, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["sgd", "adam", "adamw"])
def test_complex_parameters_and_sparse_gradients_take_torchs_loop(name):
    """Fused kernels take neither; on real, dense parameters they are used."""
    net = nn.Module()
    net.weight = nn.Parameter(torch.tensor([1 + 2j, 3 - 1j]))
    stepper = make_optimiser(net, name, lr=0.1, momentum=0.0)
    net.weight.abs().square().sum().backward()
    stepper.step()
    assert net.weight.is_complex() and (net.weight.abs() < torch.tensor([1 + 2j, 3 - 1j]).abs()).all()
    assert make_optimiser(nn.Linear(2, 2), name, lr=0.1).defaults["fused"]

    words = nn.Embedding(5, 3, sparse=True)
    before = words.weight.detach().clone()
    stepper = make_optimiser(words, name, lr=0.1, momentum=0.0)
    words(torch.tensor([1, 4])).sum().backward()
    if name != "sgd":
        with pytest.raises(RuntimeError, match="sparse"):
            stepper.step()
        return
    stepper.step()
    expected = before.clone()
    expected[[1, 4]] -= 0.1
    torch.testing.assert_close(words.weight.detach(), expected)
