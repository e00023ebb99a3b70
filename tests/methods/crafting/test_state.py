"""Adam written out equals torch's; the box; the checkpoint's contents."""

from __future__ import annotations

import pytest
import torch

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
        with pytest.raises(ValueError, match="do not belong to these bases and eps"):
            other.restore(saved, iterations=1)
