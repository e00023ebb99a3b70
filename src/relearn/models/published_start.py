"""Networks whose constructor initialises the weights as their published code does, instead of with torch's default.

The chapter on initialisation (zhu2022, chapter 4) starts from each network's own "Kaiming" initialisation. This is
:meth:`PublishedStart.draw_start`, which can be called again.
"""

from __future__ import annotations

import math
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import init

from relearn.layers.scalar import Scale, Shift
from relearn.maths.spectral_draw import redraw
from relearn.models.classifier import Classifier


class PublishedStart(Classifier):
    r"""A classifier with its own initialisation, which a subclass selects by two class attributes.

    =================  ==========================================================  ==================
    layer              ``conv_start = "fan_out"``                                  ``"torch"``
    =================  ==========================================================  ==================
    convolution        W ~ N(0, 2 / (outputs · kernel²)), b = 0 (He et al. 2015,   W, b uniform within
                       eq. 14)                                                     1 / sqrt(fan-in)
    normalisation      scale 1, shift 0                                            the same
    linear ``head``    W uniform within 1 / sqrt(inputs), or N(0, head_std²);      W, b uniform within
                       b = 0                                                       1 / sqrt(fan-in)
    scalar layers      their own: FixUp 1, SkipInit and ReZero 0, shifts 0         the same
    =================  ==========================================================  ==================

    fan-in is inputs · kernel².

    Args:
        classes, in_channels, width, depth, dropout, mean, std: as in :func:`relearn.models.create`.
    """

    conv_start: ClassVar[Literal["fan_out", "torch"]] = "fan_out"
    head_std: ClassVar[float | None] = None

    def __init__(self, **arguments: object) -> None:
        super().__init__(**arguments)  # type: ignore[arg-type]
        self.draw_start()

    def draw_start(self, generator: torch.Generator | None = None) -> None:
        """Redraw every parameter in place; buffers (running statistics, μ, σ) are unchanged.

        Args:
            generator: a CPU generator, or None for torch's global one. Numbers are drawn on the CPU in the order of
                ``modules()``, so that they are the same on every device.
        """
        for module in self.modules():
            if isinstance(module, nn.Conv2d | nn.Linear):
                self._draw_layer(module, generator)
            elif isinstance(module, nn.BatchNorm2d):
                init.ones_(module.weight)
                init.zeros_(module.bias)
            elif isinstance(module, Scale | Shift):
                module.reset_parameters()

    def _draw_layer(self, layer: nn.Conv2d | nn.Linear, generator: torch.Generator | None) -> None:
        bound = layer.weight[0].numel() ** -0.5

        def uniform(tensor: Tensor) -> Tensor:
            return init.uniform_(tensor, -bound, bound, generator)

        def normal(tensor: Tensor) -> Tensor:
            if isinstance(layer, nn.Linear):
                return init.normal_(tensor, 0.0, self.head_std or 0.0, generator)
            deviation = math.sqrt(2 / (layer.weight.shape[0] * layer.weight[0, 0].numel()))
            return init.normal_(tensor, 0.0, deviation, generator)

        plain = self.conv_start == "torch" or (isinstance(layer, nn.Linear) and self.head_std is None)
        redraw(layer.weight, uniform if plain else normal)
        if layer.bias is not None:
            redraw(layer.bias, uniform if self.conv_start == "torch" else init.zeros_)
