"""Counts of the networks of zhu2022, chapter 5, at their published sizes, by family.

======== ============================================== ================================================================
family   rows of ``counts.csv``                         metrics
======== ============================================== ================================================================
lra      an attention and task of table 5.1             {attention}_{task}_gflops
language the two character models of table 5.7          small_parameters_count, large_parameters_count
vision   a network and image side of table 5.8          {network}_{side}_parameters_count, {network}_{side}_gflops
======== ============================================== ================================================================

FLOPs are multiply-adds, one product with its sum counts one: fvcore's convention, which the paper used.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

COLUMNS = (
    *("model", "task_or_input", "parameters_count", "printed_parameters", "parameters_agree"),
    *("flops_count", "printed_flops_giga", "flops_agree", "note"),
)
FAMILIES = ("lra", "language", "vision")
Row = dict[str, Any]


def counted(family: str) -> tuple[list[Row], dict[str, float]]:
    """Rows with :data:`COLUMNS` and metrics of one of :data:`FAMILIES`.

    Raises:
        ValueError: another family.
    """
    if family not in FAMILIES:
        raise ValueError(f"family is {family!r}; allowed: {', '.join(FAMILIES)}")
    rows = {"lra": _lra, "language": _language, "vision": _vision}[family]()
    return rows, _metrics(family, rows)


def _lra() -> list[Row]:
    from relearn.measures.lra_counts import lra_counts
    from relearn.models.lra_encoder import create

    return lra_counts(create)


def _language() -> list[Row]:
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


def _vision() -> list[Row]:
    from importlib import import_module

    import relearn.models.timm_names  # noqa: F401  (enters the names, once timm comes)
    from relearn.measures.vision_counts import PRINTED, vision_counts

    rows = vision_counts(import_module("timm").create_model, PRINTED)
    for row, name in zip(rows, PRINTED, strict=True):
        # Names as runs have them: no asterisk, no reference behind the name.
        row["model"] = name.rpartition(" @")[0].partition(" [")[0].replace("*", "")
        row["task_or_input"] = str(PRINTED[name].size)
    return rows


CHARACTERS = 204


def _metrics(family: str, rows: Sequence[Row]) -> dict[str, float]:
    if family == "language":
        return {f"{row['model']}_parameters_count": row["parameters_count"] for row in rows}
    names = [f"{row['model']}_{row['task_or_input']}" for row in rows]
    metrics = {f"{name}_gflops": row["flops_count"] / 1e9 for name, row in zip(names, rows, strict=True)}
    if family == "vision":
        metrics |= {
            f"{name}_parameters_count": row["parameters_count"] for name, row in zip(names, rows, strict=True)
        }
    return metrics
