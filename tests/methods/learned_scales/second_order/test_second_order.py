"""The cheap second derivative against autograd's own, layer by layer and in networks."""

import pytest
import torch
from torch import nn
from torch.func import functional_call
from torch.nn import functional
from torch.nn.functional import cross_entropy
from torch.nn.utils import parametrize

from relearn.methods.learned_scales.second_order import SecondOrder

FLOAT = torch.float64


class Around(nn.Module):
    """A layer between two others that bend, so that it has a gradient on both sides."""

    def __init__(self, layer, before, sizes):
        super().__init__()
        self.before, self.layer = before, layer
        self.weights = nn.Parameter(torch.randn(sizes, dtype=FLOAT))

    def forward(self, x):
        return (self.layer(self.before(x).tanh()).tanh() * self.weights).flatten(1).sum(1).sin()


def images(*shape):
    return torch.randn(shape, dtype=FLOAT)


class Squared(nn.Module):
    def forward(self, x):
        return x**2


def computed(layer, name):
    """The layer with the square of a parameter."""
    nn.init.normal_(getattr(layer, name))
    parametrize.register_parametrization(layer, name, Squared())
    return layer


LAYERS = {
    "linear-bias": (computed(nn.Linear(3, 4), "bias"), nn.Linear(2, 3), (5, 2)),
    "conv2d-bias": (computed(nn.Conv2d(3, 4, 2), "bias"), nn.Conv2d(2, 3, 1), (5, 2, 6, 6)),
    "norm1d-scale": (computed(nn.BatchNorm1d(3), "weight"), nn.Linear(2, 3), (5, 2)),
    "norm1d-shift": (computed(nn.BatchNorm1d(3), "bias"), nn.Linear(2, 3), (5, 2)),
    "conv1d": (nn.Conv1d(3, 4, 3), nn.Conv1d(2, 3, 1), (5, 2, 8)),
    "conv2d": (nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(2, 3, 1), (5, 2, 6, 6)),
    "conv2d-strided": (
        nn.Conv2d(3, 4, 3, stride=2, padding=(1, 0), bias=False),
        nn.Conv2d(2, 3, 1),
        (5, 2, 7, 6),
    ),
    "conv2d-groups": (nn.Conv2d(4, 6, (3, 2), groups=2, dilation=(1, 2)), nn.Conv2d(2, 4, 1), (5, 2, 6, 6)),
    "conv2d-same": (nn.Conv2d(3, 4, 3, padding="same"), nn.Conv2d(2, 3, 1), (5, 2, 6, 6)),
    "conv2d-reflect": (
        nn.Conv2d(3, 4, 3, padding=1, padding_mode="reflect"),
        nn.Conv2d(2, 3, 1),
        (5, 2, 6, 6),
    ),
    "conv3d": (nn.Conv3d(3, 4, 2), nn.Conv3d(2, 3, 1), (5, 2, 3, 4, 3)),
    "linear": (nn.Linear(3, 4), nn.Linear(2, 3), (5, 2)),
    "linear-tokens": (nn.Linear(3, 4, bias=False), nn.Linear(2, 3), (5, 7, 2)),
    "norm1d": (nn.BatchNorm1d(3), nn.Linear(2, 3), (5, 2)),
    "norm1d-sequence": (nn.BatchNorm1d(3), nn.Conv1d(2, 3, 1), (5, 2, 4)),
    "norm2d": (nn.BatchNorm2d(3, eps=0.1), nn.Conv2d(2, 3, 1), (5, 2, 4, 4)),
    "norm2d-plain": (nn.BatchNorm2d(3, affine=False), nn.Conv2d(2, 3, 1), (5, 2, 4, 4)),
    "norm2d-running": (nn.BatchNorm2d(3).eval(), nn.Conv2d(2, 3, 1), (5, 2, 4, 4)),
    "conv-transposed": (nn.ConvTranspose2d(3, 4, 2), nn.Conv2d(2, 3, 1), (5, 2, 4, 4)),
}


def setting(name):
    torch.manual_seed(0)
    layer, before, shape = LAYERS[name]
    layer, before = layer.to(FLOAT), before.to(FLOAT)
    if name.startswith("norm") and layer.training:
        layer.track_running_stats = False
    x = images(*shape)
    model = Around(layer, before, layer(before(x)).shape[1:])
    theta = {
        key: (0.5 * torch.randn_like(one) + one.detach()).requires_grad_()
        for key, one in model.named_parameters()
    }
    v = [torch.randn_like(one) for one in theta.values()]
    return model, theta, v, x


def products(model, theta, v, x):
    """⟨(H v)_i, θ_i⟩ by autograd."""
    value = functional_call(model, theta, (x,)).mean()
    g = torch.autograd.grad(value, list(theta.values()), create_graph=True)
    h = torch.autograd.grad(g, list(theta.values()), v, materialize_grads=True)
    return g, torch.stack([(a * b).sum() for a, b in zip(h, theta.values())])


@pytest.mark.parametrize("gradient_first", [True, False])
@pytest.mark.parametrize("name", LAYERS)
def test_it_is_the_hessian_vector_product(name, gradient_first):
    model, theta, v, x = setting(name)
    expected_gradient, expected = products(model, theta, v, x)
    leaves = list(theta.values())
    twice = SecondOrder(leaves)
    with twice:
        value = functional_call(model, theta, (x,)).mean()
    if gradient_first:
        for one, other in zip(twice.gradient(value), expected_gradient):
            assert torch.allclose(one, other, atol=1e-13) and not one.requires_grad
    found = twice.along(value, v, leaves)
    assert torch.allclose(
        torch.stack([(a * b).sum() for a, b in zip(found, leaves)]), expected, rtol=1e-9, atol=1e-13
    )


@pytest.mark.parametrize(
    ("name", "replaced"),
    [
        ("conv2d", 2),
        ("linear", 2),
        ("norm2d", 2),
        ("conv2d-same", 1),
        ("norm2d-plain", 1),
        ("conv-transposed", 1),
        *((name, 1) for name in ("linear-bias", "conv2d-bias", "norm1d-scale", "norm1d-shift")),
    ],
)
def test_what_is_replaced_and_what_is_left_alone(name, replaced):
    """The negative control of the test above: it would also pass if nothing were ever replaced."""
    model, theta, _, x = setting(name)
    with SecondOrder(list(theta.values())):
        value = functional_call(model, theta, (x,)).mean()
    names, stack = [], [value.grad_fn]
    while stack:
        node = stack.pop()
        names.append(node.name())
        stack += [one for one, _ in node.next_functions if one is not None]
    assert sum(one in ("_ProductBackward", "_NormaliseBackward") for one in set(names)) > 0
    assert names.count("_ProductBackward") + names.count("_NormaliseBackward") == replaced


class Net(nn.Module):
    """Residual, in-place, pooled, with a weight used twice, one that is made from a parameter, and one that is not θ."""

    def __init__(self):
        super().__init__()
        self.a = nn.Conv2d(2, 4, 3, padding=1)
        self.n = nn.BatchNorm2d(4, track_running_stats=False)
        self.b = nn.Conv2d(4, 4, 3, padding=1)
        self.raw = nn.Parameter(torch.randn(4, 4))
        self.head = nn.Linear(4, 4)
        self.fixed = nn.Linear(4, 3).requires_grad_(False)

    def forward(self, x):
        x = functional.relu(self.n(self.a(x)), inplace=True)
        x = functional.max_pool2d(x + functional.relu_(self.b(x)), 2)
        x = functional.relu(self.b(x)).mean((2, 3))
        w = self.raw / self.raw.norm()
        return self.fixed(self.head(functional.linear(functional.linear(x, w).tanh(), w)))


def test_in_a_network_that_does_what_networks_do():
    torch.manual_seed(0)
    model = Net().to(FLOAT)
    x, y = images(6, 2, 6, 6), torch.randint(0, 3, (6,))
    theta = {k: p.detach().clone().requires_grad_() for k, p in model.named_parameters() if p.requires_grad}
    leaves = list(theta.values())
    v = [torch.randn_like(one) for one in leaves]
    g = torch.autograd.grad(cross_entropy(functional_call(model, theta, (x,)), y), leaves, create_graph=True)
    h = torch.autograd.grad(g, leaves, v)
    twice = SecondOrder(leaves)
    with twice:
        value = cross_entropy(functional_call(model, theta, (x,)), y)
    assert all(torch.allclose(one, other) for one, other in zip(twice.gradient(value), g))
    found = twice.along(value, v, leaves)
    for name, one, other, weight in zip(theta, found, h, leaves):
        assert (one * weight).sum().item() == pytest.approx(
            (other * weight).sum().item(), rel=1e-9, abs=1e-12
        ), name
    # Not H v itself: only the products with the weights are promised.
    tied = list(theta).index("b.weight")
    assert not torch.allclose(found[tied], h[tied])


def test_in_single_precision_it_is_as_exact_as_autograd():
    torch.manual_seed(0)
    model = Net().to(FLOAT)
    x, y = images(16, 2, 8, 8), torch.randint(0, 3, (16,))
    found = {}
    for dtype in (FLOAT, torch.float32):
        theta = {
            k: p.detach().to(dtype).clone().requires_grad_()
            for k, p in model.named_parameters()
            if p.requires_grad
        }
        leaves = list(theta.values())
        net, inputs = model.to(dtype), x.to(dtype)
        twice = SecondOrder(leaves)
        with twice:
            value = cross_entropy(functional_call(net, theta, (inputs,)), y)
        g = twice.gradient(value)
        h = twice.along(value, g, leaves)
        found[dtype] = torch.stack([(a * b).sum() for a, b in zip(h, leaves)]).double()
        model.to(FLOAT)
    assert torch.allclose(
        found[FLOAT], found[torch.float32], rtol=1e-3, atol=1e-4 * found[FLOAT].abs().max().item()
    )


def test_under_autocast_nothing_is_replaced():
    model, theta, _, x = setting("linear")
    leaves = list(theta.values())
    twice = SecondOrder(leaves)
    with twice, torch.autocast("cpu", dtype=torch.bfloat16):
        y = functional.linear(x, leaves[1].new_ones(3, 2))
        assert y.grad_fn is None
        out = functional_call(model, theta, (x,))
    assert "_Product" not in str(out.grad_fn.next_functions)
