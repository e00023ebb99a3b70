"""Classification loss and predictions of `convert_roberta`, and a test whether they beat a constant prediction."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from relearn.steps.trained.chance import BELOW, above_chance
from relearn.steps.trained.masked_tokens import autocast

if TYPE_CHECKING:
    from torch import Tensor

    from relearn.data.masked_batches import TokenBatches


CLASSES = 2


def class_error(logits: Tensor, labels: Tensor) -> Tensor:
    """Mean cross-entropy in nats of logits (B, C) and labels (B,), in at least single precision."""
    from torch.nn.functional import cross_entropy

    return cross_entropy(logits if logits.element_size() > 2 else logits.float(), labels)


def predict(model: Any, batches: TokenBatches, precision: str) -> Tensor | None:
    """Predicted class of each text, (N,) int64 on the CPU; None if a logit is not finite."""
    import torch

    found = []
    with torch.no_grad(), autocast(batches, precision):
        for given, _ in batches.in_order():
            logits = model(*given)
            if not logits.isfinite().all():
                return None
            found.append(logits.argmax(-1).cpu())
    return torch.cat(found)


def accuracy(found: Tensor, labels: Tensor) -> float:
    """Share of correct predictions."""
    return float((found == labels).double().mean())


def better(metrics: Mapping[str, float], chance: float, tested: int) -> bool:
    """Whether the loss is 2% below ln 2, or the test accuracy 2 standard errors above that of the most frequent class."""
    loss_learned = metrics["train_loss_nats"] < BELOW * math.log(CLASSES)
    return loss_learned or above_chance(metrics["acc_frac"], chance, tested)
