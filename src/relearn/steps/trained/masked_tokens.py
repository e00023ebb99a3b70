"""The loss of masked language modelling: cross entropy on the masked tokens."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

    from relearn.data.masked_batches import TokenBatches


def guess_error(logits: Tensor, targets: Tensor) -> Tensor:
    """Mean cross entropy in nats over the masked tokens, from logits (K, V) and targets (B, n), in single precision at least."""
    from torch.nn.functional import cross_entropy

    from relearn.data.masked_batches import NONE

    return cross_entropy(logits if logits.element_size() > 2 else logits.float(), targets[targets != NONE])


def terms(targets: Tensor) -> Tensor:
    """Return the number of masked tokens."""
    from relearn.data.masked_batches import NONE

    return (targets != NONE).sum()


def guess_loss(model: Any, batches: TokenBatches, precision: str) -> float:
    """Return the mean loss over all masked tokens of a part, in nats; every call masks the same tokens."""
    import torch

    total = count = 0.0
    with torch.no_grad(), autocast(batches, precision):
        for given, targets in batches.in_order():
            here = float(terms(targets))
            total, count = total + here * float(guess_error(model(*given), targets)), count + here
    return total / count


def autocast(batches: TokenBatches, precision: str) -> Any:
    """Return autocast to bfloat16 on the batches' device if ``precision`` is bf16, otherwise a null context."""
    import torch

    kind = torch.device(batches.device).type
    return torch.autocast(kind, torch.bfloat16) if precision == "bf16" else contextlib.nullcontext()
