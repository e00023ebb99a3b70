"""Networks are lent: whatever crafting switches is put back."""

from __future__ import annotations

import pytest
import torch

from relearn.methods.crafting import dropout_active, frozen
from relearn.methods.crafting.networks import seeded


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
    with frozen([net]):
        assert state_of(net) == ([False] * 5, [False] * 6)
    assert state_of(net) == before
    with pytest.raises(KeyError), frozen([net]):
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
