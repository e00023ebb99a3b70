r"""Gradient matching, "Witches' Brew" (Geiping et al., ICLR 2021). Not in zhu2022.

.. math:: \min_{\{x_p^{(j)}\}} \sum_{i=1}^m 1 - \cos\!\Big( \nabla_{\theta^{(i)}} L^{(i)}(x_t, y_p),\;
          \tfrac1k \sum_{j=1}^k \nabla_{\theta^{(i)}} L^{(i)}(x_p^{(j)}, y_p) \Big)
          \quad\text{s.t.}\quad \|x_p^{(j)} - x_b^{(j)}\|_\infty \le \varepsilon

=======  ========================================================  ===========================  ======
symbol   meaning                                                   code                         shape
=======  ========================================================  ===========================  ======
y_p      class of the poisons, intended for the target             ``poison_class``             ()
L        cross-entropy in substitute i (evaluation mode)           ``cross_entropy``            (B,)
∇L(x_t)  gradient of the target's loss for y_p                     ``target[0]``                (T, P)
mean ∇L  mean gradient of the poisons' loss for their own label    ``poisons[0]``               (T, P)
=======  ========================================================  ===========================  ======

An update of the victim on the poisons then also trains it to assign y_p to the target. Each target has its own poisons and therefore
its own cosine.

`parameters="all"`: every parameter of the network. The gradient with respect to the pixels is a second derivative through the
parameters' gradient (always in the images' precision); a pass takes as many targets as fit into GRADIENTS_AT_ONCE numbers. `"head"`:
the last linear layer alone, the only layer that a victim trains in the transfer setting. For z = W φ + b its gradient has a closed
form, :math:`\nabla_{W,b} L = r\,[\phi; 1]^\top` with :math:`r = \mathrm{softmax}(z) - e_{y_p}`, so an iteration costs no more
than in the attacks on features.

Two options are the publication's and off by default. `restarts`: craft from several starts and keep, for each target, the poisons of the
smallest final loss. `augment`: while crafting, each poison is seen by each substitute under a random crop after zero padding and a
random flip, new in every iteration, through which the gradient reaches the pixels; final losses are those of the poisons themselves.

Differs from the publication: Adam on the gradient itself, not on its sign; crops are of whole pixels, not interpolated; no learning-rate
decay; the losses of the substitutes are summed; dropout may stay on; budget and number of iterations are those of zhu2022's attacks,
so that all attacks are compared at equal cost. The cross-entropy is written so that r stays accurate when a network is confident of y_p.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn.functional import logsigmoid

from relearn.methods import crafting
from relearn.methods.augmentation import Augment, crop_and_flip
from relearn.methods.crafting.restarts import craft_restarted

PARAMETERS = ("all", "head")
GRADIENTS_AT_ONCE = 2**24  # numbers; larger batches are no faster, and the graph of one target is large


class _Matching(crafting.Objective):
    def __init__(self, poison_class: int, augment: Augment | None = None) -> None:
        self.poison_class, self.augment = poison_class, augment

    def seen(self, poisons: Tensor) -> Tensor:
        """The poisons (T, k, C, H, W) as a substitute sees them: augmented while they are crafted."""
        if self.augment is None or not poisons.requires_grad:
            return poisons
        # the global generator, because the crafting loop seeds it and keeps its state
        return self.augment(poisons.flatten(0, 1), torch.default_generator).unflatten(0, poisons.shape[:2])

    def read_target(self, net: nn.Module, targets: Tensor) -> crafting.Reading:
        return self.read(net, targets.unsqueeze(1))  # the mean gradient of one image

    def loss(
        self, poisons: crafting.Reading, target: crafting.Reading, last: Tensor | None
    ) -> tuple[Tensor, None]:
        return 1 - cosine(poisons[0], target[0]), None


class AllParameters(_Matching):
    """Gradients by automatic differentiation; for networks images → logits that `torch.func.vmap` supports."""

    needs, folds, at_once = (), False, 1

    def read(self, net: nn.Module, poisons: Tensor) -> crafting.Reading:
        def mean_loss(parameters: dict[str, Tensor], images: Tensor) -> Tensor:
            return cross_entropy(functional_call(net, parameters, (images,)), self.poison_class).mean()

        parameters, poisons = {name: one.detach() for name, one in net.named_parameters()}, self.seen(poisons)
        # all targets in one pass, each with its own gradient
        with torch.enable_grad(), torch.autocast(poisons.device.type, enabled=False):
            found = vmap(grad(mean_loss), in_dims=(None, 0), randomness="different")(parameters, poisons)
        return [torch.cat([one.flatten(1) for one in found.values()], 1)]


class Head(_Matching):
    """Gradients in closed form; for networks with `features` and a `head` that is an ``nn.Linear`` with a bias."""

    needs = ("features", "head")

    def read(self, net: Any, poisons: Tensor) -> crafting.Reading:
        if not isinstance(net.head, nn.Linear) or net.head.bias is None:
            found = type(net.head).__name__ + (" without a bias" if isinstance(net.head, nn.Linear) else "")
            raise TypeError(f"head of a {type(net).__name__}: found {found}; allowed: nn.Linear with a bias")
        features = self.layers(net, self.seen(poisons).flatten(0, 1))[0].to(poisons.dtype)
        with torch.autocast(poisons.device.type, enabled=False):  # r needs full precision
            residuals = softmax_minus_label(net.head(features), self.poison_class)
            inputs = torch.cat([features, torch.ones_like(features[:, :1])], 1)
            residuals, inputs = (one.unflatten(0, poisons.shape[:2]) for one in (residuals, inputs))
            return [(residuals.mT @ inputs).flatten(1) / poisons.shape[1]]


def cross_entropy(logits: Tensor, label: int) -> Tensor:
    """-log softmax(logits)_label = log(1 + exp(logsumexp of the others - logit)): (B, C) → (B,)."""
    logit, others = _split(logits, label)
    return -logsigmoid(logit - others.logsumexp(1))


def softmax_minus_label(logits: Tensor, label: int) -> Tensor:
    """Gradient of the cross-entropy w.r.t. the logits, without the cancellation of p_label - 1: (B, C) → (B, C)."""
    logit, others = _split(logits, label)
    missed = torch.sigmoid(others.logsumexp(1) - logit).unsqueeze(1)  # 1 - p_label
    rest = missed * others.softmax(1)
    return torch.cat([rest[:, :label], -missed, rest[:, label:]], 1)


def cosine(a: Tensor, b: Tensor) -> Tensor:
    """Cosine of vectors (..., P) → (...), accurate at any scale; 0 if one of them is zero."""
    a, b = _near_one(a), _near_one(b)
    lengths = torch.linalg.vector_norm(a, dim=-1) * torch.linalg.vector_norm(b, dim=-1)
    return (a * b).sum(-1) / lengths.clamp_min(1e-6)  # the product is 1 or more unless one of them is zero


def _near_one(vector: Tensor) -> Tensor:
    """The vector divided by its largest absolute entry; otherwise squared gradients of a confident network would underflow in float32."""
    largest = vector.detach().abs().amax(-1, keepdim=True)
    return vector / torch.where(largest > 0, largest, 1)


def _split(logits: Tensor, label: int) -> tuple[Tensor, Tensor]:
    if not 0 <= label < logits.shape[1]:
        raise ValueError(f"poison_class is {label}; allowed: 0 to {logits.shape[1] - 1}")
    return logits[:, label], torch.cat([logits[:, :label], logits[:, label + 1 :]], 1)


def objective(
    poison_class: int, parameters: str = "all", augment: Augment | None = None
) -> crafting.Objective:
    """The objective in the form used by the crafting loop.

    Raises:
        ValueError: `parameters` that are not "all" or "head".
    """
    if parameters not in PARAMETERS:
        raise ValueError(f"parameters is {parameters!r}; allowed: {', '.join(PARAMETERS)}")
    return (AllParameters if parameters == "all" else Head)(poison_class, augment)


def craft(
    substitutes: Iterable[nn.Module],
    bases: Tensor,
    targets: Tensor,
    *,
    poison_class: int,
    parameters: str = "all",
    restarts: int = 1,
    augment: Mapping[str, Any] | None = None,
    **options: Any,
) -> crafting.Crafted:
    """Craft by gradient matching.

    `poison_class` (the label of the bases), `parameters`, `restarts` and `augment` (`crop_padding`, 0 for no crop, and `flip`) as
    above; other arguments, defaults and errors as in :func:`relearn.methods.crafting.craft`.
    """
    look = crop_and_flip(augment["crop_padding"], augment["flip"]) if augment else None
    attack = objective(poison_class, parameters, look)
    substitutes = crafting.checked(substitutes, bases, targets, attack.needs)
    if parameters == "all":
        largest = max(sum(one.numel() for one in net.parameters()) for net in substitutes)
        attack.at_once = max(1, GRADIENTS_AT_ONCE // max(largest, 1))
    return craft_restarted(attack, substitutes, bases, targets, restarts=restarts, **options)
