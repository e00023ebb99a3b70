"""The network of each name in the study's grid. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from relearn.models.timm_names import NAMES

ABLATED = "LipsFormer-CSwin-T"
BASE = {"conv": "D", "norm_kind": "center", "similarity": "cosine", "start": "spectral"}
"""The base network of table 3's ablations, beside the numbers that params.yaml has for it (`grid.ablation.base`)."""
CHANGES: dict[str, dict[str, Any]] = {
    "base": {},
    "warmup": {},
    "layer_norm": {"norm_kind": "layer"},
    "no_norm": {"norm_kind": "none"},
    "truncated": {"start": "truncated"},
    "xavier": {"start": "xavier"},
    "dot_product": {"similarity": "dot_product"},
    "l2": {"similarity": "l2"},
    **{f"alpha_{value}": {"alpha": value} for value in (0.1, 0.3, 0.4)},
    **{f"conv_{form}": {"conv": form.upper()} for form in "abc"},
    **{f"drop_{value}": {"drop_path_rate": value} for value in (0.0, 0.1)},
}
OF_OURS = {"LipsFormer-": "relearn.models.lipsformer", "CSwin-": "relearn.models.cswin"}
WORDS = {"T": "tiny", "S": "small", "B": "base", "L": "large"}
TIMM = {"LipsFormer-CSwin": "lipsformer_cswin", "LipsFormer-Swin": "lipsformer_swin", "CSwin": "cswin"}


RIVALS = "rivals"
"""The run that counts all networks of table 2 that are in other packages."""


def modules_of_counted(network: str) -> list[str]:
    """The modules of a network whose parameters are only counted."""
    if network == RIVALS:
        return ["relearn.models.cvt"]
    return [module for start, module in OF_OURS.items() if network.startswith(start)]


def pyramid(network: str, scaled: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """timm's name and the arguments of a network: the published size scaled by ``width`` and ``depth`` of ``scaled``."""
    family, size = network.rsplit("-", 1)
    word = WORDS[size]
    published = NAMES[f"lipsformer_{'cswin' if family.endswith('CSwin') else 'swin'}_{word}"][1]
    arguments = {
        "embed_dim": round(published["embed_dim"] * scaled["width"]),
        "depths": [max(1, round(blocks * scaled["depth"])) for blocks in published["depths"]],
        "num_heads": list(published["num_heads"]),
        "patch_size": scaled["patch_size"],
    }
    if family == "Swin":
        return f"swin_{word}_patch4_window7_224", {**arguments, "window_size": 7}
    return f"{TIMM[family]}_{word}", arguments
