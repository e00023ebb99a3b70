r"""Bullseye polytope: the mean of the poisons' features matches the target (Aghakhani et al., EuroS&P 2021). Not in zhu2022.

.. math:: \min_{\{x_p^{(j)}\}} \tfrac12 \sum_{i=1}^m
          \frac{\|\phi^{(i)}(x_t) - \tfrac1k \sum_{j=1}^k \phi^{(i)}(x_p^{(j)})\|^2}{\|\phi^{(i)}(x_t)\|^2}
          \quad\text{s.t.}\quad \|x_p^{(j)} - x_b^{(j)}\|_\infty \le \varepsilon

======  =====================================  ==================  =========
symbol  meaning                                code                shape
======  =====================================  ==================  =========
φ(x_p)  features of the poisons, substitute i  ``features``        (…, k, d)
φ(x_t)  features of the target                 ``target``          (…, d)
======  =====================================  ==================  =========

It is the convex polytope attack (zhu2022, eq. 2.3) with all coefficients fixed at 1/k: the target lies
at the centre of the polytope rather than anywhere in it, so it stays inside in other networks. No
coefficients are solved for.

Differs from the publication: one target image; the sum over substitutes instead of their mean (Adam is almost invariant to the
factor); features of one Dropout mask, not averaged over several; the budget, optimiser and number of iterations are those of
zhu2022's attacks, so that all attacks are compared at equal cost.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch import Tensor, nn

from relearn.methods import crafting


def loss(features: Tensor, target: Tensor) -> Tensor:
    """Term of one substitute: features (..., k, d), target (..., d) → (...)."""
    # the mean of the differences avoids cancellation between large features
    residual = (features - target.unsqueeze(-2)).mean(-2)
    return 0.5 * residual.square().sum(-1) / target.square().sum(-1)


def objective(features: Tensor, target: Tensor, coefficients: Tensor | None = None) -> tuple[Tensor, None]:
    """The objective in the form used by the crafting loop; there are no coefficients."""
    return loss(features, target), None


def craft(
    substitutes: Iterable[nn.Module], bases: Tensor, targets: Tensor, **options: Any
) -> crafting.Crafted:
    """Craft by bullseye polytope; arguments, defaults and errors as in :func:`relearn.methods.crafting.craft`."""
    return crafting.craft(objective, substitutes, bases, targets, **options)
