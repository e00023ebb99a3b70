"""Which layout convolutions run in, and that a network which is unsafe in one of them trains."""

import subprocess
import sys

import pytest
import torch
from torch import nn

from relearn.methods.memory_layout import layout
from relearn.models import create

CPU = torch.device("cpu")
TRAINING = """
import torch
from torch.nn.functional import cross_entropy
from relearn.methods.augmentation import crop_and_flip
from relearn.methods.fit import fit
from relearn.models import create

net = create("ResNet18", width=1 / 16)
data = torch.randint(0, 256, (256, 3, 32, 32), dtype=torch.uint8), torch.randint(0, 10, (256,))
augment = crop_and_flip(4, True)  # gives channels_last images
fit(net, data, loss=cross_entropy, steps=12, batch_size=64, lr=0.01, augment=augment)
kept = [torch.rand(1000 + i) for i in range(2000)]  # a damaged heap ends the process here at the latest
assert all(bool(parameter.isfinite().all()) for parameter in net.parameters())
"""


def convolution(inputs: int, kernel: int, stride: int, groups: int = 1) -> nn.Module:
    return nn.Sequential(nn.Conv2d(inputs, 8, kernel, stride, groups=groups))


@pytest.mark.parametrize(
    ("module", "safe"),
    [
        (convolution(7, 1, 2), False),
        (convolution(8, 1, 2), True),
        (convolution(14, 1, 2, groups=2), False),
        (convolution(4, 1, 1), True),
        (convolution(4, 3, 2), True),
        (nn.Linear(3, 3), True),
    ],
)
def test_a_strided_convolution_of_one_pixel_needs_eight_channels(module: nn.Module, safe: bool) -> None:
    assert layout(module, CPU, "fp32") is (torch.channels_last if safe else torch.contiguous_format)
    assert layout(module, CPU, "bf16") is torch.channels_last
    assert layout(module, torch.device("cuda"), "fp32") is torch.preserve_format
    assert layout(module, torch.device("cuda"), "bf16") is torch.channels_last


def test_a_network_that_is_unsafe_in_channels_last_trains() -> None:
    assert layout(create("ResNet18", width=1 / 16), CPU, "fp32") is torch.contiguous_format
    done = subprocess.run([sys.executable, "-c", TRAINING], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
