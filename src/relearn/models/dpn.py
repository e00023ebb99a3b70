"""DPN92 in CIFAR form: a residual path and a densely connected path combined (Chen et al., NIPS 2017).

timm's network is not used here, because its blocks normalise before each convolution, and the published CIFAR network after it.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import relu

from relearn.models.classifier import Classifier, Trunk
from relearn.models.conv_norm import conv_norm, conv_norm_relu
from relearn.models.scaling import repeats, scaled

GROUPS = 32
STAGES = (
    # channels per group, residual channels, dense channels per block, blocks, stride of the first block
    (3, 256, 16, 3, 1),
    (6, 512, 32, 4, 2),
    (12, 1024, 24, 20, 2),
    (24, 2048, 128, 3, 2),
)


class DualPathBlock(nn.Module):
    r"""Update the first ``residual`` channels by addition, and append ``dense`` new ones.

    .. math:: y = \mathrm{relu}([\, s_{:r} + g_{:r},\; s_{r:},\; g_{r:} \,])

    g is the output of the bottleneck (1 × 1, grouped 3 × 3, dropout, 1 × 1 to r + ``dense`` channels). s is the input x or, in the first
    block of a stage (``opens``), a projection of x to r + ``dense`` channels. The output has ``dense`` more channels than s.
    """

    def __init__(
        self,
        inputs: int,
        planes: int,
        residual: int,
        dense: int,
        *,
        groups: int,
        stride: int,
        opens: bool,
        dropout: float,
    ) -> None:
        super().__init__()
        self.residual = residual
        self.conv1 = conv_norm_relu(inputs, planes)
        self.conv2 = conv_norm_relu(planes, planes, 3, stride=stride, groups=groups)
        self.dropout = nn.Dropout(dropout)
        self.conv3 = conv_norm(planes, residual + dense)
        self.shortcut = conv_norm(inputs, residual + dense, stride=stride) if opens else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        skipped = self.shortcut(x)
        added = self.conv3(self.dropout(self.conv2(self.conv1(x))))
        r = self.residual
        # split, not two slices: the gradient is one concatenation instead of two padded sums
        skipped_sum, skipped_dense = skipped.split((r, skipped.shape[1] - r), dim=1)
        added_sum, added_dense = added.split((r, added.shape[1] - r), dim=1)
        return relu(torch.cat((skipped_sum + added_sum, skipped_dense, added_dense), dim=1))


class DPN92(Classifier):
    """Stages of 3, 4, 20, 3 blocks, 34,236,634 parameters; ``width`` scales the number of groups."""

    def trunk(self, in_channels: int, width: float, depth: float, dropout: float) -> Trunk:
        groups = repeats(GROUPS, width)
        channels = scaled(64, width)
        stem = conv_norm_relu(in_channels, channels, 3)
        stages: list[nn.Sequential] = []
        for group_size, residual, dense, count, stride in STAGES:
            residual, dense = scaled(residual, width), scaled(dense, width)
            stage = nn.Sequential()
            for index in range(repeats(count, depth)):
                opens = index == 0
                block = DualPathBlock(
                    channels,
                    groups * group_size,
                    residual,
                    dense,
                    groups=groups,
                    stride=stride if opens else 1,
                    opens=opens,
                    dropout=dropout,
                )
                channels = residual + 2 * dense if opens else channels + dense
                stage.append(block)
            stages.append(stage)
        return Trunk(stem, stages, channels)
