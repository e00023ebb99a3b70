r"""The crafting loop shared by all poisoning attacks, which differ only in their objective.

zhu2022, algorithm 1. From the clean bases, repeat: features of poisons and target in every substitute → the
objective and its gradient with respect to the pixels → one Adam step (no sign) → projection to the ball

.. math:: \|x_p^{(j)} - x_b^{(j)}\|_\infty \le \varepsilon, \qquad 0 \le x_p^{(j)} \le 1 .

All targets are crafted in one batch per substitute. Their losses are summed and Adam works element by
element, so T targets in one call are T independent attacks. Substitutes are processed one after the other and
their gradients added, so memory holds the graph of one substitute only; `target_batch` bounds the number of
targets in it.

Where the text is ambiguous:

* ε is on the [0, 1] pixel scale (figure 2.2), whereas the learning rate applies to standardised pixels
  x / std, as in the published code: a step of 0.04 changes a pixel by about 0.04 · std. With the published code's
  std of 0.2 that is 0.008 on CIFAR-10, with the measured one of the prepared data (0.25) 0.01. See `pixel_std`.
* Dropout: every substitute is sampled "in each iteration" (section 2.2.7), so the target's features are
  resampled as well (`target_dropout="resampled"`, 1/k more forward computation); the published code draws them
  once ("fixed"). In both cases every image of a batch has its own mask.
* No stopping rule is given for the poisons, so the loop runs all iterations.
"""

from relearn.methods.crafting.arguments import checked
from relearn.methods.crafting.ball import assert_in_ball, quantise
from relearn.methods.crafting.evaluation import evaluate
from relearn.methods.crafting.loop import Checkpoint, Crafted, craft
from relearn.methods.crafting.networks import dropout_active
from relearn.methods.crafting.objective import Objective, OnFeatures, Reading
from relearn.methods.crafting.polytope import convex_coefficients, relative_residual

__all__ = [
    "Checkpoint",
    "Crafted",
    "Objective",
    "OnFeatures",
    "Reading",
    "assert_in_ball",
    "checked",
    "convex_coefficients",
    "craft",
    "dropout_active",
    "evaluate",
    "quantise",
    "relative_residual",
]
