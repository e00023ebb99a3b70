"""Residual networks ResNet18 and ResNet50 in CIFAR form (He, Zhang, Ren, Sun, CVPR 2016).

CIFAR form: a 3 × 3 stem of stride 1 and no max-pooling, so the stages have 32, 16, 8 and 4 pixels.

timm's network is not used here. Its blocks are mathematically the same (tests/models/test_resnet.py compares them with ours), but the
network has a fixed 7 × 7 stem and another initialisation. Importing timm would also cost every job of the workflow more CPU time than
importing torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from torch import Tensor, nn
from torch.nn.functional import relu

from relearn.models.classifier import Classifier, Trunk
from relearn.models.conv_norm import conv_norm, conv_norm_relu
from relearn.models.scaling import repeats, scaled


def shortcut(inputs: int, outputs: int, stride: int) -> nn.Module:
    """Return the identity if the shapes agree, otherwise a 1 × 1 convolution with batch normalisation."""
    return nn.Identity() if stride == 1 and inputs == outputs else conv_norm(inputs, outputs, stride=stride)


class BasicBlock(nn.Module):
    """Two 3 × 3 convolutions: y = relu(bn(conv(dropout(relu(bn(conv(x)))))) + shortcut(x))."""

    expansion = 1

    def __init__(self, inputs: int, planes: int, stride: int, dropout: float) -> None:
        super().__init__()
        self.conv1 = conv_norm_relu(inputs, planes, 3, stride=stride)
        self.dropout = nn.Dropout(dropout)
        self.conv2 = conv_norm(planes, planes, 3)
        self.shortcut = shortcut(inputs, planes, stride)

    def forward(self, x: Tensor) -> Tensor:
        return relu(self.conv2(self.dropout(self.conv1(x))) + self.shortcut(x))


class Bottleneck(nn.Module):
    """1 × 1, 3 × 3 (with ``groups`` and the stride), dropout, 1 × 1 to ``expansion · planes`` channels.

    y = relu(bn(conv₁(dropout(relu(bn(conv₃(relu(bn(conv₁(x))))))))) + shortcut(x))
    """

    expansion = 4

    def __init__(self, inputs: int, planes: int, stride: int, dropout: float, groups: int = 1) -> None:
        super().__init__()
        outputs = self.expansion * planes
        self.conv1 = conv_norm_relu(inputs, planes)
        self.conv2 = conv_norm_relu(planes, planes, 3, stride=stride, groups=groups)
        self.dropout = nn.Dropout(dropout)
        self.conv3 = conv_norm(planes, outputs)
        self.shortcut = shortcut(inputs, outputs, stride)

    def forward(self, x: Tensor) -> Tensor:
        return relu(self.conv3(self.dropout(self.conv2(self.conv1(x)))) + self.shortcut(x))


class ResNet(Classifier):
    """Four stages of 64, 128, 256, 512 planes; the first block of stages 2 to 4 halves the size."""

    block: ClassVar[type[BasicBlock] | type[Bottleneck]]
    blocks: ClassVar[Sequence[int]]

    def trunk(self, in_channels: int, width: float, depth: float, dropout: float) -> Trunk:
        channels = scaled(64, width)
        stem = conv_norm_relu(in_channels, channels, 3)
        stages: list[nn.Sequential] = []
        for published, count, stride in zip((64, 128, 256, 512), self.blocks, (1, 2, 2, 2)):
            planes = scaled(published, width)
            stage = nn.Sequential()
            for index in range(repeats(count, depth)):
                stage.append(self.block(channels, planes, stride if index == 0 else 1, dropout))
                channels = planes * self.block.expansion
            stages.append(stage)
        return Trunk(stem, stages, channels)


class ResNet18(ResNet):
    """Basic blocks, 2 in each stage; 11,173,962 parameters for 10 classes of RGB images."""

    block = BasicBlock
    blocks = (2, 2, 2, 2)


class ResNet50(ResNet):
    """Bottlenecks, 3, 4, 6, 3 in the stages; 23,520,842 parameters for 10 classes of RGB images."""

    block = Bottleneck
    blocks = (3, 4, 6, 3)
