"""Wide residual network WRN-28-10 (Zagoruyko, Komodakis, BMVC 2016), as built by zhu2022's released code."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn.functional import relu

from relearn.models.classifier import Trunk
from relearn.models.conv_norm import conv
from relearn.models.published_start import PublishedStart
from relearn.models.scaling import repeats, scaled


class WideBlock(nn.Module):
    """y = conv(relu(norm(dropout(conv(relu(norm(x))))))) + shortcut(x), both convolutions 3 × 3, with biases.

    The second convolution has the stride, and the input of the shortcut is x itself, as in the released code. In Zagoruyko and Komodakis
    the first convolution has the stride, there are no biases, and the input of the shortcut is relu(norm(x)).
    """

    def __init__(self, inputs: int, planes: int, stride: int, dropout: float) -> None:
        super().__init__()
        self.norm1 = nn.BatchNorm2d(inputs)
        self.conv1 = conv(inputs, planes, 3, bias=True)
        self.dropout = nn.Dropout(dropout)
        self.norm2 = nn.BatchNorm2d(planes)
        self.conv2 = conv(planes, planes, 3, stride=stride, bias=True)
        same = stride == 1 and inputs == planes
        self.shortcut = nn.Identity() if same else conv(inputs, planes, stride=stride, bias=True)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.dropout(self.conv1(relu(self.norm1(x))))
        return self.conv2(relu(self.norm2(hidden))) + self.shortcut(x)


class WideResNet28(PublishedStart):
    """Three stages of 4 blocks, 160, 320, 640 channels; 36,489,290 parameters for 10 classes of RGB images.

    Initialised with torch's default, as in the released code, so biases are not zero. The last normalisation's momentum is 0.9. Dropout
    follows a block's first convolution, as in the paper.
    """

    conv_start = "torch"

    def trunk(self, in_channels: int, width: float, depth: float, dropout: float) -> Trunk:
        channels = scaled(16, width)
        stem = conv(in_channels, channels, 3, bias=True)
        stages: list[nn.Sequential] = []
        for published, stride in ((160, 1), (320, 2), (640, 2)):
            planes = scaled(published, width)
            stage = nn.Sequential()
            for index in range(repeats(4, depth)):
                stage.append(WideBlock(channels, planes, stride if index == 0 else 1, dropout))
                channels = planes
            stages.append(stage)
        stages[-1].append(nn.BatchNorm2d(channels, momentum=0.9)).append(nn.ReLU())
        return Trunk(stem, stages, channels)

    def branches(self) -> list[tuple[nn.Conv2d, ...]]:
        """Return the weighted layers of every residual branch, in the order of the forward pass."""
        return [(one.conv1, one.conv2) for one in self.modules() if isinstance(one, WideBlock)]
