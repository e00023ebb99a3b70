"""Eq. 2.4 on all eight networks, and what the published code computes instead."""

import pytest
import torch
from torch import Tensor, nn

from relearn.methods import convex_polytope, crafting, feature_collision, multi_layer
from relearn.models import create
from relearn.studies.poisoning.params_studies import PUBLISHED

NETWORKS = sorted(PUBLISHED)
PAPER, RELEASED = multi_layer.Paper(), multi_layer.AsReleased()


def readings(seed: int, widths: tuple[int, ...] = (12, 7, 4)) -> tuple[list[Tensor], list[Tensor]]:
    generator = torch.Generator().manual_seed(seed)
    poisons = [torch.randn(2, 4, d, generator=generator, dtype=torch.float64) for d in widths]
    return poisons, [torch.randn(2, d, generator=generator, dtype=torch.float64) for d in widths]


def narrow(name: str, depth: float = 0.5) -> nn.Module:
    torch.manual_seed(NETWORKS.index(name))
    return create(name, width=0.0625, depth=depth, std=[0.25] * 3).double().eval()


def slow_term(points: Tensor, target: Tensor, c: Tensor) -> float:
    combination = sum(float(c[j]) * points[j] for j in range(len(points)))
    return float((target - combination).norm() ** 2 / target.norm() ** 2)


# --- as the paper writes it -----------------------------------------------------------------


def test_loss_is_the_sum_over_layers_as_printed() -> None:
    poisons, target = readings(0)
    loss, c = PAPER.loss(poisons, target, None)
    assert c.shape == (2, 3, 4) and (c.sum(-1) == 1).all() and (c >= 0).all()
    for b in range(2):
        printed = sum(slow_term(poisons[l][b], target[l][b], c[b, l]) for l in range(3))  # noqa: E741
        assert abs(float(loss[b]) - printed) < 1e-12
    assert (c[:, 0] - c[:, 1]).abs().max() > 1e-2  # coefficients of its own for every layer


def test_no_other_coefficients_are_better_in_any_layer() -> None:
    poisons, target = readings(1)
    _, c = PAPER.loss(poisons, target, None)
    generator = torch.Generator().manual_seed(2)
    for layer, (points, one) in enumerate(zip(poisons, target)):
        solved = crafting.relative_residual(points, one, c[:, layer])
        for _ in range(50):
            other = (3 * torch.randn(2, 4, generator=generator, dtype=torch.float64)).softmax(-1)
            assert (solved <= crafting.relative_residual(points, one, other) + 1e-12).all()


def test_zero_exactly_where_the_target_is_in_the_hull_of_every_layer() -> None:
    poisons, target = readings(3)
    inside = [points.mean(1) for points in poisons]
    assert (PAPER.loss(poisons, inside, None)[0] < 1e-20).all()
    assert (PAPER.loss(poisons, [*inside[:2], target[2]], None)[0] > 1e-3).all()  # one layer is not


@pytest.mark.parametrize("attack", [PAPER, RELEASED])
def test_gradient_equals_finite_differences_of_the_minimum(attack: crafting.Objective) -> None:
    """The coefficients may be held fixed (envelope theorem)."""
    poisons, target = readings(4, (5, 3))
    for one in poisons:
        one.requires_grad_()
    gradients = torch.autograd.grad(attack.loss(poisons, target, None)[0].sum(), poisons)
    for layer, gradient in enumerate(gradients):
        for index in torch.cartesian_prod(*map(torch.arange, gradient.shape)):
            with torch.no_grad():
                values = []
                for h in (1e-5, -1e-5):
                    moved = [one.clone() for one in poisons]
                    moved[layer][tuple(index)] += h
                    values.append(float(attack.loss(moved, target, None)[0].sum()))
            assert abs(float(gradient[tuple(index)]) - (values[0] - values[1]) / 2e-5) < 1e-8


@pytest.mark.parametrize("name", NETWORKS)
def test_every_network_is_split_where_it_halves_the_size(name: str) -> None:
    net, images = narrow(name), torch.rand(2, 3, 32, 32, dtype=torch.float64)
    stages = net.stages(images)
    sizes = [one.shape[-1] for one in stages]
    assert sizes == [32 // 2**l for l in range(len(sizes))] and len(sizes) in (3, 4)  # noqa: E741
    found = PAPER.layers(net, images)
    assert [tuple(one.shape) for one in found[:-1]] == [(2, one[0].numel()) for one in stages[:-1]]
    for layer, stage in zip(found[:-1], stages):
        assert torch.equal(layer[1].reshape(stage[1].shape), stage[1])
    torch.testing.assert_close(found[-1], net.features(images))


def test_one_stage_is_twice_the_convex_polytope() -> None:
    """Eq. 2.3 has the factor ½ that eq. 2.4 does not print."""
    poisons, target = readings(5, (6,))
    polytope = convex_polytope.objective(poisons[0], target[0])[0]
    torch.testing.assert_close(PAPER.loss(poisons, target, None)[0], 2 * polytope)


def test_first_loss_of_a_run_is_the_formula_on_two_networks() -> None:
    nets = [narrow("SENet18"), narrow("GoogLeNet")]  # four stages and three
    bases, targets = torch.rand(3, 3, 16, 16).double(), torch.rand(2, 3, 16, 16).double()
    options = {"eps": 0.1, "lr": 0.04, "iterations": 1, "dropout": False}
    found = multi_layer.craft(nets, bases, targets, **options)
    slow = 0.0
    for net in nets:
        poisons, target = net.stages(bases), net.stages(targets)
        poisons[-1], target[-1] = poisons[-1].mean((2, 3)), target[-1].mean((2, 3))
        for a, t in zip(poisons, target):
            for one in t:
                points, one = a.flatten(1).detach(), one.flatten().detach()
                c = crafting.convex_coefficients(points, one, None)
                slow += slow_term(points, one, c) / 2  # mean over targets
    assert abs(found.history[0]["loss_sum"] - slow) < 1e-10
    assert [c.shape for c in found.coefficients] == [(2, 4, 3), (2, 3, 3)]


# --- as the published code computes it ------------------------------------------------------


def broadcast_error(points: Tensor, target: Tensor, c: Tensor) -> float:
    """Coefficients with four axes on features (k, d) with two: (k, 1, 1, 1) · (k, d) is (k, 1, k, d)."""
    combination = (c.reshape(-1, 1, 1, 1) * points).sum(0)
    assert combination.shape == (1, *points.shape)
    return float(0.5 * (target - combination).square().sum() / target.square().sum())


def test_released_loss_has_a_collision_where_a_polytope_was_meant() -> None:
    poisons, target = readings(6, (12, 4))
    loss, c = RELEASED.loss(poisons, target, None)
    assert c.shape == (2, 1, 4)
    for b in range(2):
        inner = 0.5 * slow_term(poisons[0][b], target[0][b], c[b, 0])
        own = crafting.convex_coefficients(poisons[1][b], target[1][b], None)
        erroneous = broadcast_error(poisons[1][b], target[1][b], own)
        assert abs(float(loss[b]) - inner - erroneous) < 1e-12
        meant = float(convex_polytope.loss(poisons[1][b], target[1][b], own))
        assert erroneous > 2 * meant  # the deviation is no rounding
        # no coefficients have any influence on it
        uniform = torch.full((4,), 0.25, dtype=torch.float64)
        assert abs(erroneous - broadcast_error(poisons[1][b], target[1][b], uniform)) < 1e-12
    collision = 0.5 * feature_collision.loss(poisons[1], target[1])
    without = RELEASED.loss([poisons[0], target[1].unsqueeze(1).expand(2, 4, 4)], target, None)[0]
    torch.testing.assert_close(loss - without, collision)


@pytest.mark.parametrize("name", NETWORKS)
def test_released_layers_are_the_second_to_last_block_and_the_penultimate_features(name: str) -> None:
    net, images = narrow(name, depth=1.0), torch.rand(2, 3, 16, 16, dtype=torch.float64)
    inner, last = RELEASED.layers(net, images)
    torch.testing.assert_close(last, net.features(images))
    behind = {"DenseNet121": 3, "MobileNetV2": 2}.get(name, 1)  # the last block, and what follows it
    hidden = net.stages(images)[-2]
    for module in list(net.body[-1])[:-behind]:
        hidden = module(hidden)
    torch.testing.assert_close(inner, hidden.flatten(1))
    assert not any(module._forward_hooks for module in net.modules())


def test_a_last_stage_of_one_block_gives_the_stage_before() -> None:
    net, images = narrow("ResNet18"), torch.rand(2, 3, 16, 16, dtype=torch.float64)
    assert len(net.body[-1]) == 1
    torch.testing.assert_close(RELEASED.layers(net, images)[0], net.stages(images)[-2].flatten(1))


def test_an_unknown_form_is_refused() -> None:
    with pytest.raises(ValueError, match="form is 'printed'; allowed: paper, as_released"):
        multi_layer.craft([], torch.rand(1), torch.rand(1), form="printed")
