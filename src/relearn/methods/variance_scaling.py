r"""Variance-scaling initialisations: Kaiming (He et al. 2015) and Xavier (Glorot, Bengio 2010).

===============  =============================================  ===========================================
layer            :func:`kaiming`                                :func:`xavier`
===============  =============================================  ===========================================
convolution      N(0, 2 / fan) with fan-out or fan-in           U(-a, a), a = gain · sqrt(6 / (in + out)),
                 (He, eq. 14 and 10)                            or N(0, gain² · 2 / (in + out)) (eq. 16, 12)
linear           U(±1 / sqrt(fan-in)), torch's default          as a convolution
embedding        unchanged                                      N(0, 1 / dimension), padding row 0
attention (1)    unchanged                                      its stacked map as one linear layer
normalisation    scale 1, shift 0                               scale 1, shift 0
biases           0                                              0
any other        unchanged                                      unchanged
===============  =============================================  ===========================================

fan-in = inputs · kernel area, fan-out = outputs · kernel area, with torch's count for grouped convolutions.
(1) ``nn.MultiheadAttention``, which stores its three projections as one parameter.

Both follow the contract of :mod:`relearn.methods.initialised` and need no data. A tensor shared by two layers is drawn once;
one that an embedding shares with a linear layer is drawn as the embedding by :func:`xavier`, as the linear layer by the others.
A network with reparametrised layers is refused, because what is drawn would pass through the reparametrisation (spectral
normalisation divides it by its norm). Initialise first, then reparametrise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import init
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.utils.parametrize import is_parametrized

from relearn.maths.spectral_draw import redraw
from relearn.methods.initialised import Initialised

MODES = ("published", "fan_out", "fan_in")
DISTRIBUTIONS = ("uniform", "normal")
CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
NORMALISATIONS = (_NormBase, nn.LayerNorm, nn.GroupNorm)
DRAWN = (*CONVOLUTIONS, *NORMALISATIONS, nn.Linear, nn.Embedding, nn.MultiheadAttention)


def kaiming(
    model: nn.Module, loss: Any = None, batches: Any = None, *, seed: int = 0, mode: str = "published"
) -> Initialised:
    """Redraw the convolutions so that ReLU preserves the variance, in the backward (fan-out) or forward (fan-in) direction.

    Args:
        model: any network with parameters; changed in place.
        loss, batches: not used.
        seed: seed of the generator.
        mode: ``published``: the initialisation of the network's own code, if the network has a method ``draw_start(generator)``
            (:mod:`relearn.models.published_start`; WRN-28-10's is torch's default, VGG's head has a standard deviation of 0.01),
            else ``fan_out``. ``fan_out``, ``fan_in``: the table above, for every network.

    Raises:
        ValueError: an unknown mode; a model without parameters.
    """
    if mode not in MODES:
        raise ValueError(f"mode: {mode!r} (allowed: {', '.join(MODES)})")
    generator = generator_of(model, seed)
    own: Callable[[torch.Generator], None] | None = getattr(model, "draw_start", None)
    if mode == "published" and own is not None:
        own(generator)
        return Initialised()
    fan: Literal["fan_in", "fan_out"] = "fan_in" if mode == "fan_in" else "fan_out"

    def he(tensor: Tensor) -> Tensor:
        return init.kaiming_normal_(tensor, mode=fan, nonlinearity="relu", generator=generator)

    def plain(tensor: Tensor) -> Tensor:
        bound = tensor.shape[1] ** -0.5
        return init.uniform_(tensor, -bound, bound, generator)

    reset_norms_and_biases(model)
    for layer, weight in layers(model):
        redraw(weight, he if isinstance(layer, CONVOLUTIONS) else plain)
    return Initialised()


def xavier(
    model: nn.Module,
    loss: Any = None,
    batches: Any = None,
    *,
    seed: int = 0,
    distribution: str = "uniform",
    gain: float = 1.0,
) -> Initialised:
    """Redraw every layer with variance gain² · 2 / (fan-in + fan-out).

    Args:
        model: any network with parameters; changed in place.
        loss, batches: not used.
        seed: seed of the generator.
        distribution: ``uniform`` (Glorot and Bengio's "normalized initialization") or ``normal``.
        gain: factor on the weights.

    Raises:
        ValueError: an unknown distribution; a gain that is not positive; a model without parameters.
    """
    if distribution not in DISTRIBUTIONS:
        raise ValueError(f"distribution: {distribution!r} (allowed: {', '.join(DISTRIBUTIONS)})")
    positive("gain", gain)
    generator = generator_of(model, seed)
    draw = init.xavier_uniform_ if distribution == "uniform" else init.xavier_normal_
    reset_norms_and_biases(model)
    drawn: set[int] = set()
    for module in model.modules():
        if isinstance(module, nn.Embedding) and id(module.weight) not in drawn:
            drawn.add(id(module.weight))
            redraw(module.weight, lambda t: init.normal_(t, 0.0, t.shape[1] ** -0.5, generator))
            if module.padding_idx is not None:
                redraw(module.weight[module.padding_idx], init.zeros_)
    for _, weight in layers(model, drawn, stacked=True):
        redraw(weight, lambda t: draw(t, gain, generator))
    return Initialised()


# --- shared with orthogonal.py and fixup.py  -------------------------------------------------------


def generator_of(model: nn.Module, seed: int) -> torch.Generator:
    """A seeded CPU generator; ValueError if the model has no parameters, or a layer computes its weight from others."""
    if next(model.parameters(), None) is None:
        raise ValueError(f"a {type(model).__name__} without parameters: nothing to initialise")
    for name, module in model.named_modules():
        # the older weight_norm and pruning keep the computed weight as a plain attribute
        if isinstance(module, DRAWN) and (
            is_parametrized(module) or isinstance(vars(module).get("weight"), Tensor)
        ):
            raise ValueError(
                f"{name or 'model'}: a reparametrised weight (allowed: initialise first, then reparametrise)"
            )
    return torch.Generator().manual_seed(seed)


def positive(key: str, value: float) -> None:
    if not 0 < value < math.inf:
        raise ValueError(f"{key}: {value} (allowed: a positive number)")


def reset_norms_and_biases(model: nn.Module) -> None:
    """Set normalisations to scale 1 and shift 0, and biases of layers to 0; draws nothing."""
    for module in model.modules():
        if isinstance(module, NORMALISATIONS) and isinstance(module.weight, Tensor):
            redraw(module.weight, init.ones_)
        if isinstance(module, (*NORMALISATIONS, *CONVOLUTIONS, nn.Linear)) and isinstance(
            module.bias, Tensor
        ):
            redraw(module.bias, init.zeros_)
        if isinstance(module, nn.MultiheadAttention) and module.in_proj_bias is not None:
            redraw(module.in_proj_bias, init.zeros_)


def layers(
    model: nn.Module, drawn: set[int] | None = None, *, stacked: bool = False
) -> Iterator[tuple[nn.Module, Tensor]]:
    """Every convolution and linear layer with its weight; a shared weight appears once. Weights in ``drawn`` are skipped.

    Args:
        stacked: include ``nn.MultiheadAttention`` with its stacked projections.
    """
    seen = set() if drawn is None else set(drawn)
    for module in model.modules():
        weight = module.weight if isinstance(module, (*CONVOLUTIONS, nn.Linear)) else None
        if stacked and isinstance(module, nn.MultiheadAttention):
            weight = module.in_proj_weight
        if weight is not None and id(weight) not in seen:
            seen.add(id(weight))
            yield module, weight
