"""What layers ask about the place of a tensor: whether our own backward pass applies, and products in full precision."""

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor


def own_backward(x: Tensor) -> bool:
    """Return whether x is a nonempty tensor on a CPU, outside a compiler.

    Our backward passes save time and memory on a CPU. ``torch.compile``, ``torch.export`` and the ONNX exporter see ordinary
    operations instead: they derive and schedule a backward pass themselves, and cannot trace into ours.
    """
    return not torch.compiler.is_compiling() and x.device.type == "cpu" and x.shape[0] > 0


def full_precision(x: Tensor) -> AbstractContextManager[None]:
    """Disable autocast; the meta device, used to count parameters and FLOPs, has none to disable."""
    kind = x.device.type
    return torch.autocast(kind, enabled=False) if torch.amp.is_autocast_available(kind) else nullcontext()


def wide(x: Tensor) -> Tensor:
    """Convert half precision to float32; other types are unchanged."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
