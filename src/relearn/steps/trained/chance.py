r"""Whether a classifier is better than the best constant prediction.

An accuracy a on N samples is above chance p if :math:`a > p + 2\sqrt{p(1-p)/N}`, i.e. by two standard errors of the accuracy
of the constant prediction.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

ERRORS = 2.0  # standard errors above the constant prediction
BELOW = 0.98  # share of ln C below which a loss counts as learned


def most_frequent(labels: Tensor) -> float:
    """Return the accuracy of the best constant prediction."""
    return float((labels == labels.mode().values).double().mean())


def above_chance(accuracy: float, chance: float, count: int) -> bool:
    """Whether ``accuracy`` on ``count`` samples is more than :data:`ERRORS` standard errors above ``chance``."""
    return accuracy > chance + ERRORS * math.sqrt(chance * (1 - chance) / count)


def learned(loss: float, accuracy: float, labels: Tensor, classes: int) -> bool:
    """Whether the loss is 2% below ln C, or the accuracy is significantly above that of predicting the most frequent class."""
    return loss < BELOW * math.log(classes) or above_chance(accuracy, most_frequent(labels), len(labels))
