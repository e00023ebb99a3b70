"""The image networks of tables 5.8 to 5.11 and figure 5.6, by their names in params.yaml. Does not import torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from relearn.models.timm_names import NAMES as TIMM_NAMES
from relearn.studies.vision import LONG_SHORT as NAMES
from relearn.studies.vision import PARTS

STAGES = {"CvT": 3, "ViL": 4, "Swin": 4, "LipsFormer": 4}
"""Stages of a pyramid by the first part of its name; each stage has half the side of the one before."""
DEIT_PATCH = 4
"""Ratio of DeiT's patch size to the first patch size of a pyramid, as published: 16 and 4."""
DEIT_HEADS = 6
HEAD_WIDTH = 64
RESNET_CHANNELS, RESNET_BLOCKS = (64, 128, 256, 512), (3, 4, 6, 3)
DEIT_BLOCKS = 12


def scaled(network: str, sizes: Mapping[str, Any], *, published_windows: bool) -> dict[str, Any]:
    """Name and arguments of a network, with its published sizes scaled by the factors in params.yaml.

    Args:
        network: a key of :data:`NAMES`.
        sizes: ``width`` and ``depth``, factors for the published channels and blocks, both 1 for ImageNet;
            ``patch_size`` of the first embedding; ``window`` of CvT-LS.
        published_windows: whether CvT-LS uses its published windows instead of ``window``.
    """
    name = NAMES[network]
    width, depth = sizes["width"], sizes["depth"]

    def blocks(depths: tuple[int, ...]) -> list[int]:
        return [max(1, round(depth * count)) for count in depths]

    if network == "ResNet-50":
        channels = [max(8, round(width * count)) for count in RESNET_CHANNELS]
        return {"name": name, "channels": channels, "layers": blocks(RESNET_BLOCKS)}
    if network == "DeiT-S":
        return {
            "name": name,
            "embed_dim": DEIT_HEADS * max(1, round(width * HEAD_WIDTH)),
            "depth": blocks((DEIT_BLOCKS,))[0],
            "num_heads": DEIT_HEADS,
            "patch_size": DEIT_PATCH * sizes["patch_size"],
        }
    # timm's Swin-T has the same sizes as LipsFormer's.
    published = TIMM_NAMES["lipsformer_swin_tiny" if network == "Swin-T" else name][1]
    heads = published["num_heads"][0]
    arguments: dict[str, Any] = {
        "name": name,
        "embed_dim": heads * max(1, round(width * published["embed_dim"] / heads)),
        "depths": blocks(published["depths"]),
        "patch_size": sizes["patch_size"],
    }
    if network.endswith("Swin-T"):
        arguments["num_heads"] = list(published["num_heads"])
    if network in ("CvT-13", "CvT-21"):
        arguments["kv_stride"] = 1  # table 5.8 counts CvT with full-resolution keys and values
    if network.startswith("CvT-LS-") and not published_windows:
        arguments["window"] = sizes["window"]
    return arguments | PARTS.get(network, {})
