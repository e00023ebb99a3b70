r"""Adversarial training: each step's gradient is taken on the worst images that an attack finds around the batch.

Madry et al. 2018 (arXiv 1706.06083, eq. 2.1); zhu2022, section 2.3.3, as a defence against poisons:

.. math:: \min_\theta L_\theta(X + \delta^*), \qquad \delta^* = \arg\max_{\|\delta\|_\infty \le \varepsilon} L_\theta(X + \delta)

The text of zhu2022 is lost behind "≤", and with it ε, the number of steps and their size. **Our choice**: ε = 8/255 with 7 steps of
2/255, the setting of Madry et al. for CIFAR-10 and since then the usual one, so that the defence is the one which readers of 2019
would have meant; the three are arguments. The maximum is found by :func:`relearn.methods.pgd.ascend` from one random start.

Mode of the network. The attack runs in **eval** mode, the step in the mode that the loop has set:

- the running statistics of batch normalisation move once a step, by the batch that the step learns from, and not by 7 half-made ones;
- in eval mode no image of a batch acts on another one, so that each gets its own worst perturbation, of the network as it will be
  used, without Dropout.

The price: in training the images meet batch statistics, for which they were not made. With a network whose running statistics mean
nothing yet (a fresh one) the first attacks are weak; here training starts from a trained network.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from relearn.methods.pgd import ascend, attacked, random_starts

Loss = Callable[..., Tensor]


@dataclass(frozen=True)
class AdversarialGradient:
    """A gradient strategy for :func:`relearn.methods.fit.fit`, in place of ``plain_gradient``.

    Args:
        eps, step_size: in [0,1] pixel scale.
        steps: of the attack; 0 leaves the random start.
        random_start: False starts at the images; with ``steps`` 0 this is plain back-propagation.

    The starts come from torch's global generator on the CPU, which ``fit`` seeds for every epoch: a resumed training draws what the
    uninterrupted one would have drawn.

    Raises:
        ValueError: a number out of range.
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
        """Leave the gradient of ``loss(model(x + δ*), *rest)`` for ``batch = (x, *rest)`` in the parameters; its value."""
        images, *rest = batch
        worst = self.perturb(model, lambda logits: loss(logits, *rest), images)
        value = loss(model(worst), *rest)
        value.backward()
        return value.detach()

    def perturb(self, model: nn.Module, objective: Callable[[Tensor], Tensor], images: Tensor) -> Tensor:
        """x + δ* for images (B, C, H, W) in [0, 1]; the network is left as it was."""
        start = random_starts(images, self.eps) if self.random_start else images
        with attacked(model):
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
