"""Preparation of a layer for exact derivatives."""

from __future__ import annotations

from typing import Any

from torch import nn


def exact(layer: nn.Module) -> Any:
    """Return the layer in float64 and eval mode, without parameter gradients and without fused kernels, which ``torch.func`` rejects."""
    layer.fused = False  # type: ignore[assignment]
    return layer.double().eval().requires_grad_(False)
