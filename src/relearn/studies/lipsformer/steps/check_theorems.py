"""check_theorems: check qi2023's theorems, initialisation and activations case by case.

================  ====================================  ===================================================================
protocol          further settings                      columns of cases.csv
================  ====================================  ===================================================================
theorem_1         lengths, dims, heads, taus, spreads,  cosine attention: :mod:`relearn.measures.attention_cases.cosine`
                  steps, networks, iterations
theorem_2         blocks, lengths, dims, heads, tau,    residual stacks: :mod:`relearn.measures.attention_cases.residual_stack`
                  eps, networks, iterations
spectral_start    channels, size, networks              equation 5: :mod:`relearn.measures.attention_cases.spectral_norms`
activations       pairs, reach, points                  figure 2: :mod:`relearn.measures.attention_cases.activations`
================  ====================================  ===================================================================

``networks`` are examined as a whole, at the published size (:mod:`relearn.measures.attention_cases.whole_networks`); the column
``network`` names them and is empty for single layers. ``iterations`` is the number of iterations that compute their norms.

`activations` also writes curves.csv (activation, x, value, slope).
Metrics: those of :mod:`relearn.steps.theorem_cases`; bound_share_max and printed_share_max, the largest ratio of norm to the bound that
holds and to the printed one; for activations <activation>_slope_max, the largest slope.
"""

from __future__ import annotations

from pathlib import Path

from relearn.steps import theorem_cases
from relearn.studies.lipsformer.steps import theorems

NEEDS_TORCH = True
Settings = theorems.Theorem1 | theorems.Theorem2 | theorems.Spectral | theorems.Activations
PROTOCOLS: dict[str, theorem_cases.Protocol] = {
    "theorem_1": theorems.theorem_1,
    "theorem_2": theorems.theorem_2,
    "spectral_start": theorems.spectral,
    "activations": theorems.activations,
}


def run(run, settings: Settings, inputs: dict[str, list[Path]], device: str, precision: str) -> None:
    theorem_cases.check(run, settings, PROTOCOLS)
