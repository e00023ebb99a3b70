"""GoogLeNet in CIFAR form: Inception modules with batch normalisation (Szegedy et al., CVPR 2015).

torchvision's network is not used here, because the published CIFAR network has a 3 × 3 stem of 192 channels, two 3 × 3 convolutions in
place of each 5 × 5, convolutions with biases, and no auxiliary classifiers.

The code of the poisoning attacks differs: if a network trained with dropout p is used with p', it multiplies each module's output by
(1 + p) / (1 + p'). Here dropout is standard, so its expectation is the identity.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from relearn.models.classifier import Classifier, Trunk
from relearn.models.conv_norm import conv_norm_relu
from relearn.models.scaling import repeats, scaled

STAGES = (
    # 1×1; input and output channels of 3×3; the same for two 3×3; 1×1 after max-pooling
    ((64, 96, 128, 16, 32, 32), (128, 128, 192, 32, 96, 64)),
    (
        (192, 96, 208, 16, 48, 64),
        (160, 112, 224, 24, 64, 64),
        (128, 128, 256, 24, 64, 64),
        (112, 144, 288, 32, 64, 64),
        (256, 160, 320, 32, 128, 128),
    ),
    ((256, 160, 320, 32, 128, 128), (384, 192, 384, 48, 128, 128)),
)


class Inception(nn.Module):
    """Concatenate four branches with different receptive fields; dropout acts on the concatenation."""

    def __init__(self, inputs: int, planes: tuple[int, ...], dropout: float) -> None:
        super().__init__()
        one, three_reduced, three, five_reduced, five, pooled = planes
        self.branches = nn.ModuleList(
            (
                conv_norm_relu(inputs, one, bias=True),
                nn.Sequential(
                    conv_norm_relu(inputs, three_reduced, bias=True),
                    conv_norm_relu(three_reduced, three, 3, bias=True),
                ),
                nn.Sequential(
                    conv_norm_relu(inputs, five_reduced, bias=True),
                    conv_norm_relu(five_reduced, five, 3, bias=True),
                    conv_norm_relu(five, five, 3, bias=True),
                ),
                nn.Sequential(nn.MaxPool2d(3, 1, 1), conv_norm_relu(inputs, pooled, bias=True)),
            )
        )
        self.dropout = nn.Dropout(dropout)
        self.outputs = one + three + five + pooled

    def forward(self, x: Tensor) -> Tensor:
        return self.dropout(torch.cat([branch(x) for branch in self.branches], dim=1))


def modules_kept(count: int, published: int) -> list[int]:
    """Choose ``count`` of a stage's ``published`` modules: evenly spaced, always including the last one.

    The last one determines the stage's width. If ``count`` exceeds ``published``, some modules are repeated.
    """
    return [-(-published * (index + 1) // count) - 1 for index in range(count)]


class GoogLeNet(Classifier):
    """2, 5, 2 Inception modules at 32, 16, 8 pixels, max-pooling between them; 6,166,250 parameters."""

    def trunk(self, in_channels: int, width: float, depth: float, dropout: float) -> Trunk:
        channels = scaled(192, width)
        stem = conv_norm_relu(in_channels, channels, 3, bias=True)
        stages: list[nn.Sequential] = []
        for rows in STAGES:
            stage = nn.Sequential()
            if stages:
                stage.append(nn.MaxPool2d(3, 2, 1))
            for row in modules_kept(repeats(len(rows), depth), len(rows)):
                module = Inception(channels, tuple(scaled(planes, width) for planes in rows[row]), dropout)
                channels = module.outputs
                stage.append(module)
            stages.append(stage)
        return Trunk(stem, stages, channels)
