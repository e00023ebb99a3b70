"""Prediction restricted to some of a network's classes, for accuracy on ImageNet-A and -R."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def masked_argmax(logits: Tensor, allowed: Sequence[int]) -> Tensor:
    r"""Return the allowed class with the largest logit, :math:`\hat y_i = \arg\max_{c \in A} z_{ic}`, as an index among all classes.

    With all classes allowed it is ``logits.argmax(1)``. If the label is allowed, the restriction cannot make a correct prediction
    wrong.

    Shapes: logits (n, C) → (n,) int64. A sample with a NaN among its allowed logits has no largest one: -1.

    Args:
        logits: z.
        allowed: A, class indices in any order.

    Raises:
        ValueError: logits of another shape, no allowed class, or an invalid or repeated one.
    """
    if logits.dim() != 2:
        raise ValueError(f"logits: shape {tuple(logits.shape)}; allowed: (n, C)")
    if not allowed or len(set(allowed)) < len(allowed):
        raise ValueError(
            f"allowed: {len(allowed)} classes, {len(set(allowed))} different; allowed: one or more, each once"
        )
    if not 0 <= min(allowed) <= max(allowed) < logits.shape[1]:
        wrong = min(allowed) if min(allowed) < 0 else max(allowed)
        raise ValueError(f"allowed: class {wrong}; allowed: 0 to {logits.shape[1] - 1}")
    numbers = torch.tensor(sorted(allowed), device=logits.device)
    among = logits[:, numbers]
    return numbers[among.argmax(1)].masked_fill(among.isnan().any(1), -1)
