"""initial_norms: measure norms of window and compressed keys in the untrained character model.

The model has its published size; nothing is trained.

Settings: size (a key of :data:`relearn.models.long_short_lm.PUBLISHED`), dual_norm (whether the model uses DualLN), characters
(maximum length of the measured sequence). Input: stream (output of `prepare_char_stream`); the sequence is the beginning of its
validation part. Output: norms.csv (moment: start; layer, ratio of the keys, value_ratio; see :mod:`relearn.measures.window_norms`).
Metrics: parameters_count, norm_ratio_start_min, norm_ratio_start_max. The seed determines the weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

NEEDS_TORCH = True
COLUMNS = ("moment", "layer", "ratio", "value_ratio")


@dataclass(frozen=True, kw_only=True)
class Settings:
    size: str
    dual_norm: bool
    characters: int


def run(run, settings: Settings, inputs: dict[str, list[Path]], device: str, precision: str) -> None:
    import torch

    from relearn.data.prepared_stream import load_prepared_stream
    from relearn.measures.window_norms import norm_ratios
    from relearn.models.long_short_lm import PUBLISHED, create
    from relearn.steps.csv_rows import write_rows

    if settings.size not in PUBLISHED:
        raise ValueError(f"size: found {settings.size!r}, allowed: {', '.join(PUBLISHED)}")
    stream = load_prepared_stream(inputs["stream"][0])
    ids = stream.parts["valid"]
    length = min(settings.characters, len(ids))
    least = PUBLISHED[settings.size]["segment"] + 1
    if length < least:
        raise ValueError(
            f"characters: found {length} of {len(ids)} in the validation part, allowed: at least {least}"
        )
    torch.manual_seed(run.seed)
    net = create(vocabulary=stream.vocabulary, dual_norm=settings.dual_norm, **PUBLISHED[settings.size])
    rows = norm_ratios(net.to(device), torch.from_numpy(ids[:length])[None].to(device).long())
    write_rows(run.output("norms.csv"), COLUMNS, ({"moment": "start", **row} for row in rows))
    ratios = [row[key] for row in rows for key in ("ratio", "value_ratio")]
    run.finish(
        {
            "parameters_count": float(sum(one.numel() for one in net.parameters())),
            "norm_ratio_start_min": min(ratios),
            "norm_ratio_start_max": max(ratios),
        }
    )
