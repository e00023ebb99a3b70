"""count_params_flops: compare parameters and multiply-adds at the published size with qi2023's numbers.

Settings: network, a name of :data:`relearn.measures.model_counts.PUBLISHED`, or networks, names of ``RIVALS`` there, each
counted at its own image size. No inputs. The network is built on torch's meta device, with 1,000 classes except for
LipsFormer-Swin-L++, whose printed number is for ImageNet-22K.
Output: counts.csv, one row per network with the columns of :mod:`relearn.measures.model_counts` (booleans are 1 or 0, a missing value
is an empty cell).
Metrics of a single network: parameters_count, parameters_millions, multiply_adds_count, multiply_adds_giga; with networks:
networks_count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from relearn.steps.csv_rows import write_rows

NEEDS_TORCH = True
CLASSES = {"LipsFormer-Swin-L++": 21_841}


@dataclass(frozen=True, kw_only=True)
class Settings:
    network: str | None = None
    networks: Sequence[str] = ()


def run(run, settings: Settings, inputs: dict[str, list[Path]], device: str, precision: str) -> None:
    from functools import partial
    from importlib import import_module

    import relearn.models.timm_names  # noqa: F401  (registers the names when timm is imported)
    from relearn.measures.model_counts import COLUMNS, NETWORKS, model_counts

    create_model = import_module("timm").create_model
    if settings.networks:
        _rivals(run, settings.networks, create_model)
        return
    network = settings.network
    if network not in NETWORKS:
        raise ValueError(f"network is {network!r}; allowed: {', '.join(NETWORKS)}")
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


def _rivals(run: Any, names: Sequence[str], create_model: Any) -> None:
    from functools import partial

    from relearn.measures.model_counts import COLUMNS, RIVALS, model_counts

    if odd := [name for name in names if name not in RIVALS]:
        raise ValueError(f"networks: found {odd[0]!r}; allowed: {', '.join(RIVALS)}")
    rows = []
    for name in names:
        timm_name, side = RIVALS[name]
        sized = {"img_size": side} if timm_name.startswith("cvt_") else {}
        rows += model_counts({name: partial(create_model, timm_name, **sized)}, images=(3, side, side))
    write_rows(run.output("counts.csv"), COLUMNS, rows)
    run.finish(
        {"networks_count": len(rows)},
        notes=["1,000 classes, images of the network's own size; a multiply-add is one product with its sum"],
    )
