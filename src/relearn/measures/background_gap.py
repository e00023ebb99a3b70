r"""Reliance of a network on image backgrounds: accuracy on ImageNet-9 and its gap (Xiao et al., 2021).

A predicted class is mapped to the group :math:`g` that it belongs to, and is correct if that is the image's group.
A class without a group is wrong:

.. math::
    \mathrm{acc} = \frac1n |\{i : g(\hat y_i) = y_i\}|, \qquad
    \mathrm{gap} = \mathrm{acc}_{\text{mixed same}} - \mathrm{acc}_{\text{mixed rand}}

As in the released evaluation, the largest logit is taken over all classes, not only over those of the nine groups.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def group_accuracy(predicted: Tensor, labels: Tensor, group_of_class: Sequence[int]) -> float:
    """Fraction of images whose predicted class belongs to their group.

    Args:
        predicted: ŷ (n,), classes.
        labels: y (n,), groups from 0 on.
        group_of_class: g, the group of each class; negative for none.

    Raises:
        ValueError: shapes that do not match, no images, or a class without an entry.
    """
    if predicted.dim() != 1 or labels.shape != predicted.shape or not len(labels):
        raise ValueError(
            f"predicted {tuple(predicted.shape)}, labels {tuple(labels.shape)}: allowed are (n,) and (n,), n > 0"
        )
    low, high = int(predicted.min()), int(predicted.max())
    if not 0 <= low <= high < len(group_of_class):
        raise ValueError(f"class {low if low < 0 else high}; allowed: 0 to {len(group_of_class) - 1}")
    groups = torch.tensor(group_of_class, device=predicted.device)[predicted]
    return float((groups == labels.to(groups.device)).double().mean())


def background_gap(mixed_same: float, mixed_rand: float) -> float:
    """Accuracy lost by replacing a background of the same group by a random one, as a fraction.

    Raises:
        ValueError: an accuracy outside [0, 1].
    """
    for name, value in (("mixed_same", mixed_same), ("mixed_rand", mixed_rand)):
        if not 0 <= value <= 1:
            raise ValueError(f"{name} is {value}; allowed: a fraction, 0 to 1")
    return mixed_same - mixed_rand
