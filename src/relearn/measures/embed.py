"""Penultimate features of images, computed batch by batch without gradients."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, Protocol

import torch
from torch import Tensor, nn


class Embedding(Protocol):
    """A network with penultimate features: (B, C, H, W) pixels in [0, 1] → (B, d)."""

    training: bool

    def features(self, x: Tensor) -> Tensor: ...

    def parameters(self) -> Iterator[nn.Parameter]: ...

    def eval(self) -> Any: ...

    def train(self, mode: bool = ...) -> Any: ...


@torch.no_grad()
def embed(net: Embedding, images: Tensor, *, batch_size: int = 512, precision: str = "fp32") -> Tensor:
    """Return penultimate features (N, d), float32, of images (N, C, H, W); ``uint8`` images are converted to pixels in [0, 1].

    The network is evaluated in eval mode on its own device, and its mode is restored. The features stay on that device.
    """
    device = next(net.parameters()).device
    was_training = net.training
    net.eval()
    features = []
    for chunk in images.split(batch_size):
        pixels = chunk.to(device)
        pixels = pixels.float() / 255.0 if pixels.dtype == torch.uint8 else pixels
        cast = (
            torch.autocast(device.type, torch.bfloat16) if precision == "bf16" else contextlib.nullcontext()
        )
        with cast:
            features.append(net.features(pixels).float())
    net.train(was_training)
    return torch.cat(features)
