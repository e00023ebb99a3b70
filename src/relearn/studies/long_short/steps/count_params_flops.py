"""count_params_flops: count parameters and multiply-adds of chapter 5's networks at published sizes.

Nothing is trained; vision networks and character models are built on torch's meta device.

Settings: ``family``, a key of :data:`FAMILIES`. No inputs.
Output: counts.csv with :data:`COLUMNS`; booleans are 1 or 0, and a missing value is an empty cell.

======== ============================================== ================================================================
family   rows of ``counts.csv``                         metrics
======== ============================================== ================================================================
lra      an attention and a task of table 5.1           {attention}_{task}_gflops
language the two character models of table 5.7          small_parameters_count, large_parameters_count
vision   a network and an image side of table 5.8       {network}_{side}_parameters_count, {network}_{side}_gflops
======== ============================================== ================================================================

FLOPs are multiply-adds: one product with its sum counts one (fvcore's convention, which the paper uses).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from relearn.steps.csv_rows import write_rows

NEEDS_TORCH = True
COLUMNS = (
    *("model", "task_or_input", "parameters_count", "printed_parameters", "parameters_agree"),
    *("flops_count", "printed_flops_giga", "flops_agree", "note"),
)
CHARACTERS = 204
"""Vocabulary of enwik8 as the character models see it."""
NOTE = "a multiply-add, one product with its sum, counts one"
Row = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Settings:
    family: str


def run(run: Any, settings: Settings, inputs: dict[str, list[Path]], device: str, precision: str) -> None:
    rows, metrics = counted(settings.family)
    write_rows(run.output("counts.csv"), COLUMNS, rows)
    run.finish(metrics, notes=[NOTE])


def counted(family: str) -> tuple[list[Row], dict[str, float]]:
    """Rows and metrics of a family.

    Raises:
        ValueError: an unknown family.
    """
    if family not in FAMILIES:
        raise ValueError(f"family is {family!r}; allowed: {', '.join(FAMILIES)}")
    rows = FAMILIES[family]()
    if family == "language":
        return rows, {f"{row['model']}_parameters_count": row["parameters_count"] for row in rows}
    named = {f"{row['model']}_{row['task_or_input']}": row for row in rows}
    metrics = {f"{name}_gflops": row["flops_count"] / 1e9 for name, row in named.items()}
    if family == "vision":
        metrics |= {f"{name}_parameters_count": row["parameters_count"] for name, row in named.items()}
    return rows, metrics


def lra() -> list[Row]:
    """Encoders of table 5.1."""
    from relearn.measures.lra_counts import lra_counts
    from relearn.models.lra_encoder import create

    return lra_counts(create)


def language() -> list[Row]:
    """Character models of table 5.7."""
    import torch

    from relearn.measures.model_counts import rounds_to
    from relearn.models.long_short_lm import PUBLISHED, create

    rows = []
    for model, printed in (("small", "44"), ("large", "110")):
        with torch.device("meta"):
            net = create(vocabulary=CHARACTERS, **PUBLISHED[model])
        count = sum(one.numel() for one in net.parameters())
        agree = rounds_to(count, printed)
        note = f"{CHARACTERS} characters, as enwik8 has"
        values = (model, "enwik8", count, float(printed), agree, None, None, None, note)
        rows.append(dict(zip(COLUMNS, values, strict=True)))
    return rows


def vision() -> list[Row]:
    """Image networks of table 5.8, named as in the runs: without asterisk and without a citation after the name."""
    from importlib import import_module

    import relearn.models.timm_names  # noqa: F401  (registers the names)
    from relearn.measures.vision_counts import PRINTED, vision_counts

    rows = vision_counts(import_module("timm").create_model, PRINTED)
    for row, name in zip(rows, PRINTED, strict=True):
        row["model"] = name.rpartition(" @")[0].partition(" [")[0].replace("*", "")
        row["task_or_input"] = str(PRINTED[name].size)
    return rows


FAMILIES: dict[str, Callable[[], list[Row]]] = {"lra": lra, "language": language, "vision": vision}
