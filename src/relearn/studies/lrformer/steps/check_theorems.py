"""check_theorems: check ye2023's bounds of LayerNorm and of LRSA case by case.

============  ================================  ====================================================
protocol      further settings                  columns of cases.csv
============  ================================  ====================================================
layer_norm    dims, eps, spreads                :mod:`relearn.measures.attention_cases.layer_norm`
lrsa          lengths, dims, spreads, draws     :mod:`relearn.measures.attention_cases.lrsa`
============  ================================  ====================================================

Metrics: those of :mod:`relearn.steps.theorem_cases`; bound_share_max and printed_share_max, the largest ratio of norm to the bound that
holds and to the printed one.
"""

from __future__ import annotations

from pathlib import Path

from relearn.steps import theorem_cases
from relearn.studies.lrformer.steps import theorems

NEEDS_TORCH = True
Settings = theorems.LayerNorm | theorems.Lrsa
PROTOCOLS: dict[str, theorem_cases.Protocol] = {"layer_norm": theorems.layer_norm, "lrsa": theorems.lrsa}


def run(run, settings: Settings, inputs: dict[str, list[Path]], device: str, precision: str) -> None:
    theorem_cases.check(run, settings, PROTOCOLS)
