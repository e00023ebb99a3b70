r"""Adversarial training: each step's gradient is taken at the worst-case images that an attack finds around the batch.

Madry et al. 2018 (arXiv 1706.06083, eq. 2.1); zhu2022, section 2.3.3, as a defence against poisons:

.. math:: \min_\theta L_\theta(X + \delta^*), \qquad \delta^* = \arg\max_{\|\delta\|_\infty \le \varepsilon} L_\theta(X + \delta)

The text of zhu2022 is truncated after "≤", so ε, the number of steps and their size are unknown. **Our choice**: ε = 8/255 with 7
steps of 2/255, the setting of Madry et al. for CIFAR-10 and the usual one since; all three are arguments. The maximum is found by
:func:`relearn.methods.pgd.ascend` from one random start.

The attack runs in **eval** mode, the training step in the mode set by the loop:

- the running statistics of batch normalisation are updated once per step, by the batch the step learns from, and not by 7
  intermediate ones;
- in eval mode the images of a batch do not interact, so each gets the worst-case perturbation of the network as deployed, without
  dropout.

The drawback: the training step then uses batch statistics, for which the perturbations were not optimised. For a freshly initialised
network, whose running statistics are meaningless, the first attacks are weak; here training starts from a trained network.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from relearn.maths.eval_mode import frozen
from relearn.methods.fit_arguments import scalar_loss
from relearn.methods.pgd import ascend, random_starts

Loss = Callable[..., Tensor]


@dataclass(frozen=True)
class AdversarialGradient:
    """A gradient strategy for :func:`relearn.methods.fit.fit`, in place of ``plain_gradient``.

    Args:
        eps, step_size: on the [0, 1] pixel scale.
        steps: steps of the attack; 0 uses the random start alone.
        random_start: False starts at the images; with ``steps=0`` this is plain back-propagation.

    The random starts come from torch's global CPU generator, which ``fit`` seeds for every epoch, so a resumed training draws the same
    numbers as an uninterrupted one.

    Raises:
        ValueError: a setting is out of range.
    """

    eps: float = 8 / 255
    step_size: float = 2 / 255
    steps: int = 7
    random_start: bool = True

    def __post_init__(self) -> None:
        if not 0 <= self.eps <= 1 or not 0 <= self.step_size <= 2:
            found = f"eps is {self.eps}, step_size {self.step_size}"
            raise ValueError(f"{found}; allowed: 0 to 1 and 0 to 2, in [0,1] pixel scale (8/255, not 8)")
        if self.steps < 0:
            raise ValueError(f"steps is {self.steps}; allowed: at least 0")

    def __call__(self, model: nn.Module, loss: Loss, batch: Sequence[Tensor]) -> Tensor:
        """Write the gradient of ``loss(model(x + δ*), *rest)`` for ``batch = (x, *rest)`` to the parameters; returns the loss."""
        images, *rest = batch
        worst = self.perturb(model, lambda logits: loss(logits, *rest), images)
        value = scalar_loss(loss(model(worst), *rest))
        value.backward()
        return value.detach()

    def perturb(self, model: nn.Module, objective: Callable[[Tensor], Tensor], images: Tensor) -> Tensor:
        """x + δ* for images (B, C, H, W) in [0, 1]; leaves the network unchanged.

        Raises:
            ValueError: images that are no floats in [0, 1], up to rounding; clipping would change them.
        """
        if not images.is_floating_point() or not bool(((images > -1e-5) & (images < 1 + 1e-5)).all()):
            found = f"{images.dtype}, {float(images.min()):.4g} to {float(images.max()):.4g}"
            raise ValueError(f"images: found {found} (allowed: floats in [0, 1]; normalise in the network)")
        start = random_starts(images, self.eps) if self.random_start else images
        with frozen(model):
            worst = ascend(
                model,
                objective,
                images,
                start,
                eps=self.eps,
                step_size=self.step_size,
                steps=self.steps,
            )
        return worst.detach()
