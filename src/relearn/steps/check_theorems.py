"""examine: what a paper proves or states of its layers without training, case by case; one protocol a run (label `protocol`).

==============  ==================================  ======================================================================
protocol        settings beside protocol            what, and where its columns are documented
==============  ==================================  ======================================================================
theorem_3_1     lengths, dims, heads, spreads       dot product at x_i = 0: :mod:`relearn.measures.attention_cases.theorem_3_1`
lemma_f_1       lengths, dims, spreads              untied L2: :mod:`relearn.measures.attention_cases.lemma_f_1`
masks           lengths, dims, heads, spreads       appendix G: :mod:`relearn.measures.attention_cases.masks`
dropout         keep, lengths, dims                 appendix H: :mod:`relearn.measures.attention_cases.dropout`
outputs         attention, weights, length, dim,    figure 10: :mod:`relearn.measures.attention_cases.outputs`;
                heads, batch, bins                  input: network, if weights is trained
theorem_1       lengths, dims, heads, taus,         cosine attention: :mod:`relearn.measures.attention_cases.cosine`
                spreads, steps
theorem_2       blocks, lengths, dims, heads,       residual stacks: :mod:`relearn.measures.attention_cases.residual_stack`
                tau, eps
spectral_start  channels, size                      equation 5: :mod:`relearn.measures.attention_cases.spectral_norms`
activations     pairs, reach, points                figure 2: :mod:`relearn.measures.attention_cases.activations`
layer_norm      dims, eps, spreads                  appendix A: :mod:`relearn.measures.attention_cases.layer_norm`
lrsa            lengths, dims, spreads, draws       appendix B: :mod:`relearn.measures.attention_cases.lrsa`
==============  ==================================  ======================================================================

Up to outputs they are of kim2020, up to activations of qi2023, then of ye2023.

Output: cases.csv, a row a case, always with `holds` (truth is 1 or 0, what does not exist is empty); of `outputs` histogram.csv;
of `activations` besides curves.csv (activation, x, value, slope).
Metrics: cases_count, holds_count; printed_fails_count where the paper prints something else; beside them

- theorem_3_1: dp_growth_ratio and dp_bias_growth_ratio (least over sizes of the norm at the largest spread over that at the smallest),
  dp_norm_max, tied_share_max (largest norm over its bound), formula_error_frac;
- lemma_f_1: l2_growth_ratio, l2_norm_max, tied_share_max, formula_error_frac;
- masks: hidden_norm_max (of masks that hide a token from itself), visible_share_max (of the others, rows over their own bounds);
- dropout: inverted_norm_max and binary_norm_max in training;
- outputs: input_std, output_std, input_range, output_range, output_range_over_input_range, entries_count;
- of qi2023 and ye2023: bound_share_max and printed_share_max, the largest norm over the bound that holds and over the printed one;
- activations: <activation>_slope_max, the largest slope.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from relearn.steps.csv_rows import write_rows

NEEDS_TORCH = True
CONSTRUCTIONS = {
    "theorem_3_1": "relearn.studies.l2_attention.steps.theorems:theorem_3_1",
    "lemma_f_1": "relearn.studies.l2_attention.steps.theorems:lemma_f_1",
    "masks": "relearn.studies.l2_attention.steps.theorems:masks",
    "dropout": "relearn.studies.l2_attention.steps.theorems:dropout",
    "theorem_1": "relearn.studies.lipsformer.steps.theorems:theorem_1",
    "theorem_2": "relearn.studies.lipsformer.steps.theorems:theorem_2",
    "spectral_start": "relearn.studies.lipsformer.steps.theorems:spectral",
    "activations": "relearn.studies.lipsformer.steps.theorems:activations",
    "layer_norm": "relearn.studies.lrformer.steps.theorems:layer_norm",
    "lrsa": "relearn.studies.lrformer.steps.theorems:lrsa",
}
"""Protocol → ``module:function``; the function gives columns, rows and telling numbers from settings and seed, and then
further files, each with name, columns and rows."""


def run(run, settings: dict[str, Any], inputs: dict[str, list[Path]], device: str, precision: str) -> None:
    protocol = settings["protocol"]
    if protocol == "outputs":
        _outputs(run, settings, inputs, device)
        return
    if protocol not in CONSTRUCTIONS:
        raise ValueError(f"protocol is {protocol!r}; allowed: {', '.join(CONSTRUCTIONS)}, outputs")
    module, _, name = CONSTRUCTIONS[protocol].partition(":")
    columns, rows, telling, *further = getattr(import_module(module), name)(settings, run.seed)
    for name, header, lines in (("cases.csv", columns, rows), *further):
        write_rows(run.output(name), header, lines)
    counts = {"cases_count": len(rows), "holds_count": sum(bool(row["holds"]) for row in rows)}
    if "printed_holds" in columns:
        counts["printed_fails_count"] = sum(row["printed_holds"] is False for row in rows)
    run.finish({**counts, **telling}, notes=["float64 on the CPU, exact Jacobians"])


def _outputs(run, settings: dict[str, Any], inputs: dict[str, list[Path]], device: str) -> None:
    import torch

    from relearn.measures.attention_cases.outputs import COLUMNS, histograms, spread
    from relearn.studies.l2_attention.steps.layer_under_test import layer_of, zero_token_inputs

    layer = layer_of(settings, inputs, run.seed, device)
    x = zero_token_inputs(settings["batch"], settings["length"], settings["dim"], run.seed, device)
    with torch.no_grad():
        y = layer(x)
    write_rows(run.output("histogram.csv"), COLUMNS, histograms(x, y, settings["bins"]))
    run.finish(
        {**spread(x, y), "entries_count": x.numel()},
        notes=[
            "float64",
            "inputs U[-10, 10] with token 0 at zero; range and start of random weights are ours",
        ],
    )
