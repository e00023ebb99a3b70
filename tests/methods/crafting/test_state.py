"""Adam written out equals torch's; the box; the checkpoint's contents.

What is read of the targets: once where it does not change, and the same wherever it is kept.

Networks are lent: whatever crafting switches is put back.
"""

import pytest
import torch
from torch import Tensor

from relearn.maths.eval_mode import frozen
from relearn.methods import convex_polytope, crafting, fit_state, multi_layer
from relearn.methods.crafting import dropout_active, target_side
from relearn.methods.crafting.networks import random_state, seeded, set_random_state
from relearn.methods.crafting.state import State


def test_steps_equal_torch_adam_on_standardised_pixels() -> None:
    generator = torch.Generator().manual_seed(0)
    start = torch.rand(2, 3, 1, 4, 4, generator=generator, dtype=torch.float64)
    std = torch.full((1, 1, 1, 1, 1), 0.2, dtype=torch.float64)
    state = State(start.clone(), eps=10.0)
    state.lower, state.upper = start - 100, start + 100  # no projection here
    standardised = (start / std).requires_grad_()
    adam = torch.optim.Adam([standardised], lr=0.04, betas=(0.9, 0.999))
    for _ in range(25):
        gradient = torch.randn(start.shape, generator=generator, dtype=torch.float64)
        state.step(gradient, std, lr=0.04)
        standardised.grad = gradient * std  # chain rule: x = std · z
        adam.step()
        torch.testing.assert_close(state.poisons, std * standardised.detach(), rtol=0, atol=1e-12)


def test_first_step_moves_every_pixel_by_lr_times_std() -> None:
    """Without the sign: a pixel without gradient stays."""
    std = torch.tensor([0.2, 0.5], dtype=torch.float64).reshape(1, 1, 2, 1, 1)
    state = State(torch.full((1, 1, 2, 1, 2), 0.5, dtype=torch.float64), eps=0.4)
    gradient = torch.tensor([[[[3.0, 0.0]], [[-2.0, 0.0]]]], dtype=torch.float64)[None]
    state.step(gradient, std, lr=0.04)
    expected = torch.tensor([[0.5 - 0.008, 0.5], [0.5 + 0.02, 0.5]], dtype=torch.float64).reshape(
        1, 1, 2, 1, 2
    )
    torch.testing.assert_close(state.poisons, expected, rtol=0, atol=1e-8)


def test_steps_end_at_the_nearest_point_of_ball_and_pixel_range() -> None:
    start = torch.tensor([0.02, 0.5, 0.99], dtype=torch.float64).reshape(1, 1, 1, 1, 3)
    state = State(start.clone(), eps=0.1)
    for _ in range(50):
        state.step(torch.tensor([1.0, 1.0, -1.0], dtype=torch.float64), torch.ones(1), lr=0.04)
    torch.testing.assert_close(state.poisons.flatten(), torch.tensor([0.0, 0.4, 1.0], dtype=torch.float64))


def test_a_checkpoint_of_something_else_is_refused() -> None:
    state = State(torch.full((1, 1, 1, 2, 2), 0.5), eps=0.1)
    state.step(torch.ones(1, 1, 1, 2, 2), torch.ones(1), lr=0.09)
    state.history.append({"iteration": 1, "loss_sum": 1.0, "loss_mean": 0.5})
    saved = state.dump()
    State(torch.full((1, 1, 1, 2, 2), 0.5), eps=0.1).restore(saved, iterations=1)
    with pytest.raises(ValueError, match="checkpoint: iteration is 1; allowed: 1 to 0"):
        State(torch.full((1, 1, 1, 2, 2), 0.5), eps=0.1).restore(saved, iterations=0)
    for other in (
        State(torch.full((1, 1, 1, 2, 2), 0.5), 0.01),
        State(torch.full((2, 1, 1, 2, 2), 0.5), 0.1),
    ):
        with pytest.raises(ValueError, match="of other settings"):
            other.restore(saved, iterations=1)


class OnGpu(Tensor):
    is_cuda = True


def test_checkpoints_keep_the_accelerators_generator(monkeypatch: pytest.MonkeyPatch) -> None:
    """``torch.cuda`` is a stand-in."""
    drawn, gpu, draws = [torch.tensor([1])], torch.device("cuda"), torch.Generator()
    monkeypatch.setattr(torch.cuda, "get_rng_state", lambda device: drawn[-1])
    monkeypatch.setattr(torch.cuda, "set_rng_state", lambda state, device: drawn.append(state))
    state = State(torch.full((1, 1, 1, 2, 2), 0.5).as_subclass(OnGpu), eps=0.1)
    state.iteration, state.history = 1, [{"loss_sum": 1.0, "loss_mean": 0.5}]
    saved, kept, fitted = state.dump(), random_state(gpu), fit_state.random_state(gpu, draws)
    for restore in (
        lambda: state.restore(saved, iterations=1),
        lambda: set_random_state(gpu, kept),
        lambda: fit_state.set_random_state(fitted, gpu, draws),
    ):
        drawn.append(torch.tensor([2]))
        restore()
        assert drawn.pop() == 1


SETTINGS = {"eps": 0.1, "lr": 0.04, "iterations": 6, "seed": 0}


class Counts(crafting.Objective):
    """The convex polytope attack, which counts the targets that it reads while crafting."""

    def __init__(self) -> None:
        self.targets = 0

    def read_target(self, net, targets: Tensor) -> crafting.Reading:
        self.targets += len(targets)
        return super().read_target(net, targets)

    def loss(self, poisons, target, last):
        return convex_polytope.objective(poisons[0], target[0], last)


@pytest.mark.parametrize(
    ("dropout", "target_dropout", "readings"),
    [(False, "resampled", 1), (True, "resampled", 6), (True, "fixed", 1), (True, "off", 1)],
)
@pytest.mark.parametrize("target_batch", [None, 3])
def test_targets_are_read_once_unless_they_change(
    problem, dropout: bool, target_dropout: str, readings: int, target_batch: int | None
) -> None:
    attack = Counts()
    options = {"dropout": dropout, "target_dropout": target_dropout, "target_batch": target_batch}
    found = crafting.craft(attack, *problem, **SETTINGS, **options)
    assert attack.targets == 2 * 4 * (readings + 1)  # two networks, four targets; one more for the result
    if target_batch is None:
        plain = crafting.craft(convex_polytope.objective, *problem, **SETTINGS, **options)
        assert torch.equal(found.poisons, plain.poisons)  # a function is an objective on pooled features


def test_networks_without_dropout_are_not_reloaded(problem, tiny_net) -> None:
    attack = Counts()
    nets = [tiny_net(1, dropout=0.0), tiny_net(2)]
    crafting.craft(attack, nets, *problem[1:], **SETTINGS, dropout=True)
    assert attack.targets == 4 * (1 + 1) + 4 * (6 + 1)


@pytest.mark.parametrize("target_dropout", ["off", "fixed", "resampled"])
def test_what_is_too_large_to_keep_is_read_again_with_the_same_bits(
    problem, monkeypatch: pytest.MonkeyPatch, target_dropout: str
) -> None:
    options = SETTINGS | {"dropout": True, "target_dropout": target_dropout}
    kept = crafting.craft(multi_layer.Paper(), *problem, **options)
    monkeypatch.setattr(target_side, "KEPT_BYTES", 0)
    again = crafting.craft(multi_layer.Paper(), *problem, **options)
    assert torch.equal(kept.poisons, again.poisons) and kept.history == again.history
    attack = Counts()
    crafting.craft(attack, *problem, **options)
    readings = {"off": 1 + 6, "fixed": 1, "resampled": 6}[target_dropout]  # one tells the size
    assert attack.targets == 2 * 4 * (readings + 1)


def state_of(net: torch.nn.Module) -> tuple:
    return (
        [module.training for module in net.modules()],
        [parameter.requires_grad for parameter in net.parameters()],
    )


def test_frozen_puts_modes_and_gradient_flags_back_even_after_an_error(tiny_net) -> None:
    net = tiny_net(0)
    net.norm.eval()
    net.conv.weight.requires_grad_(False)
    before = state_of(net)
    with frozen(net):
        assert state_of(net) == ([False] * 5, [False] * 6)
    assert state_of(net) == before
    with pytest.raises(KeyError), frozen(net):
        raise KeyError
    assert state_of(net) == before


def test_dropout_is_switched_alone(tiny_net) -> None:
    net = tiny_net(0).eval()
    x = torch.rand(2, 2, 5, 5, dtype=torch.float64)
    still = net.features(x)
    with dropout_active(net, True):
        assert net.dropout.training and not net.norm.training and not net.training
        assert not torch.equal(net.features(x), net.features(x))
    torch.testing.assert_close(net.features(x), still)
    net.train()
    with dropout_active(net, False):
        assert not net.dropout.training and net.norm.training
    assert net.dropout.training


def test_kept_units_are_scaled_by_one_over_one_minus_p(tiny_net) -> None:
    """Section 2.2.7: off with probability p, otherwise times 1 / (1 - p); the mean stays."""
    net = tiny_net(0, dropout=0.2).eval()
    with dropout_active(net, True), seeded(0, torch.device("cpu")):
        values = net.dropout(torch.ones(20_000, dtype=torch.float64))
    assert values.unique().tolist() == [0, 1.25]
    assert abs(float((values == 0).double().mean()) - 0.2) < 0.015  # five standard deviations


def test_seeded_is_reproducible_and_leaves_the_global_state() -> None:
    before = torch.get_rng_state()
    with seeded(3, torch.device("cpu")):
        first = torch.rand(4)
    with seeded(3, torch.device("cpu")):
        assert torch.equal(torch.rand(4), first)
    assert torch.equal(torch.get_rng_state(), before)
