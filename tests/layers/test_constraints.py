"""Trained constraints: norms against the dense matrix, gradients against differences, training with and without, and taking them off."""

import copy
from collections.abc import Callable
from itertools import pairwise

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from relearn.layers.norm_constraint import NormConstraint, Rows, constrain_norm, map_of
from relearn.layers.orthonormal_constraint import constrain_orthonormal, orthonormal


def dense(layer: nn.Module, shape: tuple[int, ...]) -> Tensor:
    """The matrix of an affine layer, from what it does to each unit image."""
    basis = torch.eye(torch.Size(shape).numel(), dtype=torch.float64).view(-1, *shape)
    with torch.no_grad():
        return (layer(basis) - layer(torch.zeros_like(basis[:1]))).flatten(1).T


def norm(layer: nn.Module, shape: tuple[int, ...]) -> float:
    return float(torch.linalg.matrix_norm(dense(layer, shape), 2))


LAYERS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "linear, wide": (lambda: nn.Linear(7, 4), (7,)),
    "linear, tall": (lambda: nn.Linear(3, 6), (3,)),
    "zeros": (lambda: nn.Conv2d(2, 3, 3, padding=1), (2, 5, 4)),
    "strided": (lambda: nn.Conv2d(2, 4, 3, (2, 1), 1), (2, 5, 4)),
    "no padding": (lambda: nn.Conv2d(2, 3, 3), (2, 5, 4)),
    "circular": (lambda: nn.Conv2d(2, 3, 3, padding=1, padding_mode="circular"), (2, 4, 5)),
    "depth-wise": (lambda: nn.Conv2d(4, 4, 3, padding=1, groups=4), (4, 4, 4)),
    "grouped": (lambda: nn.Conv2d(4, 6, 3, padding=1, groups=2), (4, 4, 4)),
    "patches": (lambda: nn.Conv2d(2, 5, 2, 2), (2, 4, 4)),
    "pointwise": (lambda: nn.Conv2d(3, 2, 1), (3, 3, 3)),
    "one axis": (lambda: nn.Conv1d(2, 3, 3, padding=1), (2, 6)),
    "three axes": (lambda: nn.Conv3d(2, 2, 2, padding=1), (2, 3, 2, 3)),
}
BY_POWER_ALONE: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "reflected": (lambda: nn.Conv2d(2, 3, 3, padding=1, padding_mode="reflect"), (2, 4, 4)),
    "replicated": (lambda: nn.Conv2d(2, 2, 3, padding=1, padding_mode="replicate"), (2, 4, 4)),
    "dilated": (lambda: nn.Conv2d(2, 3, 3, padding=2, dilation=2), (2, 5, 5)),
    "same": (lambda: nn.Conv2d(2, 2, (4, 2), padding="same"), (2, 5, 5)),
}
EXACT = ("linear, wide", "linear, tall", "circular", "patches", "pointwise")


def drawn(name: str, factor: float = 3.0) -> tuple[nn.Module, tuple[int, ...]]:
    made, shape = {**LAYERS, **BY_POWER_ALONE}[name]
    torch.manual_seed(len(name))
    layer = made().double()
    with torch.no_grad():
        layer.weight.copy_(factor * torch.randn_like(layer.weight))
    return layer, shape


def size_of(shape: tuple[int, ...]) -> tuple[int, ...] | None:
    return shape[1:] or None


# the norm ---------------------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")
@pytest.mark.parametrize("name", [*LAYERS, *BY_POWER_ALONE])
def test_power_iteration_divides_by_the_norm_of_the_dense_matrix(name: str) -> None:
    layer, shape = drawn(name)
    before = norm(layer, shape)
    constrain_norm(layer, 0.7, size=size_of(shape), method="power")
    assert before > 0.8 and norm(layer, shape) == pytest.approx(0.7, rel=1e-9)


@pytest.mark.parametrize("name", LAYERS)
def test_the_upper_method_never_lets_the_norm_through(name: str) -> None:
    layer, shape = drawn(name)
    constrain_norm(layer, 0.7, size=size_of(shape))
    found = norm(layer, shape)
    assert 0.7 * 0.7 < found <= 0.7 * (1 + 1e-12)
    if name in EXACT:
        assert found == pytest.approx(0.7, rel=1e-12)


@pytest.mark.parametrize("method", ["upper", "power"])
def test_a_weight_inside_its_limit_is_left_alone(method: str) -> None:
    layer, shape = drawn("zeros", 0.01)
    before = layer.weight.detach().clone()
    constrain_norm(layer, 0.7, size=size_of(shape), method=method)
    assert torch.equal(layer.weight, before) and norm(layer, shape) < 0.7


def test_the_flattened_kernel_is_another_norm() -> None:
    """Equal entries 1/3: flattened the norm is 1, as a map of images almost 3. Only the operator's constraint acts."""
    layer = nn.Conv2d(1, 1, 3, padding=1, bias=False).double()
    nn.init.constant_(layer.weight, 1 / 3)
    assert float(layer.weight.detach().norm()) == pytest.approx(1) and norm(layer, (1, 8, 8)) > 2.5
    constrain_norm(layer, 1.0, size=8, method="power")
    assert norm(layer, (1, 8, 8)) == pytest.approx(1, rel=1e-9)


def test_every_head_has_a_limit_of_its_own_and_a_diagonal_its_largest_entry() -> None:
    torch.manual_seed(0)
    layer = nn.Linear(5, 12).double()
    raw = layer.weight.detach() * torch.tensor([0.1, 3.0, 9.0]).double().repeat_interleave(4)[:, None]
    layer.weight.data = raw.clone()
    for method in ("upper", "power"):
        one = constrain_norm(copy.deepcopy(layer), 0.5, blocks=3, method=method)
        was, norms = (torch.linalg.matrix_norm(w.view(3, 4, 5), 2) for w in (raw, one.weight.detach()))
        assert float(was.min()) < 0.5
        torch.testing.assert_close(norms, was.clamp_max(0.5), rtol=1e-9, atol=0)
    scale = nn.LayerNorm(3).double()
    scale.weight.data = torch.tensor([0.2, -4.0, 2.0]).double()
    constrain_norm(scale, 0.5)
    torch.testing.assert_close(scale.weight.detach(), torch.tensor([0.025, -0.5, 0.25]).double())


@pytest.mark.parametrize("name", [*LAYERS, "dilated"])
def test_the_extreme_weight_attains_the_limit(name: str) -> None:
    layer, shape = drawn(name)
    constraint = NormConstraint(
        layer.weight, 0.7, map_of(layer, layer.weight, size=size_of(shape)), method="power"
    )
    layer.weight.data = constraint.extreme(layer.weight.detach())
    assert norm(layer, shape) == pytest.approx(0.7, rel=1e-12)


# gradients --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LAYERS)
def test_the_gradient_through_the_norm_is_that_of_differences(name: str) -> None:
    layer, shape = drawn(name, 1.0)
    made = map_of(layer, layer.weight, size=size_of(shape))
    weight = layer.weight.detach().clone().requires_grad_()
    upper = NormConstraint(weight, 0.3, made)
    assert torch.autograd.gradcheck(upper, (weight,), fast_mode=True)

    # power: its gradient at a converged vector is that of the norm itself, of which the dense matrix gives the differences
    power = NormConstraint(weight, 0.3, made, method="power").eval()
    power.settle(weight, 2_000, 1e-12)
    out, way = torch.randn_like(weight), torch.randn_like(weight)
    (slope,) = torch.autograd.grad((power(weight) * out).sum(), weight)

    def exact(t: float) -> float:
        layer.weight.data = weight.detach() + t * way
        return float((0.3 / norm(layer, shape) * layer.weight.detach() * out).sum())

    differences = (exact(1e-5) - exact(-1e-5)) / 2e-5
    assert float((slope * way).sum()) == pytest.approx(differences, rel=1e-5, abs=1e-6)


def test_the_gradient_through_bjoerck_is_that_of_differences() -> None:
    torch.manual_seed(0)
    for shape in ((4, 3), (3, 5), (2, 3, 4)):
        weight = torch.randn(shape, dtype=torch.float64, requires_grad=True)
        for steps in (1, 20):
            assert torch.autograd.gradcheck(lambda w, k=steps: orthonormal(w, k), (weight,), fast_mode=True)


# Björck -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(6, 3), (3, 6), (5, 5), (4, 3, 7), (1, 4), (4, 1)])
def test_bjoerck_converges_to_the_polar_factor(shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    weight = 10 * torch.randn(shape, dtype=torch.float64)
    u, s, vh = torch.linalg.svd(weight, full_matrices=False)
    assert float(s.min()) > 0.05
    torch.testing.assert_close(orthonormal(weight, 40), u @ vh, rtol=0, atol=1e-12)
    distances = [float((orthonormal(weight, k) - u @ vh).norm()) for k in range(0, 12, 2)]
    assert all(later < max(earlier, 1e-14) for earlier, later in pairwise(distances))


def test_each_step_follows_its_law_and_no_step_exceeds_the_bound() -> None:
    torch.manual_seed(1)
    weight = torch.randn(5, 4, dtype=torch.float64)
    values = torch.linalg.svdvals(orthonormal(weight, 0))
    for steps in range(1, 12):
        before, values = values, values * (3 - values**2) / 2
        torch.testing.assert_close(torch.linalg.svdvals(orthonormal(weight, steps)), values)
        torch.testing.assert_close(1 - values, (1 - before) ** 2 * (2 + before) / 2)
        assert float(values.max()) <= 1 + 1e-15
    for drawn_as in (
        torch.randn,
        torch.rand,
    ):  # rand: one singular value stands out, which a small divisor would miss
        for seed in range(30):
            torch.manual_seed(seed)
            one = drawn_as(1 + seed % 7, 6, dtype=torch.float64) * 10.0 ** (seed % 5 - 2)
            assert float(torch.linalg.matrix_norm(orthonormal(one, seed % 4), 2)) <= 1 + 1e-12


def test_a_lost_direction_stays_lost() -> None:
    weight = torch.outer(torch.arange(1.0, 4.0), torch.ones(3)).double()
    values = torch.linalg.svdvals(orthonormal(weight, 60))
    assert values[0] == pytest.approx(1) and float(values[1]) < 1e-6
    assert not orthonormal(torch.zeros(2, 3)).any()


@pytest.mark.parametrize("name", ["linear, wide", "linear, tall", "patches", "pointwise", "grouped patches"])
def test_layers_become_isometries(name: str) -> None:
    made = {**LAYERS, "grouped patches": (lambda: nn.Conv2d(4, 6, 2, 2, groups=2), (4, 4, 4))}[name]
    torch.manual_seed(0)
    layer, shape = made[0]().double(), made[1]
    constrain_orthonormal(layer, 2.0, iterations=40)
    values = torch.linalg.svdvals(dense(layer, shape))
    torch.testing.assert_close(values, torch.full_like(values, 2.0), rtol=1e-10, atol=0)


# training ---------------------------------------------------------------------------------------------------------------


def trained(layer: nn.Module, shape: tuple[int, ...], steps: int = 60, lr: float = 0.05) -> list[float]:
    """The norm after each of these steps of SGD towards a map of larger norm, in evaluation mode."""
    torch.manual_seed(3)
    x = torch.randn(24, *shape, dtype=torch.float64)
    goal = 6 * layer(x).detach() + torch.randn_like(layer(x))
    optimiser = torch.optim.SGD(layer.parameters(), lr=lr, momentum=0.9)
    found = []
    for _ in range(steps):
        optimiser.zero_grad()
        (layer.train()(x) - goal).square().mean().backward()
        optimiser.step()
        found.append(norm(layer.eval(), shape))
    return found


@pytest.mark.parametrize("name", ["linear, wide", "zeros", "depth-wise", "patches", "strided"])
def test_the_norm_stays_below_its_limit_during_training_and_does_not_without(name: str) -> None:
    layer, shape = drawn(name, 0.2)
    limit = norm(layer, shape)
    free = trained(copy.deepcopy(layer), shape)
    assert max(free) > 2 * limit  # the control
    upper = constrain_norm(copy.deepcopy(layer), limit, size=size_of(shape))
    assert max(trained(upper, shape)) <= limit * (1 + 1e-12)
    slow = dict(steps=80, lr=0.01)
    assert max(trained(copy.deepcopy(layer), shape, **slow)) > 2 * limit
    power = constrain_norm(copy.deepcopy(layer), limit, size=size_of(shape), method="power", iterations=10)
    assert max(trained(power, shape, **slow)) <= limit * 1.25  # the estimate lags behind
    constraint = power.parametrizations.weight[0]
    constraint.settle(power.parametrizations.weight.original)
    assert norm(power, shape) <= limit * (1 + 1e-3)
    if name in ("linear, wide", "patches"):
        assert max(trained(constrain_orthonormal(layer, limit), shape)) <= limit * (1 + 1e-12)


# state, copies, taking it off, refusals ----------------------------------------------------------------------------------


def constrained(kind: str) -> nn.Module:
    layer, _ = drawn("patches" if kind == "bjorck" else "zeros")
    if kind == "bjorck":
        return constrain_orthonormal(layer, 0.7)
    return constrain_norm(layer, 0.7, size=(5, 4), method=kind)


@pytest.mark.parametrize("kind", ["upper", "power", "bjorck"])
def test_state_copies_and_plain_layers(kind: str) -> None:
    layer, other = constrained(kind), constrained(kind)
    x = torch.randn(2, 2, 4, 4, dtype=torch.float64)
    with torch.no_grad():
        layer.parametrizations.weight.original.mul_(-2).add_(0.1)
    layer(x)  # in training mode: power iteration moves
    layer.eval(), other.eval()
    assert not torch.equal(layer(x), other(x))
    other.load_state_dict(layer.state_dict())
    assert torch.equal(layer(x), other(x))
    twin = copy.deepcopy(layer)
    assert torch.equal(twin(x), layer(x))
    with torch.no_grad():
        twin.parametrizations.weight.original.zero_()
    assert torch.equal(layer(x), other(x))  # the copy shares nothing
    before = layer(x).detach()
    parametrize.remove_parametrizations(layer, "weight")
    assert type(layer) is nn.Conv2d and isinstance(layer.weight, nn.Parameter)
    assert set(dict(layer.named_parameters())) == {"weight", "bias"}
    torch.testing.assert_close(layer(x), before, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", ["upper", "power", "bjorck"])
def test_a_new_weight_is_constrained_too_and_precisions_stay(kind: str) -> None:
    layer = nn.Linear(4, 3).to(torch.bfloat16)
    constrain_orthonormal(layer) if kind == "bjorck" else constrain_norm(layer, method=kind)
    layer.weight = torch.full((3, 4), 5.0, dtype=torch.bfloat16)
    assert layer.weight.dtype == torch.bfloat16
    layer.train()
    for _ in range(8):
        weight = layer.weight.detach()
    assert float(torch.linalg.matrix_norm(weight.double(), 2)) <= 1.01


def test_wrong_arguments_are_refused() -> None:
    linear, conv = nn.Linear(4, 6), nn.Conv2d(2, 2, 3, padding=1)
    for made, said in (
        (lambda: constrain_norm(linear, 0.0), "bound: found 0.0, allowed: a positive number"),
        (lambda: constrain_norm(linear, method="svd"), "method: found 'svd', allowed: upper, power"),
        (lambda: constrain_norm(linear, iterations=0), "iterations: found 0, allowed: at least 1"),
        (lambda: constrain_norm(linear, blocks=4), "blocks: found 4, allowed: a divisor of 6 rows"),
        (lambda: constrain_norm(conv, blocks=2, size=4), "blocks: found 2 for a weight of 4 axes"),
        (lambda: constrain_norm(conv), "size: found none"),
        (
            lambda: constrain_norm(conv, size=0),
            "size: found 0, allowed: 1 or more, for all or each of 2 axes",
        ),
        (lambda: constrain_norm(conv, size=(4, 4, 4)), r"size: found \(4, 4, 4\)"),
        (
            lambda: constrain_norm(nn.Linear(2, 2, bias=False), name="bias"),
            "bias of Linear: found None, allowed: real numbers",
        ),
        (lambda: constrain_norm(nn.Conv2d(1, 1, 3, dilation=2), size=6), "no upper bound .*or method power"),
        (lambda: constrain_orthonormal(conv), r"convolution: found kernel \(3, 3\)"),
        (lambda: constrain_orthonormal(linear, -1.0), "bound: found -1.0"),
        (lambda: constrain_orthonormal(linear, blocks=5), "blocks: found 5"),
        (lambda: constrain_orthonormal(linear, iterations=0), "iterations: found 0"),
        (lambda: constrain_orthonormal(nn.LayerNorm(3)), "weight: found 1 axes, allowed: at least 2"),
        # the map of these weights is not that of their rows: this one has the norm 2.76 with a flattened weight of norm 1
        (
            lambda: constrain_norm(nn.ConvTranspose2d(1, 1, 3, padding=1)),
            r"weight of ConvTranspose2d: found torch.float32 \(1, 1, 3, 3\), allowed: .* 1 or 2 axes",
        ),
        (lambda: constrain_norm(nn.Bilinear(2, 2, 2)), r"weight of Bilinear: found .* \(2, 2, 2\)"),
        (
            lambda: constrain_orthonormal(nn.ConvTranspose1d(1, 1, 3)),
            r"weight of ConvTranspose1d: found .* \(1, 1, 3\), allowed: .*, 2 axes",
        ),
        (lambda: constrain_orthonormal(nn.Bilinear(2, 2, 2)), r"weight of Bilinear: found .* \(2, 2, 2\)"),
    ):
        with pytest.raises(ValueError, match=said) as caught:
            made()
        assert "\n" not in str(caught.value)
    assert not parametrize.is_parametrized(linear) and Rows(2).inputs(linear.weight) == (2, 1, 4)


@pytest.mark.parametrize("first", ["ours", "orthonormal", "torch's"])
def test_a_second_parametrization_is_refused(first: str) -> None:
    """It would take the kernel for a matrix, and its limit would be of what the first makes of the trained weight."""
    conv = nn.Conv2d(3, 8, 1 if first == "orthonormal" else 3)
    if first == "torch's":
        nn.utils.parametrizations.weight_norm(conv)
    else:
        constrain_orthonormal(conv) if first == "orthonormal" else constrain_norm(conv, 4.0, size=16)
    for again in (lambda: constrain_norm(conv, 1.0, size=16), lambda: constrain_orthonormal(conv)):
        with pytest.raises(
            ValueError, match=r"^weight of .*: found parametrizations \(\w+\), allowed: a plain p[^\n]*$"
        ):
            again()
    assert len(conv.parametrizations["weight"]) == 1


def test_the_map_of_a_constrained_kernel_is_that_of_the_kernel() -> None:
    conv = constrain_norm(nn.Conv2d(3, 8, 3), 4.0, size=16)
    assert (
        map_of(conv, conv.weight, size=16)
        == map_of(nn.Conv2d(3, 8, 3), torch.ones(8, 3, 3, 3), size=16)
        != Rows()
    )
