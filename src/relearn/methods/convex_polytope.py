r"""Convex polytope attack: the poisons surround the target in feature space (zhu2022, eq. 2.3, algorithm 1).

.. math:: \min_{\{x_p^{(j)}\}, \{c^{(i)}\}} \tfrac12 \sum_{i=1}^m
          \frac{\|\phi^{(i)}(x_t) - \sum_j c_j^{(i)} \phi^{(i)}(x_p^{(j)})\|^2}{\|\phi^{(i)}(x_t)\|^2}
          \quad\text{s.t.}\quad c_j^{(i)} \ge 0,\ \textstyle\sum_j c_j^{(i)} = 1,\;
          \|x_p^{(j)} - x_b^{(j)}\|_\infty \le \varepsilon

======  =====================================  ==================  =========
symbol  meaning                                code                shape
======  =====================================  ==================  =========
φ(x_p)  features of the poisons, substitute i  ``features``        (…, k, d)
φ(x_t)  features of the target                 ``target``          (…, d)
c       coefficients of substitute i           ``coefficients``    (…, k)
======  =====================================  ==================  =========

Each iteration solves the coefficients of every substitute on the detached features, then moves the poisons
with the coefficients held fixed; by the envelope theorem this is the gradient of the minimum over c.

Differs from the paper: the coefficients are solved exactly (:func:`relearn.maths.simplex.simplex_least_squares`)
instead of by projected gradient steps with an unstated stopping rule. The factor in front of the sum is not
legible in the text (½ or 1/2m); here it is ½, and the history records both the sum and the mean over substitutes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch import Tensor, nn

from relearn.methods import crafting


def loss(features: Tensor, target: Tensor, coefficients: Tensor) -> Tensor:
    """Term of one substitute in eq. 2.3: features (..., k, d), target (..., d), c (..., k) → (...)."""
    return 0.5 * crafting.relative_residual(features, target, coefficients)


def objective(features: Tensor, target: Tensor, coefficients: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """The objective in the form used by the crafting loop: solve the coefficients from a warm start, then compute the loss."""
    c = crafting.convex_coefficients(features, target, coefficients)
    return loss(features, target, c), c


def craft(
    substitutes: Iterable[nn.Module], bases: Tensor, targets: Tensor, **options: Any
) -> crafting.Crafted:
    """Craft by convex polytope; arguments, defaults and errors as in :func:`relearn.methods.crafting.craft`."""
    return crafting.craft(objective, substitutes, bases, targets, **options)
