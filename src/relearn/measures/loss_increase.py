r"""The largest increase of a sample's loss in a ball around its word embeddings (zhu2022, section 3.5.3).

.. math::
    \Delta L_{\max}(X, \varepsilon) = \max_{\|\delta\|_F \le \varepsilon} L(f_\theta(X + \delta), y) - L(f_\theta(X), y)
    \quad (3.5), \qquad
    \delta_{t+1} = \Pi_{\|\delta\|_F \le \varepsilon}\Big(\delta_t + \alpha\,\frac{g(\delta_t)}{\|g(\delta_t)\|_F}\Big)
    \quad (3.2)

with :math:`g(\delta) = \nabla_\delta L(f_\theta(X + \delta), y)`. Gradient ascent gives a lower bound of the maximum.

=======  =======================================  ====================  ===================================================
symbol   meaning                                  code                  shape, unit
=======  =======================================  ====================  ===================================================
X        word embeddings of S samples             ``embeds``            (S, n, d), or (S, C, n, d) with C candidate pairs
\-       tokens that are not padding              ``real``              (S, n) or (S, C, n) bool
δ        perturbation, 0 on padding               ``deltas``            as X
ε        radius, one per sample                   ``eps``               (S,) or a number
α        step size                                ``step_size``         as ε
L        loss of each sample                      ``losses(embeds)``    (S,), nats of cross entropy
\-       whether each answer is right             second result         (S,) bool
=======  =======================================  ====================  ===================================================

:math:`\|\cdot\|_F` is over a whole sample; in a ranking task, over the concatenation of all its candidate pairs.

Differences from the paper: the worst of all visited points (including X) is kept, not the last one. A gradient is normalised to length 1
however small it is (its norm has no lower limit), and a sample whose gradient is 0 or not finite does not move in that step. A non-finite
loss is never the largest, and its answer never counts as right; such evaluations are counted. The text does not specify how the "100 random
initialisations" were drawn; we use those of algorithm 3, uniform in (-1, 1) times :math:`\varepsilon / \sqrt{N_\delta}`, with one
generator per sample, so that neither padding nor the other samples of a batch affect them.

A step costs one forward and one backward pass to the embeddings (inside :func:`~relearn.maths.eval_mode.frozen`), and the final
evaluation one forward pass. The loop does not wait for the device. For per-sample radii see :mod:`relearn.measures.loss_radius`.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

Losses = Callable[[Tensor], Tensor | tuple[Tensor, Tensor]]


class Increase(NamedTuple):
    """Result of an ascent, in the order of the samples."""

    increases: Tensor
    """Largest increase found, (S,) float64, at least 0; NaN where the loss at X is not finite."""
    losses: Tensor
    """Loss at X, (S,) float64."""
    deltas: Tensor
    """Perturbation with the largest loss, shaped like X."""
    right: Tensor
    """(S,) bool: whether the answer was right at every visited point; without answers, whether every loss was finite."""
    nonfinite: Tensor
    """Number of evaluations with a non-finite loss, (S,) int64."""


def sample_losses(scores: Tensor, labels: Tensor) -> tuple[Tensor, Tensor] | Tensor:
    """Return the loss of each sample in float64, and whether its answer is right: its label has a higher score than every other.

    Args:
        scores: (S, classes or candidates), or (S,) for regression.
        labels: (S,) int64; floating point means regression, with squared error and no answers.
    """
    if labels.is_floating_point():
        return (scores.double() - labels.double()).square()
    wide = scores.double()  # in single precision a small loss would be lost to cancellation
    own = wide.gather(1, labels[:, None])
    others = wide.scatter(1, labels[:, None], -torch.inf).amax(1)
    return cross_entropy(wide, labels, reduction="none"), own.squeeze(1) > others


def largest_increase(
    losses: Losses,
    embeds: Tensor,
    real: Tensor,
    eps: float | Tensor,
    *,
    steps: int,
    step_size: float,
    starts: int = 1,
    seed: int = 0,
    numbers: Sequence[int] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Increase:
    """Estimate Δ L_max of each sample (eq. 3.5) by ``steps`` steps of eq. 3.2. Call it inside :func:`~relearn.maths.eval_mode.frozen`.

    Args:
        losses: embeddings of all samples → their losses (S,), or (losses, whether each answer is right); samples must not influence
            each other, as in eval mode.
        embeds, real, eps: see the module docstring.
        steps: number of steps per start; 0 only evaluates the starts. More steps never decrease the result.
        step_size: size of each step.
        starts: number of starts; the first is δ = 0, the others are random.
        seed, numbers: determine the random starts; a number identifies a sample across batches (default: its index).
        progress: called as ``progress(done, all)`` after each step.

    Raises:
        ValueError: a sample that is all padding, shapes that do not match, numbers out of range.
    """
    x, radius, names = check_arguments(embeds, real, eps, steps, step_size, starts, numbers)
    padding = ~real[..., None]
    keep: _Worst | None = None
    for start in range(starts):
        delta = start_of(x, real, seed, names, start) * like(radius, x)
        for step in range(steps):
            value, right, gradient = look(losses, x + delta)
            keep = keep or _Worst(x, value)
            keep.see(delta, value, right)
            delta = uphill(delta, gradient, padding, radius, step_size)
            if progress:
                progress(start * steps + step + 1, starts * steps)
        with torch.no_grad():
            value, right = _answers(losses, x + delta)
        keep = keep or _Worst(x, value)
        keep.see(delta, value, right)
    assert keep is not None  # there is at least one start
    increases = torch.where(keep.clean.isfinite(), keep.best - keep.clean, torch.nan)
    return Increase(increases, keep.clean, keep.deltas, keep.right, keep.nonfinite)


def sample_norms(embeds: Tensor, real: Tensor) -> Tensor:
    """Return ‖X‖_F of each sample (S,), over the tokens that are not padding."""
    return torch.linalg.vector_norm(embeds.masked_fill(~real[..., None], 0.0).flatten(1), dim=1)


class _Worst:
    """The largest loss of each sample so far, where it was found, and statistics over all evaluations."""

    def __init__(self, x: Tensor, clean: Tensor) -> None:
        self.clean = self.best = clean  # the first evaluation is at X itself
        self.deltas = torch.zeros_like(x)
        self.right = torch.ones_like(clean, dtype=torch.bool)
        self.nonfinite = torch.zeros_like(clean, dtype=torch.int64)

    def see(self, delta: Tensor, value: Tensor, right: Tensor) -> None:
        better = value.isfinite() & (value > self.best)
        self.best = torch.where(better, value, self.best)
        self.deltas = torch.where(like(better, delta), delta, self.deltas)
        self.right = self.right & right
        self.nonfinite = self.nonfinite + ~value.isfinite()


def look(losses: Losses, point: Tensor, answers: bool = False) -> tuple[Tensor, Tensor, Tensor]:
    """Return losses (S,) float64, right answers (S,), and the gradients of the losses with respect to the samples' embeddings."""
    point = point.requires_grad_()
    with torch.enable_grad():
        value, right = _answers(losses, point, answers)
        (gradient,) = torch.autograd.grad(value.sum(), point)
    return value.detach(), right, gradient


def _answers(losses: Losses, point: Tensor, needed: bool = False) -> tuple[Tensor, Tensor]:
    found = losses(point)
    value, right = found if isinstance(found, tuple) else (found, None)
    if value.shape != point.shape[:1]:
        raise ValueError(f"losses: {tuple(value.shape)} for {len(point)} samples (allowed: ({len(point)},))")
    if right is None and needed:
        raise ValueError(
            "losses: no answers, as of regression (allowed: losses and right answers of classes)"
        )
    finite = value.detach().isfinite()
    return value.double(), finite if right is None else right & finite


def uphill(delta: Tensor, gradient: Tensor, padding: Tensor, eps: Tensor, step_size: float) -> Tensor:
    """Return δ after one step of eq. 3.2."""
    slope = gradient.masked_fill(padding, 0.0)
    largest = torch.linalg.vector_norm(slope.flatten(1), ord=torch.inf, dim=1)
    able = (largest > 0) & largest.isfinite()
    slope = slope / like(
        torch.where(able, largest, 1.0), slope
    )  # avoids underflow and overflow of the square
    length = torch.linalg.vector_norm(slope.flatten(1), dim=1)
    moved = torch.addcmul(delta, slope, like(step_size / torch.where(able, length, 1.0), slope))
    moved = torch.where(like(able, moved), moved, delta)
    size = torch.linalg.vector_norm(moved.flatten(1), dim=1)
    return moved * like(torch.where(size > eps, eps / size, 1.0), moved)


def start_of(x: Tensor, real: Tensor, seed: int, names: Sequence[int], start: int) -> Tensor:
    """Return the starting point in balls of radius 1, shaped like x; the first start is 0."""
    found = torch.zeros_like(x)
    if start:
        for place, name in enumerate(names):
            generator = torch.Generator().manual_seed(zlib.crc32(f"{seed}/{name}/{start}".encode()))
            entries = (int(real[place].sum()), x.shape[-1])
            draw = torch.rand(entries, generator=generator, dtype=torch.float64).mul_(2).sub_(1)
            found[place][real[place]] = (draw / math.sqrt(draw.numel())).to(x)
    return found


def check_arguments(
    embeds: Tensor,
    real: Tensor,
    eps: float | Tensor,
    steps: int,
    step_size: float,
    starts: int,
    numbers: Sequence[int] | None,
) -> tuple[Tensor, Tensor, Sequence[int]]:
    if embeds.dim() < 3 or embeds.dtype not in (torch.float32, torch.float64) or not len(embeds):
        found = f"{tuple(embeds.shape)} {embeds.dtype}"
        raise ValueError(
            f"embeds: {found} (allowed: (S, n, d) or (S, C, n, d), S >= 1, of float32 or float64)"
        )
    if real.shape != embeds.shape[:-1] or real.dtype != torch.bool:
        found = f"{tuple(real.shape)} {real.dtype}"
        raise ValueError(f"real: {found} (allowed: {tuple(embeds.shape[:-1])} of torch.bool)")
    empty = ~real.flatten(1).any(1)
    if bool(empty.any()):
        raise ValueError(
            f"real: sample {int(empty.nonzero()[0])} is all padding (allowed: at least one token)"
        )
    radius = torch.as_tensor(eps, dtype=embeds.dtype, device=embeds.device).detach()
    if radius.shape not in ((), embeds.shape[:1]) or not bool(((radius >= 0) & radius.isfinite()).all()):
        found = f"{tuple(radius.shape)}, from {float(radius.amin()):.4g}" if radius.numel() else "none"
        raise ValueError(f"eps: {found} (allowed: a number or one per sample, finite, at least 0)")
    if steps < 0 or starts < 1 or not (step_size >= 0 and math.isfinite(step_size)):
        found = f"steps {steps}, starts {starts}, step_size {step_size}"
        raise ValueError(
            f"{found} (allowed: steps at least 0, starts at least 1, step_size finite, at least 0)"
        )
    names = range(len(embeds)) if numbers is None else numbers
    if len(names) != len(embeds):
        raise ValueError(f"numbers: {len(names)} for {len(embeds)} samples (allowed: one per sample)")
    return embeds.detach(), radius.expand(len(embeds)), names


def like(batch: Tensor, x: Tensor) -> Tensor:
    """Reshape (S,) to as many axes as x has."""
    return batch.view(-1, *[1] * (x.dim() - 1))
