r"""FreeLB: average the parameter gradients of all K ascent passes; K backward passes give a K times larger virtual batch.

zhu2022, algorithm 3 and equation 3.3 (Zhu et al. 2020, arXiv 1909.11764), for a batch 𝓑 and its perturbations
(:mod:`relearn.methods.perturbation`):

.. math::
    g = \frac1K \sum_{t=0}^{K-1} \mathbb E_{(Z,y) \in \mathcal B}\, \nabla_\theta L(f_\theta(X + \delta_t), y), \qquad
    \delta_{t+1} = \Pi_{\|\delta\|_F \le \varepsilon}\Big(\delta_t + \alpha\,
    \frac{\nabla_\delta L(f_\theta(X + \delta_t), y)}{\|\nabla_\delta L(f_\theta(X + \delta_t), y)\|_F}\Big)

Both gradients come from one backward pass. With ``reuse_masks`` all K passes use the dropout masks of the first (equation 3.4).

=======  =====================  =====================  ================================================================
symbol   meaning                code                   the authors' code
=======  =====================  =====================  ================================================================
K        passes                 ``passes``             BERT and ALBERT: adv_steps; RoBERTa: adv_steps + 1
α        step                   ``step_size``          adv_lr
ε        radius                 ``eps``, ``project``   ALBERT: adv_max_norm; RoBERTa: max_norm; 0 there: no projection
m        magnitude of δ_0       ``start_norm``         ALBERT: adv_init_mag; RoBERTa: rand_init_mag (text: ε); 0: zero
-        padding                ``mask``               ``start``
=======  =====================  =====================  ================================================================

Facts (tests/methods/test_freelb.py): g equals autograd's gradient on the K-fold virtual batch with the same δ and masks; K = 1 from
zero is plain back-propagation.

The last ascent of the algorithm computes a δ that is never used and is skipped, so there are K - 1 ascents. The running statistics of
batch normalisation are updated in the first pass only.

``clean_first``: the first pass is at X itself. Its gradient gives the step from δ_0 to δ_1, so the clean samples contribute one of the
K terms.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from relearn import torchvision_schema
from relearn.methods.adversarial_base import (
    AdversarialBase,
    Field,
    frozen_running_statistics,
    frozen_wherever_called,
)
from relearn.methods.embedding_space import Lookup, tokens_of
from relearn.methods.fit import Loss, plain_gradient
from relearn.methods.fit_arguments import scalar_loss
from relearn.methods.perturbation import Ball

# Users of this module import transformers' models next, which import torchvision.
torchvision_schema.declare()


@dataclass
class FreeLB(AdversarialBase):
    """A gradient strategy for :func:`relearn.methods.fit.fit`: algorithm 3.

    Args:
        clean_first: the first pass is not perturbed.
        watch: callback ``watch(t, δ_t)``, called before pass t = 0, 1, …

    Further arguments and errors: :class:`~relearn.methods.adversarial_base.AdversarialBase`.
    """

    clean_first: bool = False
    watch: Callable[[int, Tensor], object] | None = None

    def __call__(self, model: nn.Module, loss: Loss, batch: Sequence[Any]) -> Tensor:
        """Write g to the parameters; returns the mean loss of the passes. ``batch`` is ``(inputs, *rest)``, see the space."""
        if self.ball.is_point:
            return plain_gradient(model, loss, batch)
        with self.space.inside(model, batch) as field:
            return self.run_passes(model, lambda delta: loss(field.output(delta), *batch[1:]), field)

    def run_passes(
        self, model: nn.Module | None, objective: Callable[[Tensor], Tensor], field: Field
    ) -> Tensor:
        """Run the K passes of a scalar ``objective(δ)``."""
        masks, delta = self.masks(), self.start(field)
        total: Tensor | float = 0.0
        for t in range(self.passes):
            place = torch.zeros_like(delta) if self.clean_first and t == 0 else delta
            if self.watch:
                self.watch(t, place)
            with masks.again() if t else masks.drawing(), self._once(model, t):
                value = scalar_loss(objective(place)) / self.passes
                value.backward()
            total, gradient = total + value.detach(), field.gradient()
            if t + 1 < self.passes:
                delta = self.ascend(field, delta, gradient)
            del gradient, value  # free the graph before the next pass
        field.finish()
        return torch.as_tensor(total)

    @staticmethod
    def _once(model: nn.Module | None, t: int) -> contextlib.AbstractContextManager[None]:
        """Context of pass t: running statistics are updated in the first pass only. Without a model, this applies to every module
        called."""
        if t and model is None:
            return frozen_wherever_called()
        return frozen_running_statistics(model if t else None)


def freelb(
    loss: Callable[..., Tensor],
    inputs_embeds: Tensor,
    attention_mask: Tensor | None = None,
    *,
    passes: int = 3,
    step_size: float = 0.1,
    eps: float | None = 0.3,
    start_norm: float | None = 0.1,
    project: bool = True,
    clean_first: bool = False,
    mask: str = "always",
    norm: str = "frobenius",
    reuse_masks: bool = True,
    samples: int | None = None,
    skipped: Callable[[int], object] | None = None,
) -> Tensor:
    """Algorithm 3 for any loss of embeddings, for use in a custom loop.

    ::

        embeds = model.get_input_embeddings()(ids)
        value = freelb(lambda inputs_embeds: model(inputs_embeds=inputs_embeds, ...).loss, embeds, attention_mask)
        optimizer.step()

    It calls ``backward()`` itself, once per pass. With a ``GradScaler``, let ``loss`` return the scaled loss: the ascent steps do not
    depend on the scale, because α and ε are lengths of δ, and the gradients are scaled as the scaler expects.

    Args:
        loss: ``loss(inputs_embeds=...)`` → scalar, a mean over the batch; it is called with this keyword. For RoBERTa, also pass
            ``position_ids`` to the model: without token ids it counts padding. A decoder with a classification head (GPT-2) uses the
            last non-padding token, which it can find from the ids only: with padding, select that state yourself or use
            ``FreeLBTrainer``.
        inputs_embeds: (rows, n, d); the gradient is back-propagated to the embedding look-up once.
        attention_mask: (rows, n), 0 on padding.
        samples: number of samples, if several adjacent rows form one sample (candidates of a question); default: rows.
        skipped: callback, called at the end with the number of ascent steps skipped because a gradient was not finite.
        passes, step_size, ...: see :class:`FreeLB`.

    Returns:
        The mean loss of the passes. The parameters' gradients are added to the existing ``.grad``.

    Raises:
        ValueError: a setting out of range, shapes that do not fit, a sample that is all padding, a loss that is not a scalar or
            does not depend on ``inputs_embeds``.
    """
    strategy = FreeLB(
        passes=passes,
        step_size=step_size,
        eps=eps,
        start_norm=start_norm,
        project=project,
        mask=mask,
        norm=norm,
        reuse_masks=reuse_masks,
        clean_first=clean_first,
    )
    if not inputs_embeds.is_floating_point():
        raise ValueError(f"inputs_embeds: found {inputs_embeds.dtype} (allowed: embeddings, floating point)")
    if (
        inputs_embeds.dim() < 2
        or not inputs_embeds.numel()
        or (samples is not None and (samples < 1 or len(inputs_embeds) % samples))
    ):
        found = f"{tuple(inputs_embeds.shape)} for {samples} samples"
        raise ValueError(
            f"inputs_embeds: found {found} (allowed: (rows, n, d), as many rows for each sample)"
        )
    if attention_mask is not None and attention_mask.shape != inputs_embeds.shape[:-1]:
        allowed = tuple(inputs_embeds.shape[:-1])
        raise ValueError(f"attention_mask: found shape {tuple(attention_mask.shape)} (allowed: {allowed})")
    if strategy.ball.is_point:
        value = scalar_loss(loss(inputs_embeds=inputs_embeds), "inputs_embeds")
        value.backward()
    else:
        field = _Embeddings(inputs_embeds, attention_mask, samples or len(inputs_embeds))
        value = strategy.run_passes(
            None,
            lambda delta: scalar_loss(loss(inputs_embeds=field.at(inputs_embeds, delta)), "inputs_embeds"),
            field,
        )
    if skipped is not None:
        skipped(strategy.skipped_count)
    return value.detach()


class _Embeddings(Lookup):
    """Embeddings looked up by the caller."""

    def __init__(self, rows: Tensor, attention_mask: Tensor | None, samples: int) -> None:
        super().__init__(once=True)
        self.rows, self.samples, self.device = rows, samples, rows.device
        self.shape: tuple[int, ...] = tuple(rows.shape)
        self.real = None if attention_mask is None else tokens_of(attention_mask, "attention_mask")

    def start(self, ball: Ball) -> Tensor:
        dtype = torch.promote_types(torch.float32, self.rows.dtype)
        return ball.start(self.shape, self.samples, self.real, self.device, "attention_mask").to(dtype)

    def output(self, delta: Tensor) -> Tensor:
        return self.at(self.rows, delta)

    def confine(self, delta: Tensor) -> Tensor:
        return delta
