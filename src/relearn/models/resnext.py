"""ResNeXt29-2x64d in CIFAR form: bottlenecks with grouped convolutions (Xie et al., CVPR 2017).

Three stages of three bottlenecks with two groups of 64, 128, 256 channels; outputs are twice as wide as the grouped convolution. The
published CIFAR network must have a 1 × 1 stem, because it has 9,128,778 parameters (a 3 × 3 stem has 1,536 more). timm's bottleneck is
mathematically the same, but its network is not: see :mod:`relearn.models.resnet`.
"""

from __future__ import annotations

from torch import nn

from relearn.models.classifier import Classifier, Trunk
from relearn.models.conv_norm import conv_norm_relu
from relearn.models.resnet import Bottleneck
from relearn.models.scaling import repeats, scaled

CARDINALITY = 2


class GroupedBottleneck(Bottleneck):
    """Bottleneck with twice (instead of four times) as many outputs and a grouped 3 × 3 convolution."""

    expansion = 2


class ResNeXt29(Classifier):
    """Stages at 32, 16 and 8 pixels; ``width`` scales the 64 channels per group, and there are always two groups."""

    def trunk(self, in_channels: int, width: float, depth: float, dropout: float) -> Trunk:
        channels = scaled(64, width)
        stem = conv_norm_relu(in_channels, channels)
        stages: list[nn.Sequential] = []
        for published, stride in zip((64, 128, 256), (1, 2, 2)):
            planes = CARDINALITY * scaled(published, width)
            stage = nn.Sequential()
            for index in range(repeats(3, depth)):
                stage.append(
                    GroupedBottleneck(channels, planes, stride if index == 0 else 1, dropout, CARDINALITY)
                )
                channels = planes * GroupedBottleneck.expansion
            stages.append(stage)
        return Trunk(stem, stages, channels)
