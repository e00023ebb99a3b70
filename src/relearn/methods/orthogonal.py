r"""Orthogonal weights (Saxe, McClelland, Ganguli, ICLR 2014), and LSUV, which builds on them (Mishkin, Matas, ICLR 2016)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import init

from relearn.maths.spectral_draw import redraw
from relearn.methods.initialised import Initialised
from relearn.methods.learned_scales import preserve_state
from relearn.methods.variance_scaling import (
    CONVOLUTIONS,
    generator_of,
    layers,
    positive,
    reset_norms_and_biases,
)


def orthogonal(
    model: nn.Module,
    loss: Any = None,
    batches: Any = None,
    *,
    seed: int = 0,
    gain: float = math.sqrt(2),
    linear_gain: float = 1.0,
) -> Initialised:
    r"""Draw every layer's weight as ``gain`` times a matrix Q with Q Qᵀ = I or Qᵀ Q = I, depending on its shape.

    A convolution is treated as the matrix (outputs, inputs · kernel area), a case that Saxe et al. do not cover. Q is uniform (Haar).
    Biases are set to 0, normalisations to scale 1 and shift 0; embeddings and other parameters are not changed.

    Args:
        model: any network with parameters; changed in place.
        loss, batches: not used.
        seed: seed of the generator.
        gain: gain of convolutions; sqrt(2) preserves the mean square through ReLU.
        linear_gain: gain of linear layers (the heads of the networks here).

    Raises:
        ValueError: a gain that is not positive; a model without parameters.
    """
    positive("gain", gain)
    positive("linear_gain", linear_gain)
    _draw(model, seed, gain, linear_gain)
    return Initialised()


def lsuv(
    model: nn.Module,
    loss: Any,
    batches: Iterable[Sequence[Any]],
    *,
    seed: int = 0,
    tolerance: float = 0.1,
    iterations: int = 10,
) -> Initialised:
    r"""Layer-sequential unit variance: orthogonal weights, then each layer divided by the standard deviation of its output.

    For every convolution and linear layer l, in the order of the forward pass, with y_l its output on one batch and the
    variance over all entries of y_l:

    .. math:: W_l \leftarrow W_l / \sqrt{\mathrm{Var}[y_l]}
              \quad\text{while}\quad |\mathrm{Var}[y_l] - 1| \ge \mathtt{tolerance}

    at most ``iterations`` times. The published algorithm runs the network from its input again after every division, about L² layer
    evaluations for L layers. Here each layer is rescaled within a single forward pass, before the next layer receives its output. This
    gives the same weights with L evaluations, because the layers before l do not change any more. Batch normalisation uses batch
    statistics, and dropout is off. A layer called several times is scaled at its first call; of layers that share a weight, only the
    first counts.

    Args:
        model: any network with parameters; changed in place.
        loss: not used.
        batches: one batch is used.
        seed: seed of the generator.
        tolerance: allowed distance of a variance from 1.
        iterations: T_max of the paper.

    Returns:
        ``scales``: factors of the layers' weights relative to the orthogonal draw. ``history``: one row per layer, in order: layer,
        variance_before, variance, iterations. ``skipped``: weights of layers with constant output. A non-finite variance gives the
        outcome ``diverged`` with the layer's number.

    Raises:
        ValueError: no batch; a tolerance that is not positive; fewer than one iteration; no parameters.
    """
    positive("tolerance", tolerance)
    if iterations < 1:
        raise ValueError(f"iterations: {iterations} (allowed: at least 1)")
    batch = next(iter(batches), None) if batches is not None else None
    if batch is None:
        raise ValueError("lsuv: no batch (allowed: an iterator with at least one)")
    _draw(model, seed, 1.0, 1.0)
    done = Initialised()
    names = {id(tensor): name for name, tensor in model.named_parameters()}
    pending = {id(layer): weight for layer, weight in layers(model)}

    def settle(layer: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> Tensor | None:
        weight = pending.pop(id(layer), None)
        if weight is None or done.outcome != "ok":
            return None
        name, before, count = names[id(weight)], _variance(output), 0
        variance, scale = before, 1.0
        while (
            variance > 0 and math.isfinite(variance) and abs(variance - 1) >= tolerance and count < iterations
        ):
            weight.mul_(variance**-0.5)
            scale *= variance**-0.5
            output = layer.forward(*inputs)
            variance, count = _variance(output), count + 1
        row: dict[str, float | str] = {"layer": name.removesuffix(".weight"), "variance_before": before}
        done.history.append({**row, "variance": variance, "iterations": float(count)})
        done.scales[name] = scale
        if variance == 0:
            done.skipped += (name,)
        elif not math.isfinite(variance):
            done.outcome, done.outcome_step = "diverged", len(done.history)
            done.outcome_reason = f"the output of {name.removesuffix('.weight')} has a variance of {variance}"
        return output

    hooks = [layer.register_forward_hook(settle) for layer, _ in list(layers(model))]
    try:
        with preserve_state(model, seed), torch.no_grad():
            model(batch[0]) if isinstance(batch[0], Tensor) else model(*batch[0])
    finally:
        for hook in hooks:
            hook.remove()
    return done


def _draw(model: nn.Module, seed: int, gain: float, linear_gain: float) -> None:
    generator = generator_of(model, seed)
    reset_norms_and_biases(model)
    for layer, weight in layers(model):
        factor = gain if isinstance(layer, CONVOLUTIONS) else linear_gain
        redraw(weight, lambda t, factor=factor: init.orthogonal_(t, factor, generator))  # type: ignore[misc]


def _variance(output: Tensor) -> float:
    return float(output.detach().to(torch.float64).var(correction=0))
