r"""The crafting loop that all poisoning attacks share: an attack is only its objective.

zhu2022, algorithm 1. From the clean bases, repeat: features of poisons and target in every substitute → the
objective and its gradient with respect to the pixels → one Adam step (no sign) → back into the ball

.. math:: \|x_p^{(j)} - x_b^{(j)}\|_\infty \le \varepsilon, \qquad 0 \le x_p^{(j)} \le 1 .

All targets are crafted in one batch per substitute. Their losses are summed and Adam works element by
element, so T targets in one call are T attacks that know nothing of each other. Substitutes are visited one
after another and their gradients added: memory holds the graph of one substitute, whatever their number or
    the iterations', and `target_batch` bounds the targets in it.

Where the text is ambiguous:

* ε is on the [0, 1] pixel scale (figure 2.2), whereas the learning rate belongs to standardised pixels x /
  std, as in the published code: a step of 0.04 moves a CIFAR-10 pixel by about 0.04 · std = 0.008. See
      `pixel_std`.
* Dropout: "in each iteration", every substitute is sampled (section 2.2.7), so the target's features are
  drawn afresh too (`target_dropout="resampled"`, 1/k more forward work); the published code draws them once
  ("fixed"). In both, every image of a batch has a mask of its own.
* No stop rule is given for the poisons: the loop runs all its iterations.
"""

from relearn.methods.crafting.ball import assert_in_ball, quantise
from relearn.methods.crafting.evaluation import evaluate
from relearn.methods.crafting.loop import Checkpoint, Crafted, craft
from relearn.methods.crafting.networks import dropout_active, frozen
from relearn.methods.crafting.objective import Objective, OnFeatures, Reading
from relearn.methods.crafting.polytope import convex_coefficients, relative_residual

__all__ = [
    "Checkpoint",
    "Crafted",
    "Objective",
    "OnFeatures",
    "Reading",
    "assert_in_ball",
    "convex_coefficients",
    "craft",
    "dropout_active",
    "evaluate",
    "frozen",
    "quantise",
    "relative_residual",
]
