"""What is read of the targets: once where it does not change, and the same wherever it is kept."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from relearn.methods import convex_polytope, crafting, multi_layer
from relearn.methods.crafting import target_side

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
