"""Top-1 accuracy over all samples and per class."""

from __future__ import annotations

import torch
from torch import Tensor


def accuracy(logits: Tensor, labels: Tensor) -> float:
    r"""Fraction of samples whose largest logit is their label: :math:`\frac1n |\{i : \arg\max_c z_{ic} = y_i\}|`.

    Shapes: logits (n, C), labels (n,). Of equal logits, the first counts as the largest. A sample with a NaN
    among its logits is wrong.

    Raises:
        ValueError: no samples, or shapes that do not match.
    """
    _check(logits, labels)
    return float(_right(logits, labels.to(logits.device)).mean())


def per_class_accuracy(logits: Tensor, labels: Tensor, *, classes: int) -> Tensor:
    """Accuracy (classes,) of the samples of each class, float64; NaN for a class without samples.

    Raises:
        ValueError: as :func:`accuracy`, or a label outside 0..classes-1.
    """
    _check(logits, labels)
    if int(labels.min()) < 0 or int(labels.max()) >= classes:
        found = f"{int(labels.min())} to {int(labels.max())}"
        raise ValueError(f"labels run from {found}; allowed: 0 to {classes - 1}")
    labels = labels.to(logits.device)
    right = _right(logits, labels)
    count = torch.bincount(labels, minlength=classes).double()
    return (torch.bincount(labels, weights=right, minlength=classes) / count).cpu()


def _right(logits: Tensor, labels: Tensor) -> Tensor:
    # To argmax, NaN is the largest number: a network that has diverged would be right on all of class 0.
    return ((logits.argmax(1) == labels) & ~logits.isnan().any(1)).double()


def _check(logits: Tensor, labels: Tensor) -> None:
    if logits.dim() != 2 or labels.shape != logits.shape[:1] or not len(labels):
        raise ValueError(
            f"logits {tuple(logits.shape)}, labels {tuple(labels.shape)}: allowed are (n, C) and (n,) with n > 0"
        )
