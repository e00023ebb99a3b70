"""The loss of an attack at given poisons, in any network."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import Tensor, nn

from relearn.maths.eval_mode import frozen
from relearn.methods.crafting.arguments import networks_of, parts_of
from relearn.methods.crafting.objective import Objective, OnFeatures, Reading, as_objective, reading


@torch.no_grad()
def evaluate(
    objective: Objective | OnFeatures,
    networks: Iterable[nn.Module],
    poisons: Tensor,
    targets: Tensor,
    *,
    precision: str = "fp32",
    target_batch: int | None = None,
) -> tuple[Tensor, list[Tensor | None]]:
    """The objective at poisons (T, k, C, H, W) in each of m networks, without dropout.

    Returns:
        losses (m, T), NaN if the attack's readings or their squares are not finite; and the coefficients
        (T, ...) for each network, None if there are none.
    """
    objective = as_objective(objective)
    networks = networks_of(networks, objective.needs, "networks")
    losses = poisons.new_full((len(networks), len(targets)), math.nan)
    coefficients: list[Tensor | None] = [None] * len(networks)
    with frozen(*networks):
        for i, net in enumerate(networks):
            for part in parts_of(len(targets), target_batch, objective.at_once):
                own = objective.part(part)
                found = reading(own.read, net, poisons[part], precision)
                target = reading(own.read_target, net, targets[part], precision)
                if not usable(found, target):
                    continue
                losses[i, part], c = own.loss(found, target, None)
                if c is not None:
                    whole = coefficients[i]
                    if whole is None:
                        whole = coefficients[i] = c.new_full((len(targets), *c.shape[1:]), math.nan)
                    whole[part] = c
    return losses, coefficients


def usable(poisons: Reading, target: Reading) -> bool:
    """Whether the sum of squares of the readings is finite; this one number reveals NaN, infinity or overflow in any entry."""
    with torch.no_grad():
        return math.isfinite(sum(torch.linalg.vector_norm(one).square() for one in (*poisons, *target)))
