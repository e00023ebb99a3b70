r"""Ensemble feature collision: every poison is moved towards the target itself (zhu2022, eq. 2.2).

.. math:: L_{FC} = \sum_{i=1}^m \sum_{j=1}^k
          \frac{\|\phi^{(i)}(x_p^{(j)}) - \phi^{(i)}(x_t)\|^2}{\|\phi^{(i)}(x_t)\|^2}

======  =====================================  ==================  =========
symbol  meaning                                code                shape
======  =====================================  ==================  =========
φ(x_p)  features of the poisons, substitute i  ``features``        (…, k, d)
φ(x_t)  features of the target                 ``target``          (…, d)
======  =====================================  ==================  =========

The text states no constraint with the equation; the experiments use the ball of the convex polytope attack, and so does :func:`craft`.
The text calls this equation the special case c = 1/k of the convex polytope attack. That is wrong: the mean of the poisons may match
the target although none of them does. For each substitute, CP(c = 1/k) ≤ L_FC / 2k holds.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch import Tensor, nn

from relearn.methods import crafting


def loss(features: Tensor, target: Tensor) -> Tensor:
    """Term of one substitute in L_FC: features (..., k, d), target (..., d) → (...)."""
    squared = (features - target.unsqueeze(-2)).square().sum((-2, -1))
    return squared / target.square().sum(-1)


def objective(features: Tensor, target: Tensor, coefficients: Tensor | None = None) -> tuple[Tensor, None]:
    """The objective in the form used by the crafting loop; there are no coefficients."""
    return loss(features, target), None


def craft(
    substitutes: Iterable[nn.Module], bases: Tensor, targets: Tensor, **options: Any
) -> crafting.Crafted:
    """Craft by feature collision; arguments, defaults and errors as in :func:`relearn.methods.crafting.craft`."""
    return crafting.craft(objective, substitutes, bases, targets, **options)
