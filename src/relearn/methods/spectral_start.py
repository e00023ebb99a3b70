"""Spectral initialisation: every affine layer starts with Lipschitz constant 1 (qi2023, section 4.1.4)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from relearn.maths.operator_norm import flattened_is_exact, operator_norm
from relearn.maths.spectral_draw import redraw, spectral_normal_
from relearn.methods.initialised import Initialised
from relearn.methods.learned_scales import preserve_state
from relearn.methods.variance_scaling import (
    CONVOLUTIONS,
    generator_of,
    layers,
    reset_norms_and_biases,
)


def spectral_start(
    model: nn.Module,
    loss: Any = None,
    batches: Iterable[Sequence[Any]] | None = None,
    *,
    seed: int = 0,
    operator: bool = False,
) -> Initialised:
    r"""Draw every linear layer and convolution as :math:`W / \sigma_{\max}(W)` with Xavier-normal W (equation 5).

    =========================  ================================================  =====================================
    layer                      ``operator=False``: as published                  ``operator=True``
    =========================  ================================================  =====================================
    linear, and attention (1)  largest singular value 1                          the same
    convolution                the same for the kernel as (outputs, rest)        norm 1 as a map of images
    biases                     0                                                 the same
    torch's normalisations     scale 1, shift 0                                  the same
    any other                  unchanged                                         unchanged
    =========================  ================================================  =====================================

    (1) ``nn.MultiheadAttention``: its three projections as one matrix.

    If its windows do not overlap (patches), a convolution has the norm of its flattened kernel. Otherwise its norm can be larger by
    up to :math:`\sqrt{k_h k_w}`, or smaller: a random depth-wise 7 x 7 convolution has norm 1.9 with 8 channels, 1.4 with 96 and
    0.8 with 384; the worst case is 7 (errata, Q12). The claim "1-Lipschitz" in the paper's section 4.2.3 therefore does not hold
    for them. ``operator=True`` divides by the norm of the map at the input sizes that the layer sees, including borders. Singular
    values are computed from products with the weight, not from a decomposition. Both norms are lower bounds, at most about 1e-4
    (flattened) or 1e-3 (convolutions too large for a dense matrix) too small.

    Follows the contract of :mod:`relearn.methods.initialised`; a tensor that two layers share is drawn once.

    Args:
        model: any network with parameters, or one layer; changed in place.
        loss: not used.
        batches: with ``operator``, one batch is used if any convolution has overlapping windows; otherwise not used.
        seed: seed of the generator.
        operator: divide convolutions by their norm as a map of images.

    Raises:
        ValueError: a model without parameters; ``operator`` needs a batch and there is none.
    """
    generator = generator_of(model, seed)
    reset_norms_and_biases(model)
    drawn = list(layers(model, stacked=True))
    for _, weight in drawn:
        redraw(weight, lambda one: spectral_normal_(one, generator))
    wide = [layer for layer, _ in drawn if isinstance(layer, CONVOLUTIONS) and not flattened_is_exact(layer)]
    if operator and wide:
        batch = next(iter(batches), None) if batches is not None else None
        if batch is None:
            raise ValueError(
                "batches: none (allowed with operator=True: at least one, for the sizes of the images)"
            )
        _divide(model, wide, batch[0], seed)
    return Initialised()


def _divide(
    model: nn.Module, wide: Sequence[nn.Conv1d | nn.Conv2d | nn.Conv3d], inputs: Any, seed: int
) -> None:
    """Divide the weight of each convolution by its norm, the largest over the input sizes in one forward pass."""
    seen: dict[nn.Conv1d | nn.Conv2d | nn.Conv3d, set[tuple[int, ...]]] = {layer: set() for layer in wide}

    def note(layer: nn.Module, given: tuple[Tensor, ...]) -> None:
        assert isinstance(layer, CONVOLUTIONS)
        seen[layer].add(tuple(given[0].shape[-len(layer.kernel_size) :]))

    hooks = [layer.register_forward_pre_hook(note) for layer in wide]
    try:
        with preserve_state(model, seed), torch.no_grad():
            model(inputs) if isinstance(inputs, Tensor) else model(*inputs)
    finally:
        for hook in hooks:
            hook.remove()
    with torch.no_grad():
        for layer, sizes in seen.items():
            norm = max((float(operator_norm(layer, size)) for size in sizes), default=0.0)
            if 0 < norm < math.inf:
                layer.weight.div_(norm)
