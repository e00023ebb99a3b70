"""The memory layout in which convolutions are fast and safe."""

from __future__ import annotations

import torch
from torch import nn

SAFE_CHANNELS = 8


def layout(model: nn.Module, device: torch.device, precision: str) -> torch.memory_format:
    """The layout for the images, and for the weights if it is channels_last: so with ``bf16``, and on the CPU, where a training
    step takes 0.7 to 0.9 of the time (``benchmarks/training.py``). In single precision on an accelerator nothing is changed.

    In single precision, oneDNN 3.12 (of torch 2.13) writes outside its memory in the backward pass of a channels_last 1 × 1
    convolution with a stride and fewer than eight input channels. A network with one, and its images, are contiguous.
    """
    if precision == "bf16":
        return torch.channels_last
    if device.type != "cpu":
        return torch.preserve_format
    unsafe = any(_unsafe(module) for module in model.modules())
    return torch.contiguous_format if unsafe else torch.channels_last


def _unsafe(module: nn.Module) -> bool:
    return (
        isinstance(module, nn.Conv2d)
        and module.kernel_size == (1, 1)
        and max(module.stride) > 1
        and module.in_channels // module.groups < SAFE_CHANNELS
    )
