"""The loss of masked language modelling: cross entropy on the masked tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from relearn.steps.trained.classes import class_error

if TYPE_CHECKING:
    from torch import Tensor

    from relearn.data.masked_batches import TokenBatches


def guess_error(logits: Tensor, targets: Tensor) -> Tensor:
    """Mean cross entropy in nats over the masked tokens, from logits (K, V) and targets (B, n), in single precision at least."""
    from relearn.data.masked_batches import NONE

    return class_error(logits, targets[targets != NONE])


def terms(targets: Tensor) -> Tensor:
    """Return the number of masked tokens."""
    from relearn.data.masked_batches import NONE

    return (targets != NONE).sum()


def guess_loss(model: Any, batches: TokenBatches, precision: str) -> float:
    """Return the mean loss over all masked tokens of a part, in nats; every call masks the same tokens."""
    import torch

    total = count = 0.0
    kind = torch.device(batches.device).type
    with torch.no_grad(), torch.autocast(kind, torch.bfloat16, enabled=precision == "bf16"):
        for given, targets in batches.in_order():
            here = float(terms(targets))
            total, count = total + here * float(guess_error(model(*given), targets)), count + here
    return total / count
