"""MobileNetV2 in CIFAR form: inverted residuals with linear bottlenecks (Sandler et al., CVPR 2018).

timm's network is not used here: the published CIFAR network has ReLU instead of ReLU6, a 1 × 1 convolution also before the first
block's filter, a (projected) shortcut in every block of stride 1, and full resolution in the stem and the first two groups.
"""

from __future__ import annotations

from torch import Tensor, nn

from relearn.models.classifier import Classifier, Trunk
from relearn.models.conv_norm import conv_norm, conv_norm_relu
from relearn.models.resnet import shortcut
from relearn.models.scaling import repeats, scaled

GROUPS = (
    # expansion, channels, blocks, stride of the first block
    (1, 16, 1, 1),
    (6, 24, 2, 1),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


class InvertedResidual(nn.Module):
    """1 × 1 to more channels, depth-wise 3 × 3, dropout, 1 × 1 without activation; a shortcut if the stride is 1."""

    def __init__(self, inputs: int, outputs: int, expansion: int, stride: int, dropout: float) -> None:
        super().__init__()
        planes = expansion * inputs
        self.expand = conv_norm_relu(inputs, planes)
        self.filter = conv_norm_relu(planes, planes, 3, stride=stride, groups=planes)
        self.dropout = nn.Dropout(dropout)
        self.project = conv_norm(planes, outputs)
        self.shortcut = shortcut(inputs, outputs, stride) if stride == 1 else None

    def forward(self, x: Tensor) -> Tensor:
        y = self.project(self.dropout(self.filter(self.expand(x))))
        return y if self.shortcut is None else y + self.shortcut(x)


class MobileNetV2(Classifier):
    """Seven groups of blocks in four stages (32, 16, 8, 4 pixels), 1 × 1 to 1280; 2,296,922 parameters."""

    def trunk(self, in_channels: int, width: float, depth: float, dropout: float) -> Trunk:
        channels = scaled(32, width)
        stem = conv_norm_relu(in_channels, channels, 3)
        stages = [nn.Sequential()]
        for expansion, published, count, stride in GROUPS:
            if stride == 2:
                stages.append(nn.Sequential())
            planes = scaled(published, width)
            for index in range(repeats(count, depth)):
                block_stride = stride if index == 0 else 1
                stages[-1].append(InvertedResidual(channels, planes, expansion, block_stride, dropout))
                channels = planes
        last = scaled(1280, width)
        stages[-1].append(conv_norm_relu(channels, last))
        return Trunk(stem, stages, last)
