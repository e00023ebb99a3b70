"""The 2-norm of a linear or convolutional layer as a map, whether the flattened weight has it, and whether a network is one map at all."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from relearn.maths.norms import conv_operator_norm, spectral_norm

RANDOM = ("p", "drop_prob", "drop_path", "dropout", "attention_dropout")
"""Attributes that hold the probability of something drawn in training."""
Affine = nn.Linear | nn.Conv1d | nn.Conv2d | nn.Conv3d


def operator_norm(layer: Affine, size: int | Sequence[int] = 1) -> Tensor:
    """Return the largest factor by which a linear layer or convolution stretches a difference of inputs (biases cancel).

    Args:
        layer: linear, or a convolution of one to three axes with any stride, padding, dilation and groups.
        size: size of a convolution's input, along its axes.

    Returns:
        A scalar in at least single precision; for its accuracy see :func:`~relearn.maths.norms.conv_operator_norm`.

    Raises:
        ValueError: arguments that this function rejects.
    """
    weight = layer.weight
    if weight.dtype in (torch.float16, torch.bfloat16):
        weight = weight.float()
    if isinstance(layer, nn.Linear):
        return spectral_norm(weight)
    return conv_operator_norm(
        weight,
        size,
        stride=layer.stride,
        padding=layer.padding if isinstance(layer.padding, str) else tuple(layer.padding),
        dilation=layer.dilation,
        groups=layer.groups,
        padding_mode=layer.padding_mode,
    )


def flattened_is_exact(layer: Affine) -> bool:
    """Return whether the weight flattened to (outputs, rest) has the layer's norm for every input size.

    This holds for linear layers, and for ungrouped convolutions whose windows neither overlap nor reach into padding: each
    window is then multiplied by that matrix, and no input is in two windows.
    """
    return isinstance(layer, nn.Linear) or (layer.groups == 1 and separate_windows(layer))


def separate_windows(layer: nn.Conv1d | nn.Conv2d | nn.Conv3d) -> bool:
    """Whether the windows of a convolution neither overlap nor reach into padding, so that each is multiplied by the flattened kernel."""
    spans = [d * (k - 1) + 1 for d, k in zip(layer.dilation, layer.kernel_size)]
    padded = max(spans) > 1 if layer.padding == "same" else layer.padding != "valid" and any(layer.padding)
    return not padded and all(s >= n for s, n in zip(layer.stride, spans))


def changing(network: nn.Module) -> str:
    """Why a network is not one function of a sample: a part that draws or uses the batch's statistics; empty if it is."""
    for name, module in network.named_modules():
        batch = isinstance(module, nn.modules.batchnorm._BatchNorm)
        batch = batch and (module.training or module.running_var is None)
        if batch or (module.training and any(_positive(getattr(module, one, 0.0)) for one in RANDOM)):
            what = "uses statistics of the batch" if batch else "draws in training mode"
            allowed = "eval(), with running statistics" if batch else "eval()"
            return f"{name or 'network'}: {type(module).__name__} {what} (allowed: {allowed})"
    return ""


def _positive(value: object) -> bool:
    return isinstance(value, float | int) and value > 0
