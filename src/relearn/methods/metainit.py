r"""MetaInit: choose the norms of the weights that minimise the effect of curvature on the gradient.

Dauphin & Schoenholz, NeurIPS 2019. With the gradient g and the Hessian H of the loss at the rescaled weights θ, N numbers in total,

.. math:: GQ(\theta) = \frac{1}{N} \sum_j \left| \frac{g_j - (H g)_j}{g_j + \epsilon\, s_j} - 1 \right|,
          \qquad s_j = 1 \text{ if } g_j \ge 0 \text{ else } -1

is the gradient quotient: to first order, the relative change of the gradient in one step of gradient descent with rate 1. It is 0 where
the loss is linear. Its derivative with respect to the norms of the weight tensors is a third derivative of the loss.

zhu2022 (section 4.3.1.2, table 4.9) uses three variants:

- ``data="random", optimizer="signsgd"``: as published. ``data="real"``: the same on training data.
- ``data="real", optimizer="adam"``: Adam on the factors, with the same clipping as GradInit; used in its table 4.4.

Choices where the sources are incomplete, and differences:

1. Noise has the mean and the standard deviation of each channel of the batch. The networks here normalise their input themselves, which
   turns this into the published N(0, 1). The labels are those of the batch; paired with noise they are random.
2. Factors have the lower bound ``min_scale``; the published procedure has no bound, so a norm could become negative.
3. Batch normalisation uses batch statistics; the code released with GradInit uses the initial running statistics.
4. Only tensors with at least two dimensions have a factor, as published; GQ includes all parameters.

Facts (tests/methods/test_metainit.py): GQ equals its definition with a dense Hessian; its derivative equals finite differences; GQ is 0
for a linear loss; for L = h θ²/2 with one scalar θ, GQ is |h| to order ε.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from relearn.methods.initialised import Initialised
from relearn.methods.learned_scales import (
    Checkpoint,
    Row,
    ScaleAdam,
    ScaledWeights,
    ScaleSign,
    learn,
    repeated,
    retyped,
)

DATA = ("random", "real")
OPTIMIZERS = ("signsgd", "adam")


def gradient_quotient(value: Tensor, theta: Sequence[Tensor], eps: float) -> Tensor:
    """GQ of a scalar ``value`` with respect to the tensors ``theta``; differentiable."""
    g = torch.autograd.grad(value, theta, create_graph=True, materialize_grads=True)
    half = sum((one.square().sum() for one in g), value.new_zeros(())) / 2
    if not half.requires_grad:  # g is constant, H g is 0
        product: Sequence[Tensor] = [torch.zeros_like(one) for one in theta]
    else:
        product = torch.autograd.grad(half, theta, create_graph=True, materialize_grads=True)
    total = value.new_zeros(())
    for one, curved in zip(g, product):
        sign = torch.where(one >= 0, 1.0, -1.0)
        total = total + ((one - curved) / (one + eps * sign) - 1).abs().sum()
    return total / sum(one.numel() for one in theta)


def metainit(
    model: nn.Module,
    loss: Callable[..., Tensor],
    batches: Iterable[Sequence[Any]],
    *,
    data: str = "random",
    optimizer: str = "signsgd",
    tau: float = 0.1,
    momentum: float = 0.9,
    iterations: int = 500,
    eps: float = 1e-5,
    min_scale: float = 0.01,
    clip: float | None = None,
    seed: int = 0,
    precision: str = "fp32",
    log: Callable[..., None] | None = None,
    progress: Callable[[int, int], None] | None = None,
    checkpoint: Checkpoint | None = None,
    checkpoint_every: int = 0,
) -> Initialised:
    """Rescale the weight tensors (two and more dimensions) of ``model`` in place.

    Args:
        model, loss, batches: see :mod:`relearn.methods.initialised`; one whole batch per iteration.
        data: ``random`` (noise in the shape of the batches) or ``real``.
        optimizer: ``signsgd`` on the norms, with ``momentum``, or ``adam`` on the factors (default momenta).
        tau: learning rate of this optimiser; for ``signsgd`` in units of a norm.
        eps: ε of the quotient.
        min_scale: lower bound of the factors, above 0 to 1.
        clip: each factor's derivative is clamped to [-clip, clip] (``adam``).
        seed: seed of the noise.
        precision, log, progress, checkpoint, checkpoint_every: as in GradInit.

    Returns:
        The factors by name, and a history with ``step``, ``kind`` (``quotient``), ``loss`` and ``gradient_quotient``.

    Raises:
        ValueError: a setting out of range; nothing to scale; noise requested for integer inputs (tokens); too few batches; a
            non-finite number in the first iteration. The network is then unchanged.
    """
    _check(data, optimizer, tau, momentum, eps, clip, precision)
    weights = ScaledWeights(model, least_dims=2, precision=precision)
    mover: ScaleAdam | ScaleSign
    if optimizer == "adam":
        mover = ScaleAdam(len(weights), tau, low=min_scale, clip=clip)
    else:
        mover = ScaleSign(weights.norms, tau, momentum, low=min_scale)

    def derivative(scales: Tensor, batch: Sequence[Any]) -> tuple[int, Tensor, Row]:
        theta = weights.at(scales)
        value = weights.loss(theta, loss, batch)
        quotient = gradient_quotient(value, theta, eps)
        row: Row = {
            "kind": "quotient",
            "loss": float(value.detach()),
            "gradient_quotient": float(quotient.detach()),
        }
        if not quotient.requires_grad:
            return 0, torch.zeros(len(weights), dtype=torch.float64), row
        by_theta = torch.autograd.grad(quotient, weights.scaled(theta), materialize_grads=True)
        return 0, weights.by_scale(by_theta), row

    return learn(
        weights,
        mover,
        noise(repeated(batches, iterations), seed) if data == "random" else batches,
        derivative,
        iterations=iterations,
        seed=seed,
        log=log,
        progress=progress,
        checkpoint=checkpoint,
        checkpoint_every=checkpoint_every,
    )


def noise(batches: Iterable[Sequence[Any]], seed: int) -> Iterator[list[Any]]:
    """The batches, with each input replaced by Gaussian noise of the same mean and standard deviation per channel (dimension 1).

    Raises:
        ValueError: the input holds integers.
    """
    generator = torch.Generator().manual_seed(seed)

    def draw(x: Any) -> Any:
        if isinstance(x, (tuple, list)):
            return retyped(x, [draw(one) for one in x])
        if not x.is_floating_point():
            raise ValueError(
                f"data: 'random' needs floating-point inputs, found {x.dtype}; allowed here: 'real'"
            )
        over = tuple(i for i in range(x.dim()) if i != 1) if x.dim() > 1 else (0,)
        deviation, mean = torch.std_mean(x, over, correction=0, keepdim=True)
        return mean + deviation * torch.randn(x.shape, generator=generator).to(x)

    for batch in batches:
        first = batch[0]
        images = isinstance(first, Tensor) and first.dtype == torch.uint8
        yield [draw(first.float() / 255.0 if images else first), *batch[1:]]


def _check(
    data: str,
    optimizer: str,
    tau: float,
    momentum: float,
    eps: float,
    clip: float | None,
    precision: str,
) -> None:
    if data not in DATA:
        raise ValueError(f"data: found {data!r}, allowed are {', '.join(DATA)}")
    if optimizer not in OPTIMIZERS:
        raise ValueError(f"optimizer: found {optimizer!r}, allowed are {', '.join(OPTIMIZERS)}")
    for name, value in (("tau", tau), ("eps", eps)):
        if not (value > 0 and math.isfinite(value)):
            raise ValueError(f"{name}: found {value}, allowed: above 0")
    if not 0 <= momentum < 1:
        raise ValueError(f"momentum: found {momentum}, allowed: 0 to below 1")
    if clip is not None and not clip > 0:
        raise ValueError(f"clip: found {clip}, allowed: above 0, or None")
    if precision not in ("fp32", "bf16"):
        raise ValueError(f"precision: found {precision!r}, allowed are fp32, bf16")
