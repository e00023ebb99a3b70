"""SENet18 in CIFAR form: pre-activation residual blocks with squeeze and excitation (Hu et al., CVPR 2018).

timm's network is not used here, because its SE-ResNet18 has post-activation blocks. Also, the published CIFAR network (18 layers,
11,260,354 parameters) has no normalisation after the last block: the block's output is pooled directly, so features may be negative.
"""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn.functional import relu

from relearn.models.classifier import Classifier, Trunk
from relearn.models.conv_norm import conv, conv_norm_relu
from relearn.models.scaling import LEAST_CHANNELS, repeats, scaled


class SqueezeExcitation(nn.Module):
    r"""Scale each channel by a gate computed from the channel means of the image.

    .. math:: y_c = x_c \cdot \mathrm{sigmoid}(W_2\, \mathrm{relu}(W_1 \bar x + b_1) + b_2)_c

    x (B, C, H, W), its mean over pixels (B, C, 1, 1), W₁ (C/16, C), W₂ (C, C/16) as 1 × 1 convolutions.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        squeezed = max(channels // 16, LEAST_CHANNELS)
        self.squeeze = conv(channels, squeezed, bias=True)
        self.excite = conv(squeezed, channels, bias=True)

    def forward(self, x: Tensor) -> Tensor:
        return x * self.excite(relu(self.squeeze(x.mean((2, 3), keepdim=True)))).sigmoid()


class PreActivationBlock(nn.Module):
    """y = gate(conv(relu(bn(dropout(conv(a)))))) + s with a = relu(bn(x)); s = x if the shape is unchanged, else conv₁(a)."""

    def __init__(self, inputs: int, planes: int, stride: int, dropout: float) -> None:
        super().__init__()
        self.norm1 = nn.BatchNorm2d(inputs)
        self.conv1 = conv(inputs, planes, 3, stride=stride)
        self.dropout = nn.Dropout(dropout)
        self.norm2 = nn.BatchNorm2d(planes)
        self.conv2 = conv(planes, planes, 3)
        self.gate = SqueezeExcitation(planes)
        changes = stride != 1 or inputs != planes
        self.shortcut = conv(inputs, planes, stride=stride) if changes else None

    def forward(self, x: Tensor) -> Tensor:
        active = relu(self.norm1(x))
        skipped = x if self.shortcut is None else self.shortcut(active)
        hidden = self.dropout(self.conv1(active))
        return self.gate(self.conv2(relu(self.norm2(hidden)))) + skipped


class SENet18(Classifier):
    """Four stages of two blocks, 64, 128, 256, 512 planes; the first block of stages 2 to 4 has stride 2."""

    def trunk(self, in_channels: int, width: float, depth: float, dropout: float) -> Trunk:
        channels = scaled(64, width)
        stem = conv_norm_relu(in_channels, channels, 3)
        stages: list[nn.Sequential] = []
        for published, stride in zip((64, 128, 256, 512), (1, 2, 2, 2)):
            planes = scaled(published, width)
            stage = nn.Sequential()
            for index in range(repeats(2, depth)):
                stage.append(PreActivationBlock(channels, planes, stride if index == 0 else 1, dropout))
                channels = planes
            stages.append(stage)
        return Trunk(stem, stages, channels)
