r"""Convex polytope attack on several layers at once, for victims trained end to end (zhu2022, eq. 2.4).

.. math:: \min_{\{x_p^{(j)}\}, \{c_l^{(i)}\}} \sum_{l=1}^n \sum_{i=1}^m
          \frac{\|\phi_{1:l}^{(i)}(x_t) - \sum_j c_{l,j}^{(i)} \phi_{1:l}^{(i)}(x_p^{(j)})\|^2}
               {\|\phi_{1:l}^{(i)}(x_t)\|^2}
          \quad\text{s.t.}\quad c_{l,j}^{(i)} \ge 0,\ \textstyle\sum_j c_{l,j}^{(i)} = 1,\;
          \|x_p^{(j)} - x_b^{(j)}\|_\infty \le \varepsilon

=============  ===========================================  ========================  ===========
symbol         meaning                                      code                      shape
=============  ===========================================  ========================  ===========
φ_{1:l}(x_p)   poisons after stage l of a substitute        ``poisons[l - 1]``        (T, k, d_l)
φ_{1:l}(x_t)   target after stage l                         ``target[l - 1]``         (T, d_l)
c_l            coefficients of layer l and substitute       ``coefficients[:, l - 1]``  (T, L, k)
=============  ===========================================  ========================  ===========

`form="paper"`: the networks are split where they halve the resolution (three or four stages). The outputs of all stages but the
last are flattened without pooling, d_l = C_l·H_l·W_l; the last one is pooled and gives the penultimate features. Each layer of each
substitute has its own coefficients, which are solved exactly.

`form="as_released"`: the computation of the published code, which differs in three ways. It uses only two layers: the un-pooled
output of the second-to-last block of the last stage, and the penultimate features. It has a factor ½, which eq. 2.4 lacks (Adam is
almost invariant to it). And because of a broadcasting error its second term is not a polytope distance: the coefficients have two axes
too many and sum to one, so each poison is compared with the target separately. The loss is

.. math:: L = \tfrac12 \frac{\|h(x_t) - \sum_j c_j h(x_p^{(j)})\|^2}{\|h(x_t)\|^2}
            + \tfrac12 \sum_j \frac{\|\phi(x_t) - \phi(x_p^{(j)})\|^2}{\|\phi(x_t)\|^2} ,

whose second term is half of a feature collision (eq. 2.2) without coefficients; only the coefficients of h are stored. The published
code does this for residual networks, this module for every network. If the last stage has a single block (networks of reduced depth),
h is the output of the previous stage.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from relearn.methods import crafting

FORMS = ("paper", "as_released")


class Paper(crafting.Objective):
    """Eq. 2.4 as printed; for networks with `stages(images) -> [(B, C_l, H_l, W_l), ...]`."""

    needs = ("stages",)

    def layers(self, net: Any, images: Tensor) -> crafting.Reading:
        *inner, last = net.stages(images)
        return [*(one.flatten(1) for one in inner), last.mean((2, 3))]

    def loss(
        self, poisons: crafting.Reading, target: crafting.Reading, last: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        found = [
            crafting.convex_coefficients(a, t, None if last is None else last[:, layer])
            for layer, (a, t) in enumerate(zip(poisons, target))
        ]
        terms = [crafting.relative_residual(a, t, c) for a, t, c in zip(poisons, target, found)]
        return torch.stack(terms).sum(0), torch.stack(found, 1)


class AsReleased(crafting.Objective):
    """The computation of the published code; for networks with a `body` of stages, and `stages(images)`."""

    needs = ("stages", "body")

    def layers(self, net: Any, images: Tensor) -> crafting.Reading:
        inner, last = second_to_last_block(net, images)
        return [inner.flatten(1), last.mean((2, 3))]

    def loss(
        self, poisons: crafting.Reading, target: crafting.Reading, last: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        c = crafting.convex_coefficients(poisons[0], target[0], None if last is None else last[:, 0])
        inner = crafting.relative_residual(poisons[0], target[0], c)
        collisions = (poisons[1] - target[1].unsqueeze(1)).square().sum((1, 2)) / target[1].square().sum(1)
        return 0.5 * (inner + collisions), c.unsqueeze(1)


def second_to_last_block(net: Any, images: Tensor) -> tuple[Tensor, Tensor]:
    """Un-pooled outputs (B, C, H, W) of the second-to-last block and of the last stage, from one pass.

    Blocks are the modules of a stage whose class is not one of torch's own. Transitions, poolings and layers after the last block
    (DenseNet121, MobileNetV2) do not count.
    """
    blocks = [one for one in net.body[-1] if not type(one).__module__.startswith("torch.")]
    kept: list[Tensor] = []
    if len(blocks) < 2:
        outputs = net.stages(images)
        return outputs[-2], outputs[-1]
    hook = blocks[-2].register_forward_hook(lambda block, inputs, output: kept.append(output))
    try:
        last = net.stages(images)[-1]
    finally:
        hook.remove()
    return kept[0], last


def objective(form: str) -> crafting.Objective:
    """The objective in the form used by the crafting loop.

    Raises:
        ValueError: a form that is not "paper" or "as_released".
    """
    if form not in FORMS:
        raise ValueError(f"form is {form!r}; allowed: {', '.join(FORMS)}")
    return Paper() if form == "paper" else AsReleased()


def craft(
    substitutes: Iterable[nn.Module], bases: Tensor, targets: Tensor, *, form: str = "paper", **options: Any
) -> crafting.Crafted:
    """Craft on several layers; `form` as above, other arguments, defaults and errors as in :func:`relearn.methods.crafting.craft`."""
    return crafting.craft(objective(form), substitutes, bases, targets, **options)
