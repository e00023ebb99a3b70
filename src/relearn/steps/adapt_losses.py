"""What `adapt` measures: losses of hidden tokens and of classes, answers, and whether they are better than a constant one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

    from relearn.data.masked_batches import TokenBatches


CLASSES = 2


def guess_error(logits: Tensor, targets: Tensor) -> Tensor:
    """Mean cross entropy in nats of hidden tokens, (K, V) and (B, n), in single precision at least."""
    from torch.nn.functional import cross_entropy

    from relearn.data.masked_batches import NONE

    return cross_entropy(logits if logits.element_size() > 2 else logits.float(), targets[targets != NONE])


def class_error(logits: Tensor, labels: Tensor) -> Tensor:
    """Mean cross entropy in nats, (B, C) and (B,), in single precision at least."""
    from torch.nn.functional import cross_entropy

    return cross_entropy(logits if logits.element_size() > 2 else logits.float(), labels)


def terms(targets: Tensor) -> Tensor:
    """How many tokens are hidden."""
    from relearn.data.masked_batches import NONE

    return (targets != NONE).sum()


def guess_loss(model: Any, batches: TokenBatches, precision: str) -> float:
    """Mean loss of all hidden tokens of a part, in nats; the same tokens at every call."""
    import torch

    total = count = 0.0
    with torch.no_grad(), mixed(batches, precision):
        for given, targets in batches.in_order():
            here = float(terms(targets))
            total, count = total + here * float(guess_error(model(*given), targets)), count + here
    return total / count


def predict(model: Any, batches: TokenBatches, precision: str) -> Tensor | None:
    """The class of each text (N,) int64 on the CPU; None where a logit is not finite."""
    import torch

    found = []
    with torch.no_grad(), mixed(batches, precision):
        for given, _ in batches.in_order():
            logits = model(*given)
            if not logits.isfinite().all():
                return None
            found.append(logits.argmax(-1).cpu())
    return torch.cat(found)


def mixed(batches: TokenBatches, precision: str) -> Any:
    """Autocast where the run has it."""
    import contextlib

    import torch

    kind = torch.device(batches.device).type
    return torch.autocast(kind, torch.bfloat16) if precision == "bf16" else contextlib.nullcontext()


def accuracy(found: Tensor, labels: Tensor) -> float:
    """The share of right answers."""
    return float((found == labels).double().mean())


def better(metrics: Mapping[str, float], chance: float, tested: int) -> bool:
    """Whether the loss is 2% below ln 2, or the test accuracy 2 standard errors above the most frequent class's."""
    error = math.sqrt(chance * (1 - chance) / tested)
    return metrics["train_loss_nats"] < 0.98 * math.log(CLASSES) or metrics["acc_frac"] > chance + 2 * error
