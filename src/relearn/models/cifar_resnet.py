"""Residual networks made for CIFAR: 6 n + 2 layers of 16, 32, 64 channels (He et al., CVPR 2016, section 4.2).

Variants of zhu2022, section 4.3.1: with and without batch normalisation, FixUp, SkipInit and ReZero.
"""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor, nn
from torch.nn.functional import pad, relu

from relearn.layers.scalar import Scale, Shift
from relearn.models.classifier import Trunk
from relearn.models.conv_norm import conv
from relearn.models.published_start import PublishedStart
from relearn.models.scaling import repeats, scaled


def norm(channels: int, wanted: bool) -> nn.Module:
    return nn.BatchNorm2d(channels) if wanted else nn.Identity()


class Shortcut(nn.Module):
    """Take every ``stride``-th pixel, normalise if wanted, and pad with zero channels up to ``outputs``.

    He et al.'s option A, without parameters. Like the networks of FixUp's authors, those of zhu2022 also normalise the shortcut if they
    normalise elsewhere, with 16 + 32 scales and as many shifts. With stride 1 the shortcut is the identity.
    """

    def __init__(self, inputs: int, outputs: int, stride: int, normalised: bool) -> None:
        super().__init__()
        self.stride, self.missing = stride, outputs - inputs
        self.norm = norm(inputs, normalised and stride > 1)

    def forward(self, x: Tensor) -> Tensor:
        if self.stride == 1:
            return x
        seen = self.norm(x[:, :, :: self.stride, :: self.stride])
        return pad(seen, (0, 0, 0, 0, 0, self.missing))


class Block(nn.Module):
    """y = relu(s · norm(conv(dropout(relu(norm(conv(x)))))) + shortcut(x)), both convolutions 3 × 3.

    Convolutions have biases only in networks without normalisation. ``scale`` is the initial value of s, or None for a
    network without s.
    """

    def __init__(
        self, inputs: int, planes: int, stride: int, dropout: float, normalised: bool, scale: float | None
    ) -> None:
        super().__init__()
        self.conv1 = conv(inputs, planes, 3, stride=stride, bias=not normalised)
        self.norm1 = norm(planes, normalised)
        self.dropout = nn.Dropout(dropout)
        self.conv2 = conv(planes, planes, 3, bias=not normalised)
        self.norm2 = norm(planes, normalised)
        self.scale = nn.Identity() if scale is None else Scale(scale)
        self.shortcut = Shortcut(inputs, planes, stride, normalised)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.dropout(relu(self.norm1(self.conv1(x))))
        return relu(self.scale(self.norm2(self.conv2(hidden))) + self.shortcut(x))


class FixUpBlock(nn.Module):
    """A block with scalars instead of normalisations (Zhang, Dauphin, Ma, ICLR 2019, figure 1).

    h = relu(conv₁(x + b₁) + b₂), y = relu(s · conv₂(dropout(h) + b₃) + b₄ + shortcut(x))

    A shortcut that halves the size takes x + b₁ as its input, as in the published network. The convolutions have no biases.
    """

    def __init__(self, inputs: int, planes: int, stride: int, dropout: float) -> None:
        super().__init__()
        self.before1, self.after1 = Shift(), Shift()
        self.conv1 = conv(inputs, planes, 3, stride=stride)
        self.dropout = nn.Dropout(dropout)
        self.before2, self.after2 = Shift(), Shift()
        self.conv2 = conv(planes, planes, 3)
        self.scale = Scale()
        self.shortcut = Shortcut(inputs, planes, stride, False)

    def forward(self, x: Tensor) -> Tensor:
        shifted = self.before1(x)
        hidden = self.dropout(relu(self.after1(self.conv1(shifted))))
        branch = self.after2(self.scale(self.conv2(self.before2(hidden))))
        return relu(branch + self.shortcut(x if self.shortcut.stride == 1 else shifted))


class ResNet110(PublishedStart):
    """Three stages of 18 blocks with 16, 32, 64 channels; 1,723,914 parameters for 10 classes of RGB images.

    The first block of stages 2 and 3 halves the size. Dropout, which the published network does not have, is placed between the two
    convolutions of a block. In training, autograd stores four maps per block, namely the inputs of the convolutions and of the
    normalisations (two without normalisation); see tests/models/test_cifar_resnet.py.
    """

    blocks: ClassVar[int] = 18
    normalised: ClassVar[bool] = False
    scale: ClassVar[float | None] = None

    def block(self, inputs: int, planes: int, stride: int, dropout: float) -> nn.Module:
        return Block(inputs, planes, stride, dropout, self.normalised, self.scale)

    def first(self, inputs: int, outputs: int) -> nn.Sequential:
        """Build the stem: 3 × 3 convolution, normalisation, ReLU."""
        layer = conv(inputs, outputs, 3, bias=not self.normalised)
        return nn.Sequential(layer, norm(outputs, self.normalised), nn.ReLU())

    def trunk(self, in_channels: int, width: float, depth: float, dropout: float) -> Trunk:
        channels = scaled(16, width)
        stem = self.first(in_channels, channels)
        stages: list[nn.Sequential] = []
        for published, stride in ((16, 1), (32, 2), (64, 2)):
            planes = scaled(published, width)
            stage = nn.Sequential()
            for index in range(repeats(self.blocks, depth)):
                stage.append(self.block(channels, planes, stride if index == 0 else 1, dropout))
                channels = planes
            stages.append(stage)
        return Trunk(stem, stages, channels)

    def branches(self) -> list[tuple[nn.Conv2d, ...]]:
        """Return the weighted layers of every residual branch, in the order of the forward pass."""
        return [(one.conv1, one.conv2) for one in self.modules() if isinstance(one, Block | FixUpBlock)]


class ResNet110BN(ResNet110):
    """ResNet110 with batch normalisation, also in the two halving shortcuts; 1,728,058 parameters."""

    normalised = True


class ResNet1202(ResNet110):
    """ResNet110 with three stages of 200 blocks; 19,376,458 parameters."""

    blocks = 200


class ResNet1202BN(ResNet110BN):
    """ResNet110BN with three stages of 200 blocks; 19,421,370 parameters.

    Four maps per block amount to 1,400 maps of the first stage's size: 88 MiB per 32 × 32 image in float32, 11 GiB for a batch of 128.
    Without normalisation, or in bf16, it is half as much.
    """

    blocks = 200


class SkipInitResNet110(ResNet110):
    """No normalisation; every branch is multiplied by a scalar that is initially 0; 1,723,968 parameters.

    SkipInit (De, Smith, NeurIPS 2020) applied to the ResNet-110 of zhu2022; its authors used pre-activation networks.
    """

    scale = 0.0


class ReZeroResNet110(ResNet110BN):
    """Batch normalisation, and every branch is multiplied by a scalar that is initially 0; 1,728,112 parameters.

    ReZero (Bachlechner et al., UAI 2021, section 5) applied to the ResNet-110 of zhu2022.
    """

    scale = 0.0


class FixUpResNet110(ResNet110):
    """FixUp's architecture; 1,720,138 parameters, 272 of them scalars in place of normalisations.

    Initialised as in zhu2022's released code, with plain Kaiming: no branch is zero. FixUp's own
    initialisation is :func:`relearn.methods.fixup.fixup`.
    """

    def block(self, inputs: int, planes: int, stride: int, dropout: float) -> nn.Module:
        return FixUpBlock(inputs, planes, stride, dropout)

    def first(self, inputs: int, outputs: int) -> nn.Sequential:
        return nn.Sequential(conv(inputs, outputs, 3), Shift(), nn.ReLU())

    def trunk(self, in_channels: int, width: float, depth: float, dropout: float) -> Trunk:
        trunk = super().trunk(in_channels, width, depth, dropout)
        # The scalar before the linear layer. Adding it to every pixel adds it to their mean.
        trunk.stages[-1].append(Shift())  # type: ignore[operator]
        return trunk
