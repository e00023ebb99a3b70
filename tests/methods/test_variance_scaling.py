"""Kaiming and Xavier: variances, what they keep through a network, and the contract of the closed forms."""

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn.utils import prune

from relearn.methods import INITIALISATIONS, load
from relearn.methods.variance_scaling import kaiming, xavier
from relearn.models import create

METHODS = ("kaiming", "xavier", "orthogonal", "lsuv", "fixup")


def tiny(network="FixUpResNet-110", **arguments):
    return create(network, width=0.5, depth=0.1, classes=4, **arguments)


def images():
    while True:
        yield (
            torch.rand(8, 3, 8, 8, generator=torch.Generator().manual_seed(3)),
            torch.zeros(8, dtype=torch.long),
        )


def loss(logits, labels):
    return nn.functional.cross_entropy(logits, labels)


@pytest.fixture(params=METHODS)
def method(request):
    return load(INITIALISATIONS, request.param)


# the contract


def test_a_seed_gives_one_start_whatever_was_there(method):
    nets = [tiny(), tiny(), tiny()]
    for tensor in nets[1].parameters():
        if tensor.numel() > 1:  # numbers beside the layers are FixUp's business alone
            tensor.data.fill_(7.0)
    for net, seed in zip(nets, (1, 1, 2)):
        assert method(net, loss, images(), seed=seed).outcome == "ok"
    one, same, other = (torch.cat([p.detach().flatten() for p in net.parameters()]) for net in nets)
    assert torch.equal(one, same)
    assert not torch.equal(one, other)


def test_nothing_but_parameters_changes(method):
    normalised = method.__name__ != "fixup"
    net = tiny("ResNet-110-BN" if normalised else "FixUpResNet-110", dropout=0.5).train()
    net.body[1].eval()
    next(net.parameters()).requires_grad_(False)
    modes, state = [module.training for module in net.modules()], torch.get_rng_state()
    flags = [tensor.requires_grad for tensor in net.parameters()]
    buffers = {key: value.clone() for key, value in net.named_buffers()}
    parameters = list(net.parameters())
    method(net, loss, images(), seed=1)
    assert [module.training for module in net.modules()] == modes
    assert torch.equal(torch.get_rng_state(), state)
    assert [tensor.requires_grad for tensor in net.parameters()] == flags
    assert all(tensor.grad is None for tensor in net.parameters())
    assert all(torch.equal(value, buffers[key]) for key, value in net.named_buffers())
    assert all(a is b for a, b in zip(net.parameters(), parameters))
    assert not any(module._forward_hooks for module in net.modules())


def test_the_draws_of_a_double_network_are_finite_and_its_own(method):
    net = tiny().double()
    batches = ((x.double(), y) for x, y in images())
    method(net, loss, batches, seed=1)
    assert {tensor.dtype for tensor in net.parameters()} == {torch.float64}
    assert all(tensor.isfinite().all() for tensor in net.parameters())


def test_a_network_without_parameters_is_refused(method):
    with pytest.raises(ValueError, match="without parameters"):
        method(nn.Sequential(nn.ReLU()), loss, images())


@pytest.mark.parametrize("network", ["ResNet-110-BN", "VGG-19-BN", "DenseNet-100-BN"])
@pytest.mark.parametrize("name", ["kaiming", "xavier", "orthogonal", "lsuv"])
def test_normalisations_and_biases_are_neutral(name, network):
    net = tiny(network)
    for tensor in net.parameters():
        tensor.data.fill_(7.0)
    load(INITIALISATIONS, name)(net, loss, images(), seed=1)
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            assert (module.weight == 1).all()
        if isinstance(getattr(module, "bias", None), nn.Parameter):
            assert not module.bias.any()


# Kaiming


def mean_squares(widths, mode, backward):
    """Mean square of signal or gradient at both ends of a ReLU network of 1 × 1 convolutions."""
    net = nn.Sequential()
    for inputs, outputs in itertools.pairwise(widths):
        net.append(nn.Conv2d(inputs, outputs, 1)).append(nn.ReLU())
    kaiming(net, seed=0, mode=mode)
    x = torch.randn(64, widths[0], 4, 4, generator=torch.Generator().manual_seed(1)).requires_grad_()
    y = net(x)
    if not backward:
        return x.square().mean().item(), y.square().mean().item()
    weight = torch.randn(y.shape, generator=torch.Generator().manual_seed(2))
    (gradient,) = torch.autograd.grad((y * weight).sum(), x)
    return weight.square().mean().item(), gradient.square().mean().item()


@pytest.mark.parametrize(("mode", "backward"), [("fan_in", False), ("fan_out", True)])
def test_relu_keeps_the_mean_square_forward_or_backward(mode, backward):
    widths = [128, 256] * 6 + [512]
    first, last = mean_squares(widths, mode, backward)
    assert last / first == pytest.approx(1, rel=0.5)
    other = "fan_out" if mode == "fan_in" else "fan_in"
    first, last = mean_squares(widths, other, backward)  # control: 512 / 128 off
    assert max(last / first, first / last) > 2


@settings(max_examples=15)
@given(
    inputs=st.integers(1, 12),
    outputs=st.integers(1, 12),
    kernel=st.sampled_from([1, 3, 5]),
    seed=st.integers(0, 9),
)
def test_kaiming_is_a_normal_draw_times_the_published_deviation(inputs, outputs, kernel, seed):
    net = nn.Conv2d(inputs, outputs, kernel)
    for mode, fan in (("fan_out", outputs), ("fan_in", inputs)):
        kaiming(net, seed=seed, mode=mode)
        drawn = torch.empty(net.weight.shape).normal_(generator=torch.Generator().manual_seed(seed))
        torch.testing.assert_close(net.weight.detach(), drawn * math.sqrt(2 / (fan * kernel**2)))


def test_published_is_the_networks_own_start_and_fan_out_without_one():
    for network in ("VGG-19", "WRN-28-10", "FixUpResNet-110", "ResNet-110-SkipInit"):
        ours, own = tiny(network), tiny(network)
        kaiming(ours, seed=5)
        own.draw_start(torch.Generator().manual_seed(5))
        assert all(torch.equal(a, b) for a, b in zip(ours.parameters(), own.parameters()))
    ours, rule = tiny("WRN-28-10"), tiny("WRN-28-10")
    kaiming(ours, seed=5)
    kaiming(rule, seed=5, mode="fan_out")
    assert ours.stem.bias.any() and not rule.stem.bias.any()
    ours, rule = create("ResNet18", width=0.1), create("ResNet18", width=0.1)
    kaiming(ours, seed=5)
    kaiming(rule, seed=5, mode="fan_out")
    assert all(torch.equal(a, b) for a, b in zip(ours.parameters(), rule.parameters()))


def test_linear_layers_of_kaiming_are_uniform_within_the_fan():
    net = nn.Linear(400, 300)
    kaiming(net, seed=0)
    assert net.weight.abs().max() <= 400**-0.5
    assert net.weight.std().item() == pytest.approx((3 * 400) ** -0.5, rel=0.02)
    assert not net.bias.any()


# Xavier


@pytest.mark.parametrize("gain", [1.0, 0.5])
@pytest.mark.parametrize("distribution", ["uniform", "normal"])
def test_xavier_has_glorots_variance(distribution, gain):
    net = nn.Sequential(nn.Conv2d(30, 60, 3), nn.Linear(200, 100))
    xavier(net, seed=0, distribution=distribution, gain=gain)
    for weight, fans in ((net[0].weight, 9 * 90), (net[1].weight, 300)):
        assert weight.std().item() == pytest.approx(gain * math.sqrt(2 / fans), rel=0.03)
        bound = gain * math.sqrt(6 / fans)
        assert (weight.abs().max().item() <= bound * (1 + 1e-6)) == (distribution == "uniform")
        assert weight.abs().max().item() > 0.99 * bound


def test_xavier_of_attention_embedding_and_shared_weights():
    class Translator(nn.Module):
        def __init__(self):
            super().__init__()
            self.output = nn.Linear(64, 500, bias=False)
            self.words = nn.Embedding(500, 64, padding_idx=0)
            self.attention = nn.MultiheadAttention(64, 4)
            self.free = nn.Parameter(torch.full((3,), 5.0))
            self.output.weight = self.words.weight

    net = Translator()
    net.attention.in_proj_bias.data.fill_(1.0)
    xavier(net, seed=0)
    words = net.words.weight.detach()
    assert net.output.weight is net.words.weight
    assert not words[0].any() and words[1:].std().item() == pytest.approx(64**-0.5, rel=0.03)
    assert words.abs().max() > math.sqrt(6 / 564)  # beyond the bound of the linear layer
    stacked = net.attention.in_proj_weight.abs().max().item()
    assert 0.98 * math.sqrt(6 / 256) < stacked <= math.sqrt(6 / 256)
    assert not net.attention.in_proj_bias.any()
    assert (net.free == 5).all()


@pytest.mark.parametrize(
    ("call", "key"),
    [
        (lambda net: kaiming(net, mode="fan"), "mode"),
        (lambda net: xavier(net, distribution="even"), "distribution"),
        (lambda net: xavier(net, gain=0.0), "gain"),
        (lambda net: xavier(net, gain=math.nan), "gain"),
    ],
)
def test_values_that_are_not_allowed_are_refused(call, key):
    with pytest.raises(ValueError, match=rf"^{key}: .*allowed"):
        call(nn.Linear(2, 2))


@pytest.mark.parametrize(
    "reparametrise",
    [
        torch.nn.utils.parametrizations.weight_norm,
        torch.nn.utils.parametrizations.spectral_norm,
        lambda layer: prune.identity(layer, "weight"),
    ],
)
@pytest.mark.parametrize("name", ["kaiming", "xavier", "orthogonal", "lsuv"])
def test_a_reparametrised_layer_is_refused_and_left_alone(reparametrise, name):
    net = nn.Sequential(nn.Flatten(), nn.Linear(192, 4))
    nn.init.ones_(net[1].bias)
    reparametrise(net[1])
    before = {key: tensor.clone() for key, tensor in net.state_dict().items()}
    with pytest.raises(ValueError, match=r"^1: a reparametrised weight .allowed: initialise first"):
        load(INITIALISATIONS, name)(net, loss, images(), seed=0)
    assert all(torch.equal(before[key], tensor) for key, tensor in net.state_dict().items())
