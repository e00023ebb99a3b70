"""check_theorems: check kim2020's theorems on dot-product and L2 attention case by case.

Nothing is trained.

============  =================================  ====================================================================
protocol      further settings                   columns of cases.csv
============  =================================  ====================================================================
theorem_3_1   lengths, dims, heads, spreads      dot product at x_i = 0: :mod:`relearn.measures.attention_cases.theorem_3_1`
lemma_f_1     lengths, dims, spreads             untied L2: :mod:`relearn.measures.attention_cases.lemma_f_1`
masks         lengths, dims, heads, spreads      appendix G: :mod:`relearn.measures.attention_cases.masks`
dropout       keep, lengths, dims                appendix H: :mod:`relearn.measures.attention_cases.dropout`
============  =================================  ====================================================================

Metrics in addition to those of :mod:`relearn.steps.theorem_cases`:

- theorem_3_1: dp_growth_ratio and dp_bias_growth_ratio (norm at the largest spread / norm at the smallest spread, minimum over sizes),
  dp_norm_max, tied_share_max (largest ratio of a norm to its bound), formula_error_frac;
- lemma_f_1: l2_growth_ratio, l2_norm_max, tied_share_max, formula_error_frac;
- masks: hidden_norm_max (for masks that hide a token from itself), visible_share_max (for the others: norm of a block row / its bound);
- dropout: inverted_norm_max and binary_norm_max, both in training mode.
"""

from __future__ import annotations

from pathlib import Path

from relearn.steps import theorem_cases
from relearn.studies.l2_attention.steps import theorems

NEEDS_TORCH = True
PROTOCOLS: dict[str, theorem_cases.Protocol] = {
    "theorem_3_1": theorems.theorem_3_1,
    "lemma_f_1": theorems.lemma_f_1,
    "masks": theorems.masks,
    "dropout": theorems.dropout,
}


Settings = theorems.Theorem31 | theorems.LemmaF1 | theorems.Masks | theorems.Dropout


def run(run, settings: Settings, inputs: dict[str, list[Path]], device: str, precision: str) -> None:
    theorem_cases.check(run, settings, PROTOCOLS)
