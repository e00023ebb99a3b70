"""Dropout masks that cost less than torch's on a CPU, which draws a Bernoulli number for each entry."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F

LEVELS = 2**16


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

    One random int64 of torch's generator serves four entries. Accelerators, and a p that rounds to 0 or 1, use torch's own function.
    """
    cut = round(layer.p * LEVELS)
    if not layer.training or x.device.type != "cpu" or not 0 < cut < LEVELS:
        return F.dropout(x, layer.p, layer.training, layer.inplace)
    words, ends = math.ceil(x.numel() / 4), torch.iinfo(torch.int64)
    drawn = torch.randint(ends.min, ends.max, (words,), dtype=torch.int64)
    kept = drawn.view(torch.int16)[: x.numel()].view(x.shape) >= cut - LEVELS // 2
    return x * kept.to(x.dtype).mul_(LEVELS / (LEVELS - cut))
