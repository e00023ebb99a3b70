"""The runs of the study: data, initialisations, training from each of them, gradients before training, and exact checks."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from relearn.models import module_of
from relearn.studies.family import Family, Needs
from relearn.studies.gradinit.plan import data, images, translation

COUNTED = ("VGG-19", "ResNet-110", "WRN-28-10", "DenseNet-100")
"""One network of each module that defines the networks of tables 4.4 and 4.5."""


def plan(params: Mapping[str, Any], scale: str) -> dict[str, Family]:
    """The families of runs by rule; a rule is named after its step, plus the task if the step has several rules."""
    planned = partial(Family, study="gradinit", scale=scale)
    return {
        **data.families(params, scale),
        **images.families(params, scale),
        **translation.families(params, scale),
        "check_batch_norm": planned(
            step="check_batch_norm",
            folder="",
            cells=[{}],
            seeds=[0],
            settings={"draws": params["gradinit"]["probe"]["variance_draws"]},
            modules=["relearn.measures.batch_norm_gradient"],
            outputs={"cases": "cases.csv"},
            needs=Needs(mem_mb=2000, minutes=30, gpu=0),
        ),
        "count_params": planned(
            step="count_params",
            folder="",
            cells=[{}],
            seeds=[0],
            settings={},
            modules=["relearn.measures.parameter_counts", *sorted({module_of(name) for name in COUNTED})],
            outputs={"counts": "counts.csv"},
            needs=Needs(mem_mb=4000, minutes=30, gpu=0),
        ),
    }
