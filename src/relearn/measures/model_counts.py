"""Parameters and multiply-adds of vision networks at their published sizes, compared with qi2023 (tables 2, 4, 5 and 7).

Nothing is computed or stored: networks and images are on torch's meta device, so the numbers are the same on
every machine and at every scale. A multiply-add is one product and its addition, in convolutions, linear layers and the two
products of attention; biases, norms, activations, softmax, residual additions and pooling are not counted. The paper
calls the same number FLOPs.

Results of the comparison:

* All LipsFormers of the tables but one have the printed number of parameters after rounding, and the three released Swin variants
  match exactly (30,908,578, 54,479,794, 96,011,168). Among the convolutions A to D of table 3 this holds only for D:
  without its second depth-wise convolution LipsFormer-Swin-B has 95.4 M instead of the printed 96.
* LipsFormer-CSwin-S has 37,506,856 and rounds to the printed 38 by a margin of only 6,856 parameters. With one α less per block
  (9,856) or one norm less per block (19,712) it would round to 37.
* Swin-T, CSwin-T and CSwin-B are printed as in their own papers, rounded up: 28.3, 22.3 and 77.4 as 29, 23
  and 78.
* LipsFormer-Swin-L++ is printed with 526 M. The text does not determine it, because it states no number of classes. The released
  settings are for the 21,841 classes of ImageNet-22K. With a linear layer of that size, the network has 526.95 M (527) in convolution
  configuration D, which all other rows use, and 525.57 M (526) in configuration C, which section 4.2.1 describes. With 1,000 classes
  it has 478.9 M.
* Swin-L is printed with 190.7 M. The network has 196.5 M; its multiply-adds agree. We found no explanation for 190.7.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, NamedTuple

import torch
from torch import nn

from relearn.maths.eval_mode import eval_mode


class Published(NamedTuple):
    """Numbers of a paper, as printed; None: not printed."""

    millions: str
    giga: str | None
    reason: str = ""


NETWORKS = {
    "Swin-T": "swin_tiny_patch4_window7_224",
    "Swin-S": "swin_small_patch4_window7_224",
    "Swin-B": "swin_base_patch4_window7_224",
    "Swin-L": "swin_large_patch4_window7_224",
    "CSwin-T": "cswin_tiny",
    "CSwin-S": "cswin_small",
    "CSwin-B": "cswin_base",
    "LipsFormer-CSwin-T": "lipsformer_cswin_tiny",
    "LipsFormer-CSwin-S": "lipsformer_cswin_small",
    "LipsFormer-CSwin-B": "lipsformer_cswin_base",
    "LipsFormer-Swin-T": "lipsformer_swin_tiny",
    "LipsFormer-Swin-S": "lipsformer_swin_small",
    "LipsFormer-Swin-B": "lipsformer_swin_base",
    "LipsFormer-Swin-L": "lipsformer_swin_large",
    "LipsFormer-Swin-L++": "lipsformer_swin_large_plus_plus",
}
"""Network as printed → its name in timm."""
RIVALS: dict[str, tuple[str, int]] = {
    "RegNetY-4G": ("regnety_040", 224),
    "RegNetY-8G": ("regnety_080", 224),
    "RegNetY-16G": ("regnety_160", 224),
    "EffNet-B4": ("efficientnet_b4", 380),
    "EffNet-B5": ("efficientnet_b5", 456),
    "EffNet-B7": ("efficientnet_b7", 600),
    "ConvNeXt-T": ("convnext_tiny", 224),
    "ConvNeXt-S": ("convnext_small", 224),
    "ConvNeXt-B": ("convnext_base", 224),
    "DeiT-S": ("deit_small_patch16_224", 224),
    "DeiT-B": ("deit_base_patch16_224", 224),
    "TNT-T": ("tnt_s_legacy_patch16_224", 224),
    "TNT-B": ("tnt_b_patch16_224", 224),
    "CvT-13": ("cvt_13", 224),
    "CvT-21": ("cvt_21", 224),
    "NesT-T": ("nest_tiny", 224),
    "NesT-S": ("nest_small", 224),
    "NesT-B": ("nest_base", 224),
    "XCiT-S12": ("xcit_small_12_p16_224", 224),
    "XCiT-S24": ("xcit_small_24_p16_224", 224),
    "XCiT-M24": ("xcit_medium_24_p16_224", 224),
    "CrossViT-15": ("crossvit_15_240", 240),
    "CrossViT-18": ("crossvit_18_240", 240),
    "DeiT-III-S": ("deit3_small_patch16_224", 224),
    "DeiT-III-B": ("deit3_base_patch16_224", 224),
}
"""Further networks of table 2 that timm or this package offers → name there, side of the images for which it is made."""
_UP = "printed as in the network's own paper, rounded up"
PUBLISHED: dict[str, Published] = {
    "Swin-T": Published("29", "4.5", _UP),
    "Swin-S": Published("50", "8.7"),
    "Swin-B": Published("88", "15.4"),
    "Swin-L": Published("190.7", "34.5", "no reading of the printed number found; multiply-adds agree"),
    "CSwin-T": Published("23", "4.3", _UP),
    "CSwin-S": Published("35", "6.9"),
    "CSwin-B": Published("78", "15.0", _UP),
    "LipsFormer-CSwin-T": Published("24", "4.7"),
    "LipsFormer-CSwin-S": Published("38", "7.6"),
    "LipsFormer-CSwin-B": Published("83", "16.3"),
    "LipsFormer-Swin-T": Published("31", "5.0"),
    "LipsFormer-Swin-S": Published("54", "9.7"),
    "LipsFormer-Swin-B": Published("96", "17.0"),
    "LipsFormer-Swin-L": Published("214", "37.7"),
    "LipsFormer-Swin-L++": Published(
        "526",
        None,
        "open: 526.95 with 21,841 classes, 525.57 with configuration C and as many, 478.9 with 1,000",
    ),
}
"""Network → millions of parameters, giga multiply-adds at 224 x 224 (qi2023, tables 2, 4, 5, 7), and the reason for a difference."""

RELEASED: dict[str, int] = {
    "LipsFormer-Swin-T": 30_908_578,
    "LipsFormer-Swin-S": 54_479_794,
    "LipsFormer-Swin-B": 96_011_168,
}
"""Network → parameters of the released code."""

COLUMNS = (
    "network",
    "parameters",
    "published_millions",
    "equal",
    "released",
    "equal_to_released",
    "multiply_adds",
    "published_giga",
    "relative_difference",
    "within",
    "reason",
)
TOLERANCE = 0.03
"""Largest relative difference from the printed multiply-adds that counts as agreement."""


def multiply_adds(model: nn.Module, images: torch.Tensor) -> int:
    """Return the multiply-adds of one forward pass in evaluation mode, half of what torch's counter calls FLOPs."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode

    # torch does not count the products of the CPU's fused attention; the math kernel uses two batched products
    count = FlopCounterMode(display=False)
    with eval_mode(model), torch.no_grad(), sdpa_kernel(SDPBackend.MATH), count as counter:
        model(images)
    return counter.get_total_flops() // 2


def rounds_to(count: int, printed: str) -> bool:
    """Return whether ``count`` in millions, rounded half up to the digits of ``printed``, equals it: 54,479,794 is "54"."""
    wanted = Decimal(printed)
    return (Decimal(count) / 1_000_000).quantize(wanted, ROUND_HALF_UP) == wanted


def model_counts(
    networks: Mapping[str, Callable[[], nn.Module]], *, images: tuple[int, int, int] = (3, 224, 224)
) -> list[dict[str, Any]]:
    """Return one row (:data:`COLUMNS`) per network; None where nothing is published or released.

    ``equal``: parameters agree after rounding to the printed digits; ``relative_difference``: multiply-adds divided by the printed
    ones, minus 1; ``within``: whether its absolute value is at most :data:`TOLERANCE`; ``reason``: why ``equal`` is False.

    Args:
        networks: name → constructor, e.g. ``partial(timm.create_model, "lipsformer_swin_tiny")``.
        images: channels, height and width of an image.

    Raises:
        ValueError: no networks.
    """
    if not networks:
        raise ValueError(f"networks: none given (allowed: at least one, e.g. {', '.join(PUBLISHED)})")
    return [_row(name, build, images) for name, build in networks.items()]


def _row(name: str, build: Callable[[], nn.Module], images: tuple[int, int, int]) -> dict[str, Any]:
    with torch.device("meta"):
        model = build()
        products = multiply_adds(model, torch.empty(1, *images))
    count = sum(one.numel() for one in model.parameters())
    said, released = PUBLISHED.get(name), RELEASED.get(name)
    equal = None if said is None else rounds_to(count, said.millions)
    giga = None if said is None or said.giga is None else float(said.giga)
    difference = None if giga is None else products / (giga * 1e9) - 1
    values = (
        name,
        count,
        None if said is None else float(said.millions),
        equal,
        released,
        None if released is None else count == released,
        products,
        giga,
        difference,
        None if difference is None else abs(difference) <= TOLERANCE,
        said.reason if said is not None and not equal else None,
    )
    return dict(zip(COLUMNS, values))
