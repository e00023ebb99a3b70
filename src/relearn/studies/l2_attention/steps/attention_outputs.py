"""attention_outputs: measure the distribution of an attention layer's inputs and outputs.

Source: kim2020, figure 10.

Settings: attention, weights (random | trained; trained needs the input `network`), length, dim, heads, batch, bins.
Output: histogram.csv, see :mod:`relearn.measures.attention_cases.outputs`.
Metrics: input_std, output_std, input_range, output_range, output_range_over_input_range, entries_count.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from relearn.studies.l2_attention.steps.layer_under_test import OnLayer, layer_of, zero_token_inputs

NEEDS_TORCH = True
NOTES = [
    "float64",
    "inputs U[-10, 10] with token 0 at zero; range and initial values of random weights are ours",
]


@dataclass(frozen=True, kw_only=True)
class Settings(OnLayer):
    weights: Literal["random", "trained"]
    batch: int
    bins: int


def run(run, settings: Settings, inputs: dict[str, list[Path]], device: str, precision: str) -> None:
    import torch

    from relearn.measures.attention_cases.outputs import COLUMNS, histograms, spread
    from relearn.steps.csv_rows import write_rows

    layer = layer_of(settings, inputs, run.seed, device)
    x = zero_token_inputs(settings.batch, settings.length, settings.dim, run.seed, device)
    with torch.no_grad():
        y = layer(x)
    write_rows(run.output("histogram.csv"), COLUMNS, histograms(x, y, settings.bins))
    run.finish({**spread(x, y), "entries_count": x.numel()}, notes=NOTES)
