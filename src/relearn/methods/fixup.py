"""FixUp: a start for residual networks without normalisation (Zhang, Dauphin, Ma, ICLR 2019, section 3)."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from relearn.methods.initialised import Initialised
from relearn.methods.variance_scaling import NORMALISATIONS, generator_of, kaiming


@torch.no_grad()
def fixup(model: nn.Module, loss: Any = None, batches: Any = None, *, seed: int = 0) -> Initialised:
    r"""Kaiming, then with L residual branches of m layers each:

    1. the last layer of every branch and the head: 0;
    2. the other layers of a branch: times :math:`L^{-1/(2m-2)}`, so L^{-1/2} for two layers, L^{-1/4} for three;
    3. numbers in the place of normalisation: multipliers 1, shifts 0 (in the networks here they begin so; a
       SkipInit network's multipliers, which begin at 0, are set, or branch and multiplier would both be 0 and
       never move).

    Kaiming is :func:`relearn.methods.variance_scaling.kaiming` as published for the network, with the same seed
    the same draw. The shortcuts and the stem keep it.

    Args:
        model: a network that says which its residual branches are: ``branches()`` gives the layers of each, from
            the first to the last, and ``head`` is its last linear layer; changed in place.
        loss, batches: not used.
        seed: of the generator.

    Returns:
        ``scales``: the factors of rules 1 and 2 relative to Kaiming, by the names of the weights.

    Raises:
        ValueError: a model that does not say its branches, has a branch of fewer than two layers, or normalises.
    """
    generator_of(model, seed)
    kind = type(model).__name__
    branches = list(model.branches()) if hasattr(model, "branches") else []  # type: ignore[operator]
    head = getattr(model, "head", None)
    if not branches or not isinstance(head, nn.Linear):
        raise ValueError(
            f"fixup: {kind} does not say its residual branches and its head (allowed: branches(), head)"
        )
    short = [index for index, branch in enumerate(branches) if len(branch) < 2]
    if short:
        raise ValueError(
            f"fixup: branch {short[0]} of {kind} has fewer than two layers (allowed: two or more)"
        )
    if any(isinstance(module, NORMALISATIONS) for module in model.modules()):
        raise ValueError(
            f"fixup: {kind} has normalisation layers (allowed: a network without, e.g. FixUpResNet-110)"
        )
    kaiming(model, seed=seed)
    factors = [(head, 0.0)]
    for branch in branches:
        inner = len(branches) ** (-1 / (2 * len(branch) - 2))
        factors += [(layer, inner) for layer in branch[:-1]] + [(branch[-1], 0.0)]
    names = {id(tensor): name for name, tensor in model.named_parameters()}
    done = Initialised()
    for layer, factor in factors:
        layer.weight.mul_(factor)
        done.scales[names[id(layer.weight)]] = factor
        if layer.bias is not None:
            layer.bias.zero_()
    for name, tensor in model.named_parameters():
        if name.rpartition(".")[2] == "scale" and tensor.numel() == 1:
            tensor.fill_(1.0)
    return done
