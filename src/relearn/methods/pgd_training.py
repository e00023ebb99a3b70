r"""PGD adversarial training: K - 1 ascent steps, then the parameter gradient at the last perturbation only.

Madry et al. 2018, in zhu2022's equations 3.1 and 3.2:

.. math::
    g = \nabla_\theta L(f_\theta(X + \delta_{K-1}), y), \qquad
    \delta_{t+1} = \Pi_{\|\delta\|_F \le \varepsilon}\big(\delta_t + \alpha\, g_t / \|g_t\|_F\big)

=======  ============================================  ===============
symbol   meaning                                       code
=======  ============================================  ===============
K        passes, one more than ascent steps            ``passes``
α, ε, m  as in :mod:`relearn.methods.perturbation`     ``step_size`` …
=======  ============================================  ===============

The ascent uses the network in training mode, with dropout; under ``reuse_masks`` its masks are those of the training pass. The ascent
computes no parameter gradients and does not update the running statistics of batch normalisation. (In
:mod:`relearn.methods.adversarial_training`, the defence of chapter 2, the attack runs in eval mode.)

Facts (tests/methods/test_pgd_training.py): on a linear model δ is α(K - 1) times the normalised weight vector, clipped to norm ε.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from relearn.methods.adversarial_base import AdversarialBase, frozen_running_statistics
from relearn.methods.fit import Loss, plain_gradient
from relearn.methods.fit_arguments import scalar_loss


@dataclass
class PGDTraining(AdversarialBase):
    """A gradient strategy for :func:`relearn.methods.fit.fit`; arguments: :class:`~relearn.methods.adversarial_base.AdversarialBase`.

    A step makes ``passes - 1`` ascent steps; with 1 pass it trains on the initial perturbation.
    """

    def __call__(self, model: nn.Module, loss: Loss, batch: Sequence[Any]) -> Tensor:
        """Write g to the parameters; returns the loss of the last pass."""
        if self.ball.is_point:
            return plain_gradient(model, loss, batch)
        rest, masks = batch[1:], self.masks()
        with self.space.inside(model, batch) as field:
            delta = self.start(field)
            for t in range(self.passes - 1):
                with masks.again() if t else masks.drawing(), frozen_running_statistics(model):
                    value = scalar_loss(loss(field.output(delta), *rest))
                    (gradient,) = torch.autograd.grad(value, field.point, allow_unused=True)
                if gradient is None:
                    allowed = "a loss of the network's output at X + δ"
                    raise ValueError(f"loss: does not depend on the perturbed inputs (allowed: {allowed})")
                delta = self.ascend(field, delta, gradient)
            with masks.again() if self.passes > 1 else masks.drawing():
                value = scalar_loss(loss(field.output(delta), *rest))
                value.backward()
            field.gradient()
            field.finish()
        return value.detach()
