"""FixUp: initialisation of residual networks without normalisation (Zhang, Dauphin, Ma, ICLR 2019, section 3)."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from relearn.methods.initialised import Initialised
from relearn.methods.variance_scaling import NORMALISATIONS, generator_of, kaiming


@torch.no_grad()
def fixup(model: nn.Module, loss: Any = None, batches: Any = None, *, seed: int = 0) -> Initialised:
    """Kaiming initialisation, then for L residual branches of m layers each:

    1. the last layer of every branch and the head are set to 0;
    2. the other layers of a branch are multiplied by :math:`L^{-1/(2m-2)}`, i.e. L^{-1/2} for two layers, L^{-1/4} for three;
    3. the scalars that replace normalisation start at 1 (multipliers) and 0 (shifts). The networks here already start with these
       values, except that the multipliers of a SkipInit network start at 0. These are reset to 1: with branch and multiplier both 0,
       neither would ever be updated.

    Kaiming is :func:`relearn.methods.variance_scaling.kaiming` in the form published for the network, with the same draw for the same
    seed. The shortcuts and the stem keep their Kaiming weights.

    Args:
        model: a network with ``branches()``, which returns the layers of each residual branch from first to last, and ``head``, its last
            linear layer; changed in place.
        loss, batches: not used.
        seed: seed of the generator.

    Returns:
        ``scales``: the factors of rules 1 and 2 relative to Kaiming, by name of the weight.

    Raises:
        ValueError: the model does not declare its branches, has a branch of fewer than two layers, or has normalisation layers.
    """
    generator_of(model, seed)
    kind = type(model).__name__
    branches = list(model.branches()) if hasattr(model, "branches") else []  # type: ignore[operator]
    head = getattr(model, "head", None)
    if not branches or not isinstance(head, nn.Linear):
        raise ValueError(
            f"fixup: {kind} does not declare its residual branches and its head (allowed: a network with branches() and head)"
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
