"""count_params_flops: parameters and multiply-adds of a network at its published size, compared with the printed numbers (qi2023).

Settings: network, a name of :data:`relearn.measures.model_counts.PUBLISHED`. No inputs. The network is built on torch's
meta device, with 1,000 classes but for LipsFormer-Swin-L++, whose printed number is for ImageNet-22K.
Output: counts.csv, one row with the columns of :mod:`relearn.measures.model_counts` (truth is 1 or 0, a missing value an empty cell).
Metrics: parameters_count, parameters_millions, multiply_adds_count, multiply_adds_giga.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from relearn.steps.csv_rows import write_rows

NEEDS_TORCH = True
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
CLASSES = {"LipsFormer-Swin-L++": 21_841}


def run(run, settings: dict[str, Any], inputs: dict[str, list[Path]], device: str, precision: str) -> None:
    from functools import partial
    from importlib import import_module

    import relearn.models.timm_names  # noqa: F401  (enters the names, once timm comes)
    from relearn.measures.model_counts import COLUMNS, model_counts

    network = settings["network"]
    if network not in NETWORKS:
        raise ValueError(f"network is {network!r}; allowed: {', '.join(NETWORKS)}")
    create_model = import_module("timm").create_model
    classes = CLASSES.get(network, 1000)
    build = partial(create_model, NETWORKS[network], num_classes=classes)
    rows = model_counts({network: build})
    write_rows(run.output("counts.csv"), COLUMNS, rows)
    parameters, products = rows[0]["parameters"], rows[0]["multiply_adds"]
    run.finish(
        {
            "parameters_count": parameters,
            "parameters_millions": parameters / 1e6,
            "multiply_adds_count": products,
            "multiply_adds_giga": products / 1e9,
        },
        notes=[f"{classes:,} classes, images of 224 x 224; a multiply-add is one product with its sum"],
    )
