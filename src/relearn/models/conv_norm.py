"""Building blocks of all eight networks: size-preserving convolution, and batch normalisation."""

from __future__ import annotations

from torch import nn


def conv(
    inputs: int, outputs: int, kernel: int = 1, *, stride: int = 1, groups: int = 1, bias: bool = False
) -> nn.Conv2d:
    """Convolution with padding ``(kernel - 1) / 2`` for an odd ``kernel``: H → ceil(H / stride)."""
    return nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=bias)


def conv_norm(
    inputs: int, outputs: int, kernel: int = 1, *, stride: int = 1, groups: int = 1, bias: bool = False
) -> nn.Sequential:
    """Convolution, then batch normalisation; no activation."""
    return nn.Sequential(
        conv(inputs, outputs, kernel, stride=stride, groups=groups, bias=bias), nn.BatchNorm2d(outputs)
    )


def conv_norm_relu(
    inputs: int, outputs: int, kernel: int = 1, *, stride: int = 1, groups: int = 1, bias: bool = False
) -> nn.Sequential:
    """Convolution, batch normalisation, ReLU."""
    return conv_norm(inputs, outputs, kernel, stride=stride, groups=groups, bias=bias).append(nn.ReLU())
