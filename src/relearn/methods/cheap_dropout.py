"""Dropout with the cheap masks of :mod:`relearn.maths.cheap_mask` in layers of torch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from torch import Tensor, nn
from torch.nn import functional as F

from relearn.maths.cheap_mask import LEVELS, cheap_mask


@contextmanager
def cheap_masks(networks: Sequence[nn.Module]) -> Iterator[None]:
    """Context in which the networks' ``nn.Dropout`` layers use :func:`dropout`; other kinds of layers, and layers with a ``forward``
    of the caller, keep their masks."""
    found = {module for net in networks for module in net.modules() if type(module) is nn.Dropout}
    layers = [module for module in found if "forward" not in vars(module)]
    for layer in layers:
        layer.forward = partial(dropout, layer)  # type: ignore[method-assign]
    try:
        yield
    finally:
        for layer in layers:
            del layer.forward


def dropout(layer: nn.Dropout, x: Tensor) -> Tensor:
    """x with entries zeroed with probability q and the others divided by 1 - q, where q is p rounded to a multiple of 2⁻¹⁶.

    Accelerators, and a p that rounds to 0 or 1, use torch's own function.
    """
    cut = round(layer.p * LEVELS)
    if not layer.training or x.device.type != "cpu" or not 0 < cut < LEVELS:
        return F.dropout(x, layer.p, layer.training, layer.inplace)
    kept = cheap_mask(x.detach(), cut)
    return x * kept.to(x.dtype).mul_(LEVELS / (LEVELS - cut))
