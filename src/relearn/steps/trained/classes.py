"""Classification: the loss of a training, and the predictions of a network."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor


def class_error(logits: Tensor, labels: Tensor) -> Tensor:
    """Mean cross entropy in nats of (B, C) logits and (B,) labels, in single precision or better; C counts classes or candidates."""
    from torch.nn.functional import cross_entropy

    return cross_entropy(logits if logits.element_size() > 2 else logits.float(), labels)


def predict(model: Any, batches: Any, precision: str) -> Tensor | None:
    """Predicted class of each sample of ``batches.in_order()``, (N,) int64 on the CPU; None if a logit is not finite."""
    import torch

    found = []
    kind = next(model.parameters()).device.type
    with torch.no_grad(), torch.autocast(kind, torch.bfloat16, enabled=precision == "bf16"):
        for inputs, _ in batches.in_order():
            logits = model(*inputs)
            if not logits.isfinite().all():
                return None
            found.append(logits.argmax(-1).cpu())
    return torch.cat(found)


def share(found: Tensor, labels: Tensor) -> float:
    """Share of correct predictions."""
    return float((found == labels).double().mean())
