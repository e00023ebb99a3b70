"""A pass of an attack through a substitute, forward and back to the pixels, with batch normalisation folded and without.

Both sides run the same network, frozen, channels_last, on the same images. Networks at a quarter of the width; DenseNet121 has nothing
to fold (it normalises before each convolution), so its ratio shows the noise. An attack folds once, which is not in the times.

    python benchmarks/folding.py
"""

from __future__ import annotations

import copy
from functools import partial
from typing import Any

import torch
from timing import compare, report
from torch import Tensor, nn

from relearn.maths.eval_mode import frozen
from relearn.methods.crafting.folding import folded
from relearn.models import create

NETWORKS = [
    "SENet18",
    "ResNet18",
    "ResNet50",
    "ResNeXt29-2x64d",
    "DPN92",
    "MobileNetV2",
    "GoogLeNet",
    "DenseNet121",
]
IMAGES, WIDTH = 20, 0.25


def passes(net: nn.Module, images: Tensor) -> None:
    pixels = images.detach().requires_grad_()
    torch.autograd.grad(net.features(pixels).square().sum(), pixels)  # type: ignore[operator]


def main() -> None:
    torch.set_num_threads(1)
    rows: list[dict[str, Any]] = []
    images = torch.rand(IMAGES, 3, 32, 32).contiguous(memory_format=torch.channels_last)
    for name in NETWORKS:
        torch.manual_seed(0)
        net = create(name, dropout=0.2, width=WIDTH)
        net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        plain = copy.deepcopy(net)
        with frozen(net, plain), folded([net], "fp32"):
            found = compare(partial(passes, net, images), partial(passes, plain, images))
        rows.append({"network": name, **found})
    report("folding", rows, images=IMAGES, width=WIDTH)


if __name__ == "__main__":
    main()
