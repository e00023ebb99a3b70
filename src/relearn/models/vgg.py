"""VGG-19 in CIFAR form, with and without batch normalisation (Simonyan, Zisserman, ICLR 2015; zhu2022, 4.3.1)."""

from __future__ import annotations

from typing import ClassVar

from torch import nn

from relearn.models.classifier import Trunk
from relearn.models.conv_norm import conv
from relearn.models.published_start import PublishedStart
from relearn.models.scaling import repeats, scaled


def layer(inputs: int, outputs: int, norm: bool, dropout: float) -> list[nn.Module]:
    """3 × 3 convolution with a bias (also before a normalisation), normalisation if wanted, ReLU, dropout."""
    between = [nn.BatchNorm2d(outputs)] if norm else []
    return [conv(inputs, outputs, 3, bias=True), *between, nn.ReLU(), nn.Dropout(dropout)]


def pool() -> nn.MaxPool2d:
    """Max-pooling over 2 × 2 pixels: H → ceil(H / 2), so a map of one pixel passes unchanged.

    The published network rounds down, which gives the same for 32 × 32 but reduces 8 × 8 to nothing.
    """
    return nn.MaxPool2d(2, ceil_mode=True)


class VGG19(PublishedStart):
    """Sixteen convolutions, one linear layer; 20,029,514 parameters for 10 classes of RGB images.

    Five stages of 2, 2, 4, 4, 4 convolutions with 64, 128, 256, 512, 512 channels. Stages 2 to 5 begin, and the fifth also ends, with
    max-pooling over 2 × 2 pixels, so 32 × 32 pixels become one. The head is initialised with N(0, 0.01²). Dropout, which the published
    network does not have, follows each ReLU.
    """

    norm: ClassVar[bool] = False
    head_std = 0.01

    def trunk(self, in_channels: int, width: float, depth: float, dropout: float) -> Trunk:
        channels = in_channels
        stages: list[nn.Sequential] = []
        for published, count in ((64, 2), (128, 2), (256, 4), (512, 4), (512, 4)):
            stage = nn.Sequential(*([pool()] if stages else []))
            for _ in range(repeats(count, depth)):
                outputs = scaled(published, width)
                stage.extend(layer(channels, outputs, self.norm, dropout))
                channels = outputs
            stages.append(stage)
        stages[-1].append(pool())
        return Trunk(nn.Identity(), stages, channels)


class VGG19BN(VGG19):
    """VGG-19 with batch normalisation after each convolution; 20,040,522 parameters."""

    norm = True
