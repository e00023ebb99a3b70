"""Parameters and multiply-adds of vision networks compared with zhu2022, table 5.8.

The counts are made as in :mod:`relearn.measures.model_counts`, without running the networks. A multiply-add is one product and its
addition; fvcore and the table call it one FLOP. Norms, softmax and activations are not counted. 1,000 classes, one image.

Results of the comparison:

* **CvT**: the table prints 6.7 G (CvT-13) and 10.1 G (CvT-21); CvT's own paper prints 4.5 and 7.1. The table's numbers correspond to keys
  and values without a stride (6.64, 10.10; at 384 pixels 31.0 and 44.9, printed 31.9 and 45.0). A third-party implementation has
  projections of stride 1; those of CvT's authors have stride 2 (4.57, 7.18). The parameters are the same.
* **CvT*-LS**: windows, ranks, depths and strides are not printed. Our values were **found by search, not stated**:
  windows of 4 and rank 8, with batch normalisation after convolutions that keep a bias (as in that implementation), reproduce the
  printed parameters and multiply-adds of -13 and -21 after rounding. At 384 pixels this needs windows of 6, and at 448 pixels
  windows of 8 come within 3%.
* **CvT*-LS-17 and -21S** have "denser feature maps" with 17 and 21 blocks. Many shapes give the printed numbers. We chose
  shapes that form a family: the second stage keeps the first one's grid, so its embedding has stride 1 (and the third
  one's has stride 4); windows of 4, rank 8; a first stage of width 48; widths 48, 192, 384 and depths 4, 3, 10 for -17, widths 48, 144,
  384 and depths 1, 6, 14 for -21S. There is no evidence that the published networks have these shapes.
* **ViL**: the printed 24.6, 39.7 and 55.7 M exclude the tables of relative positions (24.61, 39.70, 55.67), and the printed
  multiply-adds correspond to windows of 15 by 15 tokens, which its paper mentions. Segments with all their neighbours are 21 by 21
  tokens and need 5% more.
* **ViL-LS** has the printed numbers with the released settings, which use windows of 8 at 384 pixels.
* **ResNet-50, ResNet-152, DeiT-B** are printed truncated, not rounded: 25.6, 11.5 and 86.6 as 25, 11 and 86.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import torch
from torch import nn

from relearn.measures.model_counts import TOLERANCE, multiply_adds, rounds_to


class Row(NamedTuple):
    """A row of the table, with numbers as printed, and the network that represents it here."""

    network: str
    """Name in timm's registry."""
    size: int
    """Side length of the images in pixels."""
    millions: str
    giga: str
    note: str = ""
    arguments: Mapping[str, Any] = MappingProxyType({})


_STRIDE = "printed for keys and values without a stride (kv_stride=1); with CvT's own of 2: {} G"
_FOUND = "window 4 and rank 8 are found, not stated"
_SHAPE = "depths, widths, strides, window and rank are found, not stated"
_VIL = "printed without tables of positions ({} M) and with windows of 15 x 15 instead of 21 x 21"
_LONE = dict(kv_stride=1)
PRINTED: dict[str, Row] = {
    "ResNet-50 @224": Row("resnet50", 224, "25", "4.1", "25.6, printed cut"),
    "ResNet-101 @224": Row("resnet101", 224, "45", "7.9"),
    "ResNet-152 @224": Row("resnet152", 224, "60", "11", "11.5, printed cut"),
    "DeiT-S [195] @224": Row("deit_small_patch16_224", 224, "22", "4.6"),
    "DeiT-B [195] @224": Row("deit_base_patch16_224", 224, "86", "17.6", "86.6, printed cut"),
    "Swin-S [197] @224": Row("swin_small_patch4_window7_224", 224, "50", "8.7"),
    "Swin-B [197] @224": Row("swin_base_patch4_window7_224", 224, "88", "15.4"),
    "CvT-13 [169] @224": Row("cvt_13", 224, "20", "6.7", _STRIDE.format("4.57"), _LONE),
    "CvT-21 [169] @224": Row("cvt_21", 224, "32", "10.1", _STRIDE.format("7.18"), _LONE),
    "CvT*-LS-13 @224": Row("cvt_ls_13", 224, "20.3", "4.9", _FOUND),
    "CvT*-LS-17 @224": Row("cvt_ls_17", 224, "23.7", "9.8", _SHAPE),
    "CvT*-LS-21 @224": Row("cvt_ls_21", 224, "32.1", "7.9", _FOUND),
    "CvT*-LS-21S @224": Row("cvt_ls_21s", 224, "30.1", "11.3", _SHAPE),
    "CvT-13 [169] @384": Row("cvt_13", 384, "20", "31.9", _STRIDE.format("16.3"), _LONE),
    "CvT-21 [169] @384": Row("cvt_21", 384, "32", "45.0", _STRIDE.format("24.8"), _LONE),
    "CvT*-LS-21 @384": Row("cvt_ls_21", 384, "32.1", "23.9", "window 6, found", dict(window=6)),
    "CvT*-LS-21 @448": Row("cvt_ls_21", 448, "32.1", "34.2", "window 8, found", dict(window=8)),
    "ViL-Small [177] @224": Row("vil_small", 224, "24.6", "4.9", _VIL.format("24.61")),
    "ViL-Medium [177] @224": Row("vil_medium", 224, "39.7", "8.7", _VIL.format("39.70")),
    "ViL-Base [177] @224": Row("vil_base", 224, "55.7", "13.4", _VIL.format("55.67")),
    "ViL-LS-Medium @224": Row("vil_ls_medium", 224, "39.8", "8.7"),
    "ViL-LS-Base @224": Row("vil_ls_base", 224, "55.8", "13.4"),
    "ViL-LS-Medium @384": Row("vil_ls_medium", 384, "39.9", "28.7", "window 8, as released", dict(window=8)),
}
"""Row of table 5.8 → its printed numbers; PVT, PVTv2 and ViT are omitted."""

COLUMNS = (
    "model",
    "task_or_input",
    "parameters_count",
    "printed_parameters",
    "parameters_agree",
    "flops_count",
    "printed_flops_giga",
    "flops_agree",
    "note",
)


def vision_counts(build: Callable[..., nn.Module], rows: Iterable[str] = PRINTED) -> list[dict[str, Any]]:
    """Return one row (:data:`COLUMNS`) for each row of the table.

    ``printed_parameters`` is in millions; ``parameters_agree``: after rounding to the printed digits; ``flops_agree``: the multiply-adds
    are within :data:`~relearn.measures.model_counts.TOLERANCE` of the printed ones.

    Args:
        build: called with a timm name and keyword arguments, such as ``timm.create_model`` once the names of
            ``relearn.models.timm_names`` are registered.
        rows: keys of :data:`PRINTED`.

    Raises:
        ValueError: an unknown row.
    """
    rows = list(rows)
    unknown = [name for name in rows if name not in PRINTED]
    if unknown:
        raise ValueError(f"rows: {unknown[0]!r} (allowed: {', '.join(PRINTED)})")
    return [_row(name, PRINTED[name], build) for name in rows]


def _row(name: str, printed: Row, build: Callable[..., nn.Module]) -> dict[str, Any]:
    own = not printed.network.startswith(
        "resnet"
    )  # the resnets are the only ones without an image size argument
    sizes = {"img_size": printed.size} if own else {}
    with torch.device("meta"):
        model = build(printed.network, num_classes=1000, **sizes, **printed.arguments)
        products = multiply_adds(model, torch.empty(1, 3, printed.size, printed.size))
    count = sum(one.numel() for one in model.parameters())
    giga = float(printed.giga)
    values = (
        name.rpartition(" @")[0],
        f"{printed.size} x {printed.size}",
        count,
        float(printed.millions),
        rounds_to(count, printed.millions),
        products,
        giga,
        abs(products / (giga * 1e9) - 1) <= TOLERANCE,
        printed.note or None,
    )
    return dict(zip(COLUMNS, values))
