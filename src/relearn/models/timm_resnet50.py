"""ResNet-50 for ImageNet from timm's bottlenecks: with batch normalisation, and as FixUp without it.

Unlike in :mod:`relearn.models.resnet`, the stem is He et al.'s for 224 × 224: a 7 × 7 convolution of stride 2 and a 3 × 3 max-pooling of
stride 2. The stages have 56, 28, 14 and 7 pixels.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from torch.nn.functional import relu

from relearn import torchvision_schema
from relearn.layers.scalar import Scale, Shift
from relearn.models.classifier import Trunk
from relearn.models.conv_norm import conv, conv_norm, conv_norm_relu
from relearn.models.published_start import PublishedStart
from relearn.models.scaling import repeats, scaled


def bottleneck(*args: Any, **keywords: Any) -> nn.Module:
    """timm's ``Bottleneck``: 1 × 1, 3 × 3 with the stride, 1 × 1 to four times the planes.

    timm is imported at the first call, because the import takes longer than torch's and most runs need no bottleneck.
    """
    torchvision_schema.declare()
    from timm.models.resnet import Bottleneck

    return Bottleneck(*args, **keywords)


class FixUpBottleneck(nn.Module):
    """timm's three convolutions, with scalars instead of normalisations (Zhang, Dauphin, Ma, ICLR 2019).

    y = relu(s · conv₃(h₂ + b₅) + b₆ + shortcut(x)),  h₂ = dropout(relu(conv₂(h₁ + b₃) + b₄)),
    h₁ = relu(conv₁(x + b₁) + b₂)

    A shortcut that changes the shape is a 1 × 1 convolution of x + b₁.
    """

    def __init__(self, inputs: int, planes: int, stride: int, dropout: float) -> None:
        super().__init__()
        timms = bottleneck(inputs, planes, stride, norm_layer=nn.Identity)
        self.before1, self.before2, self.before3 = Shift(), Shift(), Shift()
        self.conv1, self.conv2, self.conv3 = timms.conv1, timms.conv2, timms.conv3
        self.after1, self.after2, self.after3 = Shift(), Shift(), Shift()
        self.scale = Scale()
        self.dropout = nn.Dropout(dropout)
        same = stride == 1 and inputs == 4 * planes
        self.shortcut = None if same else conv(inputs, 4 * planes, stride=stride)

    def forward(self, x: Tensor) -> Tensor:
        shifted = self.before1(x)
        hidden = relu(self.after1(self.conv1(shifted)))  # type: ignore[operator]
        hidden = self.dropout(relu(self.after2(self.conv2(self.before2(hidden)))))  # type: ignore[operator]
        branch = self.after3(self.scale(self.conv3(self.before3(hidden))))  # type: ignore[operator]
        return relu(branch + (x if self.shortcut is None else self.shortcut(shifted)))


class TimmResNet50(PublishedStart):
    """timm's resnet50 with batch normalisation; 25,557,032 parameters for 1,000 classes of RGB images.

    Initialised with Kaiming, and with the scale of every normalisation at 1, as the text of zhu2022 says (4.2.1); timm's default sets the
    last scale of each branch to 0. Dropout, which the published network does not have, uses timm's slot for DropBlock, before a
    bottleneck's second ReLU.
    """

    def block(self, inputs: int, planes: int, stride: int, dropout: float) -> nn.Module:
        same = stride == 1 and inputs == 4 * planes
        shortcut = None if same else conv_norm(inputs, 4 * planes, stride=stride)
        return bottleneck(inputs, planes, stride, shortcut, drop_block=lambda: nn.Dropout(dropout))

    def first(self, inputs: int, outputs: int) -> nn.Sequential:
        return conv_norm_relu(inputs, outputs, 7, stride=2)

    def trunk(self, in_channels: int, width: float, depth: float, dropout: float) -> Trunk:
        channels = scaled(64, width)
        stem = self.first(in_channels, channels).append(nn.MaxPool2d(3, 2, 1))
        stages: list[nn.Sequential] = []
        for published, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
            planes = scaled(published, width)
            stage = nn.Sequential()
            for index in range(repeats(count, depth)):
                stage.append(self.block(channels, planes, stride if index == 0 else 1, dropout))
                channels = 4 * planes
            stages.append(stage)
        return Trunk(stem, stages, channels)

    def branches(self) -> list[tuple[nn.Module, ...]]:
        """Return the weighted layers of every residual branch, in the order of the forward pass."""
        blocks: list[Any] = [one for one in self.modules() if hasattr(one, "conv3")]
        return [(one.conv1, one.conv2, one.conv3) for one in blocks]


class FixUpResNet50(TimmResNet50):
    """FixUp's architecture without normalisation; 25,504,026 parameters for 1,000 classes, 114 of them scalars.

    Initialised with plain Kaiming; FixUp's own initialisation is :func:`relearn.methods.fixup.fixup`. Dropout follows a block's second
    ReLU.
    """

    def block(self, inputs: int, planes: int, stride: int, dropout: float) -> nn.Module:
        return FixUpBottleneck(inputs, planes, stride, dropout)

    def first(self, inputs: int, outputs: int) -> nn.Sequential:
        return nn.Sequential(conv(inputs, outputs, 7, stride=2), Shift(), nn.ReLU())

    def trunk(self, in_channels: int, width: float, depth: float, dropout: float) -> Trunk:
        trunk = super().trunk(in_channels, width, depth, dropout)
        trunk.stages[-1].append(Shift())  # type: ignore[operator]  # before the linear layer
        return trunk
