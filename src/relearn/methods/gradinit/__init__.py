r"""GradInit: learn a scale factor for each weight tensor that minimises the loss after the first training step.

zhu2022, section 4.2 (eq. 4.1, algorithm 4); Zhu et al., NeurIPS 2021. With the random weights W_1 … W_M of a network kept fixed,

.. math:: \min_{\alpha_1 \dots \alpha_M} L\bigl(\tilde S;\, \theta_m - \eta A[g_{S, \theta_m}]\bigr)
          \quad \text{subject to} \quad \|g_{S, \theta_m}\|_{p_A} \le \gamma,
          \qquad \theta_m = (\alpha_1 W_1, \dots, \alpha_M W_M)

=================  ==============================================================  ==========================
symbol             meaning                                                         code
=================  ==============================================================  ==========================
α_i ≥ 0.01         factor of tensor i, starts at 1                                 ``scales`` (M,)
θ_m                the rescaled weights                                            ``theta``, a list
S, S̃               two minibatches that share a part r of their samples            ``first``, ``second``
g                  ∇_θ L(S; θ_m), w.r.t. the rescaled weights                      ``gradient``, a list
A[g]               the optimiser's first direction: g (SGD) or sign g (Adam)       :func:`direction`
p_A                2 (SGD) or 1 (Adam), over all elements of all tensors           :func:`gradient_norm`
η, γ, τ, λ         learning rate, bound, rate of the factors, penalty              ``eta gamma tau penalty``
=================  ==============================================================  ==========================

An iteration computes g on S. If its norm exceeds γ, the factors take a step that reduces the norm; otherwise they take one that reduces
the loss on S̃ after the training step. In the latter, A[g] is treated as constant (algorithm 4), so no derivative of g is needed:

.. math:: \frac{\partial \tilde L}{\partial \alpha_i} = \Bigl\langle \nabla_{\theta_i} L\bigl(\tilde S; \theta_m - \eta A[g]\bigr),
          W_i \Bigr\rangle, \qquad
          \frac{\partial \|g\|_{p_A}}{\partial \alpha_i} = \bigl\langle (H v)_i, W_i \bigr\rangle, \quad
          v = \frac{g}{\|g\|_2} \text{ or } \operatorname{sign} g

with the Hessian H of L(S; ·) at θ_m. The kind of step is known before anything is differentiated twice, so a second-order graph is
built only in constraint iterations (and in all iterations of ``form="penalty"``, section 4.2.6, which minimises L̃ + λ‖g‖ instead).

Facts (tests/methods/gradinit/test_gradinit.py): both derivatives equal finite differences of the formulas in double precision; three
iterations equal a slow re-implementation; γ = ∞ gives objective iterations only; nothing but the parameters changes.

Choices where the text is incomplete, and differences from the released code:

1. A[g] of SGD: a symbol is missing in eq. 4.1. Eq. 4.2 holds for A[g] = g, the default here; ``normalised=True`` is g/‖g‖₂, which
   all released CIFAR-10 commands use. At ‖g‖ = γ = 1 they coincide.
2. The factors' optimiser: one Adam (text, default) or one with two first moments (``moments="split"``, released).
3. Bounds: 0.01 for all (text). Released: 0 for biases.
4. ``clip`` (released: 1, with the loss L̃ divided by η) clamps each factor's derivative. The text names it only where MetaInit gets "the
   same" (4.3.1.2). ``exclude`` keeps parameters as they are; the released code scales linear maps, embeddings and norms only, not w_skip.
   ``divide_by_eta=True`` is the released scaling: it affects the clipping, and how the two kinds of iteration share Adam's second moment.
5. S and S̃ are the first and the last ⌊n/(2-r)⌋ of a pool of n samples (r = 1/2: two thirds), as released for translation;
   for images the released loader gives halves. For independent samples the distribution is the same.
6. θ_m is computed from W in each iteration; in the released code the weights are rescaled in place, which accumulates rounding errors.
7. Tensors of norm zero (such as new biases) get no factor in either implementation; here they are reported.
8. Batch normalisation uses batch statistics without updating the running ones, and dropout is off, as in the released code; the text
   does not say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from torch import Tensor, nn

from relearn.methods.gradinit.arguments import RULES, check
from relearn.methods.gradinit.derivative import Derivative, direction, gradient_norm
from relearn.methods.initialised import Initialised
from relearn.methods.learned_scales import Checkpoint, Row, ScaleAdam, ScaledWeights, halves, learn

__all__ = ["direction", "gradient_norm", "gradinit"]


def gradinit(
    model: nn.Module,
    loss: Callable[..., Tensor],
    batches: Iterable[Sequence[Any]],
    *,
    optimizer: str = "sgd",
    eta: float = 0.1,
    gamma: float = 1.0,
    tau: float = 0.01,
    iterations: int = 390,
    overlap: float = 0.5,
    min_scale: float = 0.01,
    max_scale: float | None = None,
    normalised: bool = False,
    form: str = "constraint",
    penalty: float = 1.0,
    scope: str = "all",
    exclude: Sequence[str] = (),
    clip: float | None = None,
    moments: str = "shared",
    divide_by_eta: bool = False,
    seed: int = 0,
    precision: str = "fp32",
    log: Callable[..., None] | None = None,
    progress: Callable[[int, int], None] | None = None,
    checkpoint: Checkpoint | None = None,
    checkpoint_every: int = 0,
) -> Initialised:
    """Rescale the trainable parameters of ``model`` in place.

    Args:
        model: any module of floating point parameters; batches are moved to its device. It is called as ``model(input)``, or as
            ``model(*input)`` if a batch's first item is a tuple. Tied parameters share one factor.
        loss: ``loss(output, *rest)`` → scalar, a mean over the samples.
        batches: one pool of samples per iteration, ``(input, *rest)``, from which S and S̃ are taken; any batch accepted by
            :func:`relearn.methods.fit.fit`, including uint8 images. Use 1.5 times the training batch size for ``overlap`` 1/2. A list
            or a loader that is shorter than ``iterations`` is repeated.
        optimizer: A, the optimiser of the subsequent training: ``sgd``, ``adam``, ``adamw`` or ``radam``. AdamW has Adam's
            first direction, and RAdam that of SGD, so below "SGD" includes RAdam.
        eta: its learning rate.
        gamma: bound on ‖g‖; ``math.inf`` for none. Rule of thumb (section 4.2.5): ηγ² = 0.1 (SGD), ηγ = 0.1 (Adam).
        tau: learning rate of the factors; the text searches 1e-3 to 1e-1.
        iterations: at least 1; the text: an epoch of CIFAR-10 (390), 780 for translation, 2000 for ImageNet.
        overlap: r, the share of S̃ that is also in S, 0 to 1.
        min_scale, max_scale: bounds of the factors, above 0 to 1 and at least 1.
        normalised: A[g] = g/‖g‖₂ for ``sgd``, see above.
        form: ``constraint``, or ``penalty`` with strength ``penalty`` (``gamma`` is then unused).
        scope: ``all``, or for table 4.6 ``fix_norm`` (parameters of normalisation layers are not scaled) and ``only_norm``.
        exclude: shell patterns of names of parameters that are not scaled, such as ``*.w_skip``.
        clip, moments, divide_by_eta: see above.
        seed: for networks that draw random numbers in ``forward``; nothing else is random.
        precision: ``fp32``, or ``bf16`` for autocast.
        log: called once per iteration as ``log(step, loss=…, gradient_norm=…)``, with ``objective=…`` if there is one.
        progress: called once per iteration as ``progress(done, all)``.
        checkpoint: the search resumes from its state if it has one (batches already used are drawn from ``batches`` and skipped);
            saved every ``checkpoint_every`` iterations, 0: never.

    Returns:
        The factors by name, and a history with ``step``, ``kind`` (``objective``, ``constraint`` or ``penalty``), ``loss`` on S,
        ``gradient_norm``, and ``objective`` (the loss on S̃ after the step) if it was computed. If a number is not finite after
        the first iteration, the outcome is ``diverged`` and the network has the factors of the previous iteration.

    Raises:
        ValueError: a setting out of range; nothing to scale; a pool too small; too few batches; a non-finite number in the
            first iteration. The network is then unchanged.
    """
    check(
        optimizer=optimizer,
        eta=eta,
        gamma=gamma,
        tau=tau,
        overlap=overlap,
        max_scale=max_scale,
        normalised=normalised,
        form=form,
        penalty=penalty,
        clip=clip,
        precision=precision,
    )
    weights = ScaledWeights(model, scope, exclude=exclude, precision=precision)
    adam = ScaleAdam(len(weights), tau, low=min_scale, high=max_scale, clip=clip, moments=moments)
    derivative = Derivative(
        weights,
        loss,
        optimizer=RULES[optimizer],
        eta=eta,
        gamma=gamma,
        normalised=normalised,
        divide_by_eta=divide_by_eta,
    )

    def of(scales: Tensor, pool: Sequence[Any]) -> tuple[int, Tensor, Row]:
        first, second = halves(pool, overlap)
        if form == "penalty":
            return derivative.penalised(scales, first, second, penalty)
        return derivative.constrained(scales, first, second)

    return learn(
        weights,
        adam,
        batches,
        of,
        iterations=iterations,
        seed=seed,
        log=log,
        progress=progress,
        checkpoint=checkpoint,
        checkpoint_every=checkpoint_every,
        resumed=lambda history: derivative.expect(history[-1]["kind"] == "constraint"),
    )
