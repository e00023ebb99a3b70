"""The cheap dropout of trainings and of crafting: its probability, its expectation, its gradient, and what it leaves behind."""

import math

import pytest
import torch
from torch import nn

from relearn.methods.cheap_dropout import cheap_masks, dropout
from relearn.methods.dropout_masks import MaskReplay


@pytest.mark.parametrize("p", [0.25, 0.1, 1 / 3, 0.9])
def test_every_place_of_a_word_is_dropped_with_probability_p(p):
    torch.manual_seed(0)
    x = torch.ones(25_000, 4)
    kept = dropout(nn.Dropout(p), x) > 0
    spread = math.sqrt(p * (1 - p) / len(x))
    assert bool(((1 - kept.double().mean(0) - p).abs() < 5 * spread).all())
    agree = (kept[:, :1] == kept[:, 1:]).double().mean(0)  # places of one word are independent
    assert bool((agree - p**2 - (1 - p) ** 2).abs().max() < 5 * 0.5 / math.sqrt(len(x)))


def test_values_gradient_and_repetition():
    layer = nn.Dropout(0.25)
    x = torch.rand(3, 5, 7).add(1).requires_grad_()
    torch.manual_seed(1)
    y = dropout(layer, x)
    (gradient,) = torch.autograd.grad(y.sum(), x)
    torch.testing.assert_close(y, torch.where(y > 0, x / 0.75, 0.0))
    torch.testing.assert_close(gradient, torch.where(y > 0, 1 / 0.75, 0.0))
    torch.manual_seed(1)
    assert torch.equal(dropout(layer, x), y)
    assert not torch.equal(dropout(layer, x), y)
    assert dropout(layer, x.bfloat16()).dtype == torch.bfloat16


def test_switched_off_and_extreme_layers_behave_as_torchs():
    x = torch.rand(9)
    assert torch.equal(dropout(nn.Dropout(0.5).eval(), x), x)
    assert torch.equal(dropout(nn.Dropout(0.0), x), x)
    assert torch.equal(dropout(nn.Dropout(1.0), x), torch.zeros(9))


def test_the_context_changes_plain_dropout_only_and_restores_it():
    shared = nn.Dropout(0.5)
    nets = [nn.Sequential(shared, nn.Dropout2d(0.5), shared), nn.Sequential(shared)]
    with pytest.raises(RuntimeError, match="inside"), cheap_masks(nets):
        assert "forward" in vars(shared) and "forward" not in vars(nets[0][1])
        raise RuntimeError("inside")
    assert "forward" not in vars(shared)
    shared.forward = own = shared.forward
    with cheap_masks(nets):
        assert shared.forward is own
    assert vars(shared)["forward"] is own


def test_a_replay_repeats_the_masks_and_takes_no_other_call():
    net, masks, x = nn.Sequential(nn.Dropout(0.3), nn.Dropout(0.3)), MaskReplay(), torch.ones(4, 9)
    with cheap_masks([net]):
        with masks.drawing():
            first = net(x)
        with masks.again():
            assert not torch.equal(net[0](x), net[0](x))  # the two masks of the first pass, in order
        with masks.again():
            assert torch.equal(net(x), first)
        with masks.again(), pytest.raises(ValueError, match=r"dropout call 1: found cheap_mask of \(2, 9\)"):
            net(x[:2])
        with masks.again(), pytest.raises(ValueError, match=r"call 3: found cheap_mask .*allowed: 2 calls"):
            net[1](net(x))
        assert not torch.equal(net(x), first)
