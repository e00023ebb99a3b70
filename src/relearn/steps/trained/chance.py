r"""Whether a classifier is better than the best constant answer.

An accuracy a on N samples is above chance p if :math:`a > p + 2\sqrt{p(1-p)/N}`: two standard errors of the constant
answer's accuracy.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

ERRORS = 2.0  # standard errors above the constant answer
BELOW = 0.98  # of the entropy, for a loss that counts as learned


def most_frequent(labels: Tensor) -> float:
    """Return the accuracy of the best constant answer."""
    return float((labels == labels.mode().values).double().mean())


def above_chance(accuracy: float, chance: float, count: int) -> bool:
    """Whether ``accuracy`` on ``count`` samples is :data:`ERRORS` standard errors above ``chance``."""
    return accuracy > chance + ERRORS * math.sqrt(chance * (1 - chance) / count)


def learned(loss: float, accuracy: float, labels: Tensor, classes: int) -> bool:
    """Whether the loss is 2% below ln C, or the accuracy above that of the most frequent class."""
    return loss < BELOW * math.log(classes) or above_chance(accuracy, most_frequent(labels), len(labels))
