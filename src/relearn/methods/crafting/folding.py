"""Batch normalisation folded into the convolution before it, while a network is frozen in eval mode."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval


@contextmanager
def folded(networks: Sequence[nn.Module], precision: str) -> Iterator[None]:
    r"""Context in which every ``nn.Conv2d`` that an ``nn.BatchNorm2d`` follows in an ``nn.Sequential`` computes both.

    .. math:: \gamma\,\frac{W * x + b - \mu}{\sqrt{v + \epsilon}} + \beta = W' * x + b'

    with the running statistics :math:`\mu`, :math:`v`. The batch normalisation passes its input on. Forward and backward each save
    a pass over the activations; in float64 the features are equal to rounding. Parameters, buffers and their names are unchanged.

    The networks must stay in eval mode, their weights must not change or need gradients, and they must call the two in turn, as the
    ``nn.Sequential`` does. A pair is left alone if one of its modules occurs twice, if it has hooks, which would see what is not there, or
    a ``forward`` of the caller, or if the normalisation has no running statistics.

    Args:
        networks: may share modules or occur twice.
        precision: with ``bf16`` the folded weights have this type, so that autocast does not convert them in each pass.
    """
    fused = []
    for conv, norm in _pairs(networks):
        one = fuse_conv_bn_eval(conv, norm).requires_grad_(False)
        if precision == "bf16":
            one.to(torch.bfloat16)
        if conv.weight.is_contiguous(memory_format=torch.channels_last):
            one.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        fused.append((conv, norm, one))
    try:
        for conv, norm, one in fused:
            conv.forward, norm.forward = one.forward, _same  # type: ignore[method-assign,assignment]
        yield
    finally:
        for conv, norm, _ in fused:
            conv.__dict__.pop("forward", None)
            norm.__dict__.pop("forward", None)


def _same(x: Tensor) -> Tensor:
    return x


def _pairs(networks: Sequence[nn.Module]) -> list[tuple[nn.Conv2d, nn.BatchNorm2d]]:
    places = {one for net in networks for one in net.modules()}
    uses = Counter(child for place in places for child in place._modules.values())
    return [
        (conv, norm)
        for place in places
        if type(place) is nn.Sequential
        for conv, norm in pairwise(place)
        if type(conv) is nn.Conv2d and type(norm) is nn.BatchNorm2d and norm.running_mean is not None
        if uses[conv] == uses[norm] == 1 and not (_changed(conv) or _changed(norm))
    ]


def _changed(one: nn.Module) -> bool:
    own = vars(one)
    return "forward" in own or any(value for name, value in own.items() if name.endswith("_hooks"))
