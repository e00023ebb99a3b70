"""DenseNet-100 for CIFAR, with and without batch normalisation (Huang et al., CVPR 2017: BC, growth 12)."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from relearn.models.classifier import Trunk
from relearn.models.conv_norm import conv
from relearn.models.published_start import PublishedStart
from relearn.models.scaling import repeats, scaled


def norm_relu(channels: int, normalised: bool) -> list[nn.Module]:
    return [nn.BatchNorm2d(channels), nn.ReLU()] if normalised else [nn.ReLU()]


class GrowingLayer(nn.Module):
    """Append ``growth`` channels: y = [x, dropout(conv₃(relu(norm(conv₁(relu(norm(x)))))))].

    The 1 × 1 convolution has 4 · growth output channels. Convolutions have biases only without normalisation. Dropout is at the
    end of the layer, as in Huang et al.
    """

    def __init__(self, inputs: int, growth: int, dropout: float, normalised: bool) -> None:
        super().__init__()
        inner, bias = 4 * growth, not normalised
        self.new = nn.Sequential(
            *norm_relu(inputs, normalised),
            conv(inputs, inner, bias=bias),
            *norm_relu(inner, normalised),
            conv(inner, growth, 3, bias=bias),
        )
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat((x, self.dropout(self.new(x))), dim=1)


class DenseNet100(PublishedStart):
    """Three stages of 16 layers of growth 12; 748,336 parameters for 10 classes of RGB images.

    Between the stages a 1 × 1 convolution halves the channels, and a mean over 2 × 2 pixels halves the size.
    """

    normalised: ClassVar[bool] = False

    def trunk(self, in_channels: int, width: float, depth: float, dropout: float) -> Trunk:
        growth = scaled(12, width)
        channels = 2 * growth
        stem = conv(in_channels, channels, 3, bias=not self.normalised)
        stages: list[nn.Sequential] = []
        for _ in range(3):
            stage = nn.Sequential()
            if stages:
                stage.extend(norm_relu(channels, self.normalised))
                stage.append(conv(channels, channels // 2, bias=not self.normalised))
                stage.append(nn.AvgPool2d(2))
                channels //= 2
            for _ in range(repeats(16, depth)):
                stage.append(GrowingLayer(channels, growth, dropout, self.normalised))
                channels += growth
            stages.append(stage)
        stages[-1].extend(norm_relu(channels, self.normalised))
        return Trunk(stem, stages, channels)


class DenseNet100BN(DenseNet100):
    """DenseNet-BC-100 with growth 12 and batch normalisation; 769,162 parameters."""

    normalised = True
