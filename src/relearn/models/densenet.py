"""DenseNet121 in CIFAR form: the input of every layer is the concatenated output of all earlier layers of its stage (Huang et
al., CVPR 2017).

timm's network is not used here, because the published CIFAR network has a 3 × 3 stem without normalisation, and its dropout is inside
the layer (after the 1 × 1 convolution) instead of at its end.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import relu

from relearn.models.classifier import Classifier, Trunk
from relearn.models.conv_norm import conv
from relearn.models.scaling import repeats, scaled


class DenseLayer(nn.Module):
    """Prepend ``growth`` new channels: y = [conv₃(relu(bn(dropout(conv₁(relu(bn(x))))))), x]."""

    def __init__(self, inputs: int, growth: int, dropout: float) -> None:
        super().__init__()
        self.norm1 = nn.BatchNorm2d(inputs)
        self.conv1 = conv(inputs, 4 * growth)
        self.dropout = nn.Dropout(dropout)
        self.norm2 = nn.BatchNorm2d(4 * growth)
        self.conv2 = conv(4 * growth, growth, 3)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.dropout(self.conv1(relu(self.norm1(x))))
        return torch.cat((self.conv2(relu(self.norm2(hidden))), x), dim=1)


def transition(inputs: int, outputs: int) -> nn.Sequential:
    """Batch normalisation, ReLU, 1 × 1 convolution, mean over 2 × 2 pixels."""
    return nn.Sequential(nn.BatchNorm2d(inputs), nn.ReLU(), conv(inputs, outputs), nn.AvgPool2d(2))


class DenseNet121(Classifier):
    """Growth 32, stages of 6, 12, 24, 16 layers, channels halved between stages; 6,956,298 parameters."""

    def trunk(self, in_channels: int, width: float, depth: float, dropout: float) -> Trunk:
        growth = scaled(32, width)
        channels = 2 * growth
        stem = conv(in_channels, channels, 3)
        stages: list[nn.Sequential] = []
        for layers in (6, 12, 24, 16):
            stage = nn.Sequential()
            if stages:
                stage.append(transition(channels, channels // 2))
                channels //= 2
            for _ in range(repeats(layers, depth)):
                stage.append(DenseLayer(channels, growth, dropout))
                channels += growth
            stages.append(stage)
        stages[-1].append(nn.BatchNorm2d(channels)).append(nn.ReLU())
        return Trunk(stem, stages, channels)
