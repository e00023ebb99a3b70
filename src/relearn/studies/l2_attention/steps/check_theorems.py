"""check_theorems: what kim2020 proves of dot-product and L2 attention, case by case without training.

============  =================================  ====================================================================
protocol      further settings                   columns of cases.csv
============  =================================  ====================================================================
theorem_3_1   lengths, dims, heads, spreads      dot product at x_i = 0: :mod:`relearn.measures.attention_cases.theorem_3_1`
lemma_f_1     lengths, dims, spreads             untied L2: :mod:`relearn.measures.attention_cases.lemma_f_1`
masks         lengths, dims, heads, spreads      appendix G: :mod:`relearn.measures.attention_cases.masks`
dropout       keep, lengths, dims                appendix H: :mod:`relearn.measures.attention_cases.dropout`
============  =================================  ====================================================================

Metrics besides those of :mod:`relearn.steps.theorem_cases`:

- theorem_3_1: dp_growth_ratio and dp_bias_growth_ratio (least over sizes of the norm at the largest spread over that at the smallest),
  dp_norm_max, tied_share_max (largest norm over its bound), formula_error_frac;
- lemma_f_1: l2_growth_ratio, l2_norm_max, tied_share_max, formula_error_frac;
- masks: hidden_norm_max (of masks that hide a token from itself), visible_share_max (of the others, rows over their own bounds);
- dropout: inverted_norm_max and binary_norm_max in training.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from relearn.steps import theorem_cases
from relearn.studies.l2_attention.steps import theorems

NEEDS_TORCH = True
PROTOCOLS = {
    "theorem_3_1": theorems.theorem_3_1,
    "lemma_f_1": theorems.lemma_f_1,
    "masks": theorems.masks,
    "dropout": theorems.dropout,
}


def run(run, settings: dict[str, Any], inputs: dict[str, list[Path]], device: str, precision: str) -> None:
    theorem_cases.check(run, settings, PROTOCOLS)
