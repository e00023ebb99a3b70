"""Losses, predictions and scores of `finetune`, and the comparison with a constant answer."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from relearn.steps.trained.chance import ERRORS, above_chance
from relearn.steps.trained.classes import class_error

if TYPE_CHECKING:
    from torch import Tensor

    from relearn.data.examples import Examples
    from relearn.data.sentence_batches import SentenceBatches

LOSSES = {
    "classification": "train_loss_nats",
    "ranking": "train_loss_nats",
    "regression": "train_squared_error",
}


def squared_error(values: Tensor, labels: Tensor) -> Tensor:
    """Mean squared error of (B,) values and (B,) labels, in the labels' squared unit, in single precision or better."""
    from torch.nn.functional import mse_loss

    wide = values if values.element_size() > 2 else values.float()
    return mse_loss(wide, labels.to(wide.dtype))


def loss_of(kind: str) -> Any:
    """The loss for a kind of answer."""
    return squared_error if kind == "regression" else class_error


def predict(model: Any, batches: SentenceBatches, precision: str) -> list[list[float]] | None:
    """The outputs for each sample in order: class logits, a value, or candidate scores; None if any output is not finite."""
    import torch

    found: list[list[float]] = []
    kind = next(model.parameters()).device.type
    with torch.no_grad(), torch.autocast(kind, torch.bfloat16, enabled=precision == "bf16"):
        for given, _ in batches.in_order():
            out = model(*given).float().cpu()
            if not out.isfinite().all():
                return None
            found += [[one] if isinstance(one, float) else one for one in out.tolist()]
    return found


def answers(kind: str, outputs: list[list[float]]) -> Tensor:
    """The predictions, (N,): values, or the index of the highest output (the first in a tie)."""
    import torch

    if kind == "regression":
        return torch.tensor([row[0] for row in outputs], dtype=torch.float64)
    return torch.tensor([max(range(len(row)), key=lambda one: (row[one], -one)) for row in outputs])


def measured(kind: str, classes: int, outputs: list[list[float]], labels: Tensor) -> dict[str, float]:
    """All scores that are defined, named as in relearn.measures.glue_scores; f1 only for two classes."""
    from relearn.measures.glue_scores import KINDS, scores

    names = [name for name in KINDS[kind] if name != "f1" or classes == 2]
    if kind == "regression" and len(labels) < 2:
        return {}
    return scores(kind, names, answers(kind, outputs), labels)


def recorded(part: str, found: Mapping[str, float]) -> dict[str, float]:
    """The scores under their names in a record, e.g. ``dev_accuracy_frac``, ``dev_pearson``."""
    from relearn.measures.glue_scores import RECORD_NAMES

    return {f"{part}_{RECORD_NAMES[name]}": value for name, value in found.items()}


def majority(examples: Examples, kind: str) -> float | None:
    """The accuracy of the best constant answer; for ranking at least that of a random choice; None for regression."""
    if kind == "regression" or examples.labels is None:
        return None
    most = float(examples.labels.bincount().max()) / len(examples)
    if kind == "ranking":
        return max(most, sum(1 / len(rows) for rows in examples.rows) / len(examples))
    return most


def learned(metric: str, found: Mapping[str, float], chance: float | None, count: int) -> bool:
    r"""Whether N answers are better than a constant answer by :data:`~relearn.steps.trained.chance.ERRORS` standard errors.

    Accuracy is compared with the majority's accuracy p, with standard error :math:`\sqrt{p(1-p)/N}`. A coefficient (Matthews,
    Pearson, Spearman) is compared with 0; its standard error is :math:`1/\sqrt{N-1}` under independence.
    """
    if metric in ("mcc", "pearson", "spearman"):
        return found.get(metric, 0.0) > ERRORS / math.sqrt(max(count - 1, 1))
    if chance is None:
        raise ValueError(f"metric: {metric} (allowed for values: pearson, spearman)")
    return above_chance(found["accuracy"], chance, count)


def rows(part: str, examples: Examples, outputs: list[list[float]] | None) -> Iterator[list[Any]]:
    """Rows of answers.csv: part, id, label, and the outputs joined by spaces, with the nine digits of single precision."""
    labels = [None] * len(examples) if examples.labels is None else examples.labels.tolist()
    for place, (name, label) in enumerate(zip(examples.ids, labels)):
        logits = "" if outputs is None else " ".join(f"{one:.9g}" for one in outputs[place])
        yield [part, name, label, logits]
