"""Condition under which a layer uses its own backward pass instead of torch's."""

import torch
from torch import Tensor


def own_backward(x: Tensor) -> bool:
    """Return whether x is a nonempty tensor on a CPU, outside a compiler.

    Our backward passes save time and memory on a CPU. ``torch.compile``, ``torch.export`` and the ONNX exporter see ordinary
    operations instead: they derive and schedule a backward pass themselves, and cannot trace into ours.
    """
    return not torch.compiler.is_compiling() and x.device.type == "cpu" and x.shape[0] > 0
