"""Orthogonal weights: isometries; LSUV: unit variance in one pass, equal to the published many."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from relearn.methods.learned_scales import preserve_state
from relearn.methods.orthogonal import lsuv, orthogonal
from relearn.methods.variance_scaling import kaiming
from relearn.models import create


@settings(max_examples=20)
@given(
    inputs=st.integers(1, 9),
    outputs=st.integers(1, 30),
    kernel=st.sampled_from([1, 3]),
    seed=st.integers(0, 9),
)
def test_rows_or_columns_are_orthonormal_times_the_gain(inputs, outputs, kernel, seed):
    net = nn.Sequential(nn.Conv2d(inputs, outputs, kernel), nn.Linear(inputs, outputs)).double()
    orthogonal(net, seed=seed, gain=1.5, linear_gain=0.5)
    for layer, gain in zip(net, (1.5, 0.5)):
        matrix = layer.weight.detach().flatten(1)
        small = matrix @ matrix.T if matrix.shape[0] <= matrix.shape[1] else matrix.T @ matrix
        torch.testing.assert_close(small, gain**2 * torch.eye(len(small), dtype=torch.double))


def test_a_deep_linear_network_is_an_isometry_and_with_gaussian_weights_not():
    net = nn.Sequential(*(nn.Linear(20, 20, bias=False) for _ in range(30))).double()
    orthogonal(net, seed=0)
    product = torch.linalg.multi_dot([layer.weight.detach() for layer in net])
    torch.testing.assert_close(torch.linalg.svdvals(product), torch.ones(20, dtype=torch.double))
    for layer in net:
        layer.weight.data.normal_(std=20**-0.5)
    values = torch.linalg.svdvals(torch.linalg.multi_dot([layer.weight.detach() for layer in net]))
    assert values[0] / values[-1] > 1e3


def test_gain_of_convolutions_keeps_the_mean_square_through_relu():
    net = nn.Sequential(*(part for _ in range(10) for part in (nn.Conv2d(256, 256, 1), nn.ReLU())))
    x = torch.randn(8, 256, 2, 2, generator=torch.Generator().manual_seed(1))

    def kept():
        return (net(x).square().mean() / x.square().mean()).item()

    orthogonal(net, seed=0)
    assert 1 / 4 < kept() < 4  # its logarithm varies by sqrt(10 · 5 / 256)
    orthogonal(net, seed=0, gain=1.0)
    assert kept() < 2**-7  # control: half of it lost in every layer


# LSUV


def some(network="ResNet-110", **arguments):
    return create(network, width=0.5, depth=0.1, classes=4, **arguments).double()


def batches(size=8, factor=1.0):
    generator = torch.Generator().manual_seed(3)
    while True:
        yield factor * torch.rand(size, 3, 8, 8, generator=generator, dtype=torch.double), None


def variances(net, x):
    """Of the output of every convolution and linear layer, in the order of the forward pass."""
    found, hooks = [], []
    for module in net.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            hooks.append(
                module.register_forward_hook(lambda m, i, y: found.append(y.var(correction=0).item()))
            )
    with preserve_state(net, 0), torch.no_grad():
        net(x)
    for hook in hooks:
        hook.remove()
    return found


def published(net, x, seed, tolerance, iterations):
    """Mishkin and Matas's algorithm as printed: from the input again after every division."""
    for module in net.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            nn.init.zeros_(module.bias) if module.bias is not None else None
        elif isinstance(module, nn.BatchNorm2d):
            nn.init.ones_(module.weight), nn.init.zeros_(module.bias)
    order = []
    layers = [module for module in net.modules() if isinstance(module, nn.Conv2d | nn.Linear)]
    hooks = [one.register_forward_hook(lambda m, i, y: order.append(m)) for one in layers]
    orthogonal(net, seed=seed, gain=1.0)
    with preserve_state(net, 0), torch.no_grad():
        net(x)
    for hook in hooks:
        hook.remove()
    for number, layer in enumerate(order):
        for _ in range(iterations):
            variance = variances(net, x)[number]
            if abs(variance - 1) < tolerance:
                break
            layer.weight.data /= variance**0.5
    return net


@pytest.mark.parametrize("network", ["VGG-19", "ResNet-110", "ResNet-110-BN", "DenseNet-100", "WRN-28-10"])
def test_one_pass_gives_the_weights_of_the_published_many(network):
    ours, slow = some(network), some(network)
    (x, _) = next(batches())
    done = lsuv(ours, None, batches(), seed=4, tolerance=0.05)
    published(slow, x, 4, 0.05, 10)
    for (key, a), b in zip(ours.named_parameters(), slow.parameters()):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-12, msg=key)
    assert done.outcome == "ok"
    assert len(done.history) == len(done.scales) == len(variances(ours, x))


@pytest.mark.parametrize("network", ["VGG-19-BN", "FixUpResNet-110", "ResNet-110-BN"])
def test_every_layers_output_has_unit_variance_afterwards(network):
    net = some(network, dropout=0.3)
    (x, _) = next(batches())
    orthogonal(net, seed=4)
    assert max(abs(v - 1) for v in variances(net, x)) > 0.5  # control
    done = lsuv(net, None, batches(), seed=4, tolerance=0.1)
    after = variances(net, x)
    assert all(abs(v - 1) < 0.1 for v in after)
    assert after == pytest.approx([row["variance"] for row in done.history], rel=1e-6)


def test_scales_are_relative_to_the_orthogonal_draw_and_a_good_layer_is_left_alone():
    ours, start = some(), some()
    done = lsuv(ours, None, batches(), seed=4, tolerance=0.6)
    orthogonal(start, seed=4, gain=1.0)
    before = dict(start.named_parameters())
    for name, weight in ours.named_parameters():
        if name in done.scales:
            torch.testing.assert_close(weight, before[name] * done.scales[name])
    untouched = [row for row in done.history if abs(row["variance_before"] - 1) < 0.6]
    assert 0 < len(untouched) < len(done.history)
    assert all(row["iterations"] == 0 and done.scales[row["layer"] + ".weight"] == 1 for row in untouched)


class Twice(nn.Module):
    """One layer that the forward pass meets two times, two inputs, another layer before it in modules()."""

    def __init__(self):
        super().__init__()
        self.last, self.first = nn.Linear(6, 3), nn.Linear(6, 6)

    def forward(self, x, y):
        return self.last(self.first(self.first(x + y)))


def test_order_is_that_of_the_forward_pass_and_inputs_may_be_a_tuple():
    net = Twice()
    x, y = torch.randn(50, 6), torch.randn(50, 6)
    done = lsuv(net, None, iter([((x, y), None)]), seed=0, tolerance=1e-4)
    assert [row["layer"] for row in done.history] == ["first", "last"]
    assert net.first(x + y).var(correction=0).item() == pytest.approx(1, abs=1e-3)
    assert net(x, y).var(correction=0).item() == pytest.approx(1, abs=1e-3)


def test_a_layer_that_does_not_vary_is_skipped_and_an_infinite_one_ends_it():
    net = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    done = lsuv(net, None, iter([(torch.zeros(5, 3), None)]))
    assert done.outcome == "ok" and done.skipped == ("0.weight", "1.weight")
    assert all(weight.isfinite().all() for weight in net.parameters())
    done = lsuv(net, None, iter([(torch.tensor([[1.0, 2.0, math.nan]] * 5), None)]))
    assert (done.outcome, done.outcome_step) == ("diverged", 1)
    assert "nan" in done.outcome_reason and "\n" not in done.outcome_reason


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda net: lsuv(net, None, None), "lsuv: no batch"),
        (lambda net: lsuv(net, None, iter([])), "lsuv: no batch"),
        (lambda net: lsuv(net, None, batches(), tolerance=0.0), "tolerance: 0.0"),
        (lambda net: lsuv(net, None, batches(), iterations=0), "iterations: 0"),
        (lambda net: orthogonal(net, gain=-1.0), "gain: -1.0"),
        (lambda net: orthogonal(net, linear_gain=math.inf), "linear_gain: inf"),
    ],
)
def test_values_that_are_not_allowed_are_refused(call, message):
    with pytest.raises(ValueError, match=rf"^{message}.*\(allowed: "):
        call(nn.Linear(2, 2))


def test_hooks_are_gone_after_an_error():
    net = nn.Sequential(nn.Linear(3, 4))
    with pytest.raises(RuntimeError):
        lsuv(net, None, [(torch.zeros(5, 7), None)])
    assert not net[0]._forward_hooks
    kaiming(net)
