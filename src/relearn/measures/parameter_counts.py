"""Number of parameters of a network compared with the published number; no memory is allocated for them.

zhu2022 prints the sizes in millions with two decimals, in the headers of tables 4.4 and 4.5 (CIFAR-10, 10 classes). ``RELEASED`` has
the exact counts of the same networks as released by the authors. A network that rounds to the published size but differs from the
released one has a different layer somewhere (a bias, or the normalisation in a shortcut).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn

from relearn.measures.model_counts import rounds_to

PUBLISHED: dict[str, float] = {
    "VGG-19": 20.03,
    "VGG-19-BN": 20.04,
    "ResNet-110": 1.72,
    "ResNet-110-BN": 1.73,
    "ResNet-1202-BN": 19.42,
    "WRN-28-10": 36.49,
    "FixUpResNet-110": 1.72,
    "DenseNet-100": 0.75,
    "DenseNet-100-BN": 0.77,
}
"""Network → millions of parameters, zhu2022 tables 4.4 (the first five) and 4.5."""

RELEASED: dict[str, int] = {
    "VGG-19": 20_029_514,
    "VGG-19-BN": 20_040_522,
    "ResNet-110": 1_723_914,
    "ResNet-110-BN": 1_728_058,
    "ResNet-1202": 19_376_458,
    "ResNet-1202-BN": 19_421_370,
    "WRN-28-10": 36_489_290,
    "FixUpResNet-110": 1_720_138,
    "DenseNet-100": 748_336,
    "DenseNet-100-BN": 769_162,
}
"""Network → parameters of the released code."""

COLUMNS = ("network", "count", "published_millions", "equal", "released", "equal_to_released")


def count_parameters(build: Callable[[], nn.Module]) -> int:
    """Count the parameters of ``build()``, shared tensors once; the network is built on the meta device, without memory."""
    with torch.device("meta"):
        model = build()
    return sum(one.numel() for one in model.parameters())


def parameter_counts(networks: Mapping[str, Callable[[], nn.Module]]) -> list[dict[str, Any]]:
    """Return one row (:data:`COLUMNS`) per network; ``equal``: after rounding to the published digits; None where nothing is published.

    Args:
        networks: name → constructor, e.g. ``partial(create, "VGG-19")`` for 10 classes of RGB images.

    Raises:
        ValueError: no networks.
    """
    if not networks:
        raise ValueError(f"networks: none given; allowed: at least one, e.g. {', '.join(PUBLISHED)}")
    rows = []
    for name, build in networks.items():
        count, published, released = count_parameters(build), PUBLISHED.get(name), RELEASED.get(name)
        rows.append(
            {
                "network": name,
                "count": count,
                "published_millions": published,
                "equal": None if published is None else rounds_to(count, f"{published:.2f}"),
                "released": released,
                "equal_to_released": None if released is None else count == released,
            }
        )
    return rows
