"""The derivatives by the factors against central differences of the formulas, in double precision."""

import pytest
import torch
from torch import nn
from torch.func import functional_call
from torch.nn.functional import cross_entropy
from torch.nn.utils import parametrizations, weight_norm

from relearn.methods.gradinit.derivative import CONSTRAINT, OBJECTIVE, Derivative, direction, gradient_norm
from relearn.methods.learned_scales import ScaledWeights, double_backward, halves, preserve_state

FLOAT = torch.float64
H = 1e-6


class Branched(nn.Module):
    """Convolutions (strided, grouped, dilated), a transposed one, a residual, a tied linear map, with or without normalisation."""

    def __init__(self, norm):
        super().__init__()
        self.a = nn.Conv2d(2, 4, 3, padding=1)
        self.na = nn.BatchNorm2d(4) if norm else nn.Identity()
        self.b = nn.Conv2d(4, 4, 3, padding=2, groups=2, dilation=2, bias=False)
        self.nb = nn.GroupNorm(2, 4) if norm else nn.Identity()
        self.c = nn.Conv2d(4, 6, 2, stride=2, padding="valid")
        self.d = nn.ConvTranspose2d(6, 4, 2, stride=2)
        self.e = nn.Conv2d(4, 4, 3, padding="same", padding_mode="circular")
        self.f = nn.Linear(4, 4, bias=False)
        self.g = nn.Linear(4, 4)
        self.g.weight = self.f.weight
        self.head = nn.Linear(4, 3)
        self.noisy = norm == "noisy"

    def forward(self, x):
        x = x + torch.randn_like(x) if self.noisy else x
        x = self.na(self.a(x)).tanh()
        x = x + self.nb(self.b(x)).sigmoid()
        x = self.e(x + self.d(self.c(x).tanh())).tanh().mean((2, 3))
        return self.head(self.g(self.f(x).tanh()).sin())


def problem(norm, kind):
    torch.manual_seed(0)
    model = Branched(norm).to(FLOAT)
    with torch.no_grad():
        for parameter in model.parameters():  # no two factors alike, no derivative near zero
            parameter.mul_(1.0 + torch.rand(()))
            if not parameter.any():  # a fresh bias would have no factor
                parameter.add_(0.3 * torch.randn_like(parameter))
    images = torch.randn(9, 2, 6, 6, dtype=FLOAT).to(
        memory_format=torch.channels_last
    )  # noise follows the layout
    pool = (images, torch.randint(0, 3, (9,)))
    scales = 0.7 + 0.6 * torch.rand(len(ScaledWeights(model)), dtype=FLOAT)
    settings = dict(optimizer=kind, eta=0.3, gamma=1e9, normalised=False, divide_by_eta=False)
    return model, pool, scales, settings


def value_and_gradient(model, scales, batch):
    torch.manual_seed(0)
    theta = {
        name: (one.detach() * factor).requires_grad_()
        for (name, one), factor in zip(model.named_parameters(), scales)
    }
    loss = cross_entropy(functional_call(model, theta, (batch[0],)), batch[1])
    return theta, loss, torch.autograd.grad(loss, list(theta.values()))


def norm_of(model, scales, batch, kind):
    """‖g‖ at θ_m, by its definition."""
    flat = torch.cat([one.flatten() for one in value_and_gradient(model, scales, batch)[2]])
    return flat.abs().sum() if kind == "adam" else flat.square().sum().sqrt()


def differences(function, scales):
    """Central differences of a scalar function of the factors."""
    found = []
    for i in range(len(scales)):
        step = torch.zeros_like(scales)
        step[i] = H
        found.append((function(scales + step) - function(scales - step)) / (2 * H))
    return torch.stack(found).detach()


def ahead_of(model, scales, theta, step, eta, batch):
    """L(S̃; θ_m - ηA) with a step A that does not depend on the factors."""
    moved = {
        name: one.detach() * factor - eta * along
        for (name, one), factor, along in zip(model.named_parameters(), scales, step)
    }
    return cross_entropy(functional_call(model, moved, (batch[0],)), batch[1])


@pytest.mark.parametrize("norm", [False, True], ids=["plain", "normalised"])
@pytest.mark.parametrize(
    ("kind", "unit"), [("sgd", False), ("sgd", True), ("adam", False)], ids=["sgd", "sgd-unit", "adam"]
)
def test_the_derivative_of_the_objective_is_that_of_finite_differences(norm, kind, unit):
    model, pool, scales, settings = problem(norm, kind)
    first, second = halves(pool, 0.5)
    with preserve_state(model, 0):
        theta, loss, g = value_and_gradient(model, scales, first)
        if kind == "adam":
            step = [one.sign() for one in g]
        else:
            size = norm_of(model, scales, first, "sgd") if unit else 1.0
            step = [one / size for one in g]
        expected = differences(lambda m: ahead_of(model, m, theta, step, 0.3, second), scales)
        derivative = Derivative(ScaledWeights(model), cross_entropy, **{**settings, "normalised": unit})
        which, found, row = derivative.constrained(scales, first, second)
    assert which == OBJECTIVE and row["kind"] == "objective"
    assert row["loss"] == pytest.approx(loss.item(), abs=1e-12)
    assert row["objective"] == pytest.approx(
        ahead_of(model, scales, theta, step, 0.3, second).item(), abs=1e-12
    )
    assert torch.allclose(found, expected, rtol=1e-5, atol=1e-9)
    # The negative control: the step is held fixed. Were it to move with the factors, the derivative would be another.
    if kind == "sgd":

        def moving(m):
            theta, _, g = value_and_gradient(model, m, first)
            return ahead_of(model, m, theta, g, 0.3, second)

        with preserve_state(model, 0):
            assert not torch.allclose(found, differences(moving, scales), rtol=1e-2)


@pytest.mark.parametrize("norm", [False, True, "noisy"], ids=["plain", "normalised", "noisy"])
@pytest.mark.parametrize("kind", ["sgd", "adam"])
@pytest.mark.parametrize("kept", [False, True], ids=["repeated", "kept"])
def test_the_derivative_of_the_constraint_is_that_of_finite_differences(norm, kind, kept):
    """Also: a forward graph that was kept gives what a repeated forward pass gives, with the same draws."""
    model, pool, scales, settings = problem(norm, kind)
    first, second = halves(pool, 0.5)
    derivative = Derivative(ScaledWeights(model), cross_entropy, **{**settings, "gamma": 1e-9})
    derivative.expected = CONSTRAINT if kept else OBJECTIVE
    with preserve_state(model, 0), double_backward():
        expected = differences(lambda m: norm_of(model, m, first, kind), scales)
        torch.manual_seed(0)
        which, found, row = derivative.constrained(scales, first, second)
        size = norm_of(model, scales, first, kind)
    assert which == CONSTRAINT and row["kind"] == "constraint" and "objective" not in row
    assert row["gradient_norm"] == pytest.approx(size.item(), rel=1e-12)
    assert torch.allclose(found, expected, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("kind", ["sgd", "adam"])
def test_the_derivative_with_a_penalty_is_that_of_finite_differences(kind):
    model, pool, scales, settings = problem(True, kind)
    first, second = halves(pool, 0.5)
    derivative = Derivative(ScaledWeights(model), cross_entropy, **settings)
    with preserve_state(model, 0), double_backward():
        theta, _, g = value_and_gradient(model, scales, first)
        step = [one.sign() if kind == "adam" else one for one in g]
        expected = differences(
            lambda m: ahead_of(model, m, theta, step, 0.3, second) + 0.7 * norm_of(model, m, first, kind),
            scales,
        )
        _, found, row = derivative.penalised(scales, first, second, 0.7)
    assert torch.allclose(found, expected, rtol=1e-5, atol=1e-8)
    assert row["kind"] == "penalty" and {"loss", "gradient_norm", "objective"} < set(row)


def test_dividing_by_eta_only_scales():
    model, pool, scales, settings = problem(False, "sgd")
    first, second = halves(pool, 0.5)
    one, other = (
        Derivative(ScaledWeights(model), cross_entropy, **{**settings, "divide_by_eta": divide}).constrained(
            scales, first, second
        )[1]
        for divide in (False, True)
    )
    assert torch.allclose(one / 0.3, other)


@pytest.mark.parametrize("kind", ["sgd", "adam"])
def test_first_order_change_of_the_loss(kind):
    """Eq. 4.2: L(S; θ - ηA[g]) - L(S; θ) is -η‖g‖² (SGD) or -η‖g‖₁ (Adam) for a small η; g/‖g‖ gives -η‖g‖ instead."""
    model, pool, scales, _ = problem(False, kind)
    eta = 1e-6
    theta, loss, g = value_and_gradient(model, scales, pool)
    size = gradient_norm(g, kind)
    wanted = {"sgd": size**2, "adam": size}[kind]
    change = loss - ahead_of(model, scales, theta, direction(g, kind, False), eta, pool)
    assert change.item() / eta == pytest.approx(wanted.item(), rel=1e-4)
    if kind == "sgd":
        change = loss - ahead_of(model, scales, theta, direction(g, kind, True), eta, pool)
        assert change.item() / eta == pytest.approx(size.item(), rel=1e-4)
        assert size.item() != pytest.approx(wanted.item(), rel=1e-2)


def test_norms_and_directions_of_a_known_gradient():
    g = [torch.tensor([3.0, 0.0]), torch.tensor([[-4.0]])]
    assert gradient_norm(g, "sgd").item() == 5.0 and gradient_norm(g, "adam").item() == 7.0
    assert [one.tolist() for one in direction(g, "adam", False)] == [[1.0, 0.0], [[-1.0]]]
    assert [one.tolist() for one in direction(g, "sgd", False)] == [[3.0, 0.0], [[-4.0]]]
    unit = torch.cat([one.flatten() for one in direction(g, "sgd", True)])
    assert torch.allclose(unit, torch.tensor([0.6, 0.0, -0.8]))
    assert direction([torch.zeros(2)], "sgd", True)[0].tolist() == [0.0, 0.0]


@pytest.mark.filterwarnings("ignore:`torch.nn.utils.weight_norm` is deprecated:FutureWarning")
@pytest.mark.parametrize("norm", [parametrizations.weight_norm, weight_norm], ids=["new", "old"])
@pytest.mark.parametrize("dim", [0, 1, None])
def test_the_second_derivative_of_weight_normalisation(norm, dim):
    """That of torch's own function is wrong (2.13), so a Hessian by autograd is no reference here."""
    torch.manual_seed(0)
    model = nn.Sequential(norm(nn.Linear(6, 8), dim=dim), nn.Tanh(), nn.Linear(8, 3)).to(FLOAT)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.0 + torch.rand(()))
    batch = (torch.randn(9, 6, dtype=FLOAT), torch.randint(0, 3, (9,)))
    weights = ScaledWeights(model)
    settings = dict(eta=0.3, gamma=1e-9, normalised=False, divide_by_eta=False)
    derivative = Derivative(weights, cross_entropy, optimizer="sgd", **settings)
    scales = 0.7 + 0.6 * torch.rand(len(weights), dtype=FLOAT)
    with preserve_state(model, 0), double_backward():
        expected = differences(lambda m: norm_of(model, m, batch, "sgd"), scales)
        which, found, _ = derivative.constrained(scales, batch, batch)
    assert which == CONSTRAINT
    assert torch.allclose(found, expected, rtol=1e-5, atol=1e-8)
