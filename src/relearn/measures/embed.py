"""Penultimate features of images, computed batch by batch without gradients."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from relearn.maths.eval_mode import eval_mode


class Embedding(Protocol):
    """A network with penultimate features: (B, C, H, W) pixels in [0, 1] → (B, d)."""

    def features(self, x: Tensor) -> Tensor: ...

    def parameters(self) -> Iterator[nn.Parameter]: ...

    def eval(self) -> Any: ...

    def modules(self) -> Iterator[nn.Module]: ...


@torch.no_grad()
def embed(net: Embedding, images: Tensor, *, batch_size: int = 512, precision: str = "fp32") -> Tensor:
    """Return penultimate features (N, d), float32, of images (N, C, H, W); ``uint8`` images are converted to pixels in [0, 1].

    The network is evaluated in eval mode on its own device, and all modes are restored. The features stay on that device.

    Raises:
        ValueError: a precision other than ``fp32`` and ``bf16``.
    """
    if precision not in ("fp32", "bf16"):
        raise ValueError(f"precision: found {precision!r}, allowed are fp32, bf16")
    device = next(net.parameters()).device
    features = []
    with eval_mode(net):
        for chunk in images.split(batch_size):
            pixels = chunk.to(device)
            pixels = pixels.float() / 255.0 if pixels.dtype == torch.uint8 else pixels
            with torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16"):
                features.append(net.features(pixels).float())
    return torch.cat(features)
