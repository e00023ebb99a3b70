"""A layer as these cases need it."""

from __future__ import annotations

from typing import Any

from torch import nn


def exact(layer: nn.Module) -> Any:
    """The layer in float64 and eval mode, without fused kernels, which ``torch.func`` cannot differentiate, and without gradients."""
    layer.fused = False  # type: ignore[assignment]
    return layer.double().eval().requires_grad_(False)
