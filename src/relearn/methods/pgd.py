r"""Projected gradient descent (PGD) in an l-infinity ball: the strongest adversarial image found by signed gradient steps.

Madry et al. 2018 (arXiv 1706.06083, section 2.1), for images x with pixels in [0, 1] and labels y:

.. math::
    x^{t+1} = \Pi_{B}\big(x^t + \alpha\,\mathrm{sign}\,\nabla_x L(f(x^t), y)\big), \qquad
    B = \{z : \|z - x\|_\infty \le \varepsilon\} \cap [0, 1]^d

=======  ==================================  =================  ==================
symbol   meaning                             code               shape, unit
=======  ==================================  =================  ==================
x        images                              ``images``         (n, C, H, W), [0,1]
x^0      start: uniform in the cube, cut to  ``random_start``   (n, C, H, W)
         [0, 1]; or x itself
ε        radius of the ball                  ``eps``            [0,1] pixel scale
α        step                                ``step_size``      [0,1] pixel scale
L        loss of each image                  ``loss``           (n,)
=======  ==================================  =================  ==================

Facts (tests/methods/test_pgd.py): on a linear model one step of α ≥ 2ε gives the exact maximum; the result is in B; a longer attack
includes the restarts and steps of a shorter one with the same step size, so more restarts or steps never weaken the attack.

Differs from the paper in one point: the paper returns the last point. Here the worst of all visited points, including x and the last
one, is returned (misclassified before correct, then the larger loss). This is free, as the loss is computed anyway.

The network is used in eval mode without gradients of its weights and restored afterwards. Starts are drawn on the CPU, one image after
the other, so they depend neither on the batch size nor on the device. The loops do not synchronise with the device.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from numbers import Integral
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from relearn.maths.eval_mode import frozen

Loss = Callable[..., Tensor]
DTYPES = (torch.float32, torch.float64, torch.uint8)


class PGDResult(NamedTuple):
    """Result of an attack; images on the CPU, in the dtype of the input images (float32 for uint8)."""

    images: Tensor
    """(n, C, H, W): the worst visited point of each image, in the ball."""
    fooled: Tensor
    """(n,) bool: the network misclassifies the point; always true if it misclassifies the image itself."""
    loss_curves: Tensor
    """(restarts, steps + 1) float64: mean loss over the images at the start and after each step."""


def pgd(
    model: nn.Module,
    images: Tensor,
    labels: Tensor,
    *,
    eps: float,
    step_size: float,
    steps: int,
    restarts: int = 1,
    random_start: bool = True,
    loss: Loss = cross_entropy,
    seed: int = 0,
    batch: int | None = None,
    precision: str = "fp32",
) -> PGDResult:
    """Attack every image.

    Args:
        model: images in [0, 1] → logits; the attack runs on its parameters' device, or without any on that of the images.
        images: (n, C, H, W), floats in [0, 1], or uint8, which is converted to floats in [0, 1].
        labels: (n,) the true classes.
        eps, step_size: on the [0, 1] pixel scale, e.g. 8/255.
        steps: gradient steps of each restart; 0 evaluates the starts only.
        restarts: number of attacks on each image from different starts; the worst result is returned.
        random_start: False starts at the image itself (further restarts then repeat the first).
        loss: called as ``loss(logits, labels, reduction="none")`` → (n,); logits are at least float32.
        seed: seed of the starts.
        batch: number of images attacked at once; None = all. Restarts run together as far as it allows.
        precision: ``fp32``, or ``bf16`` for autocast.

    Raises:
        ValueError: arguments out of range, shapes that do not fit, pixels outside [0, 1].
        TypeError: images of another dtype; a model that returns no tensor.
    """
    x = _pixels(images, labels)
    _check_numbers(eps, step_size, steps, restarts)
    if precision not in ("fp32", "bf16"):
        raise ValueError(f"precision: found {precision!r}, allowed are fp32, bf16")
    if batch is not None and batch < 1:
        raise ValueError(f"batch is {batch}; allowed: at least 1, or None for all")
    device = next(model.parameters(), x).device
    size = batch or len(x)
    generators = [_generator(seed, restart) for restart in range(restarts)]
    worst, fooled = [], []
    curves = torch.zeros(restarts, steps + 1, dtype=torch.float64, device=device)

    with frozen(model):
        for clean_cpu, y_cpu in zip(x.split(size), labels.split(size)):
            clean, y = clean_cpu.to(device), y_cpu.to(device)

            def objective(logits: Tensor, y: Tensor = y) -> Tensor:
                every = y.repeat(len(logits) // len(y))
                losses = loss(logits, every, reduction="none")
                if losses.shape != every.shape:
                    found = f"shape {tuple(losses.shape)} with reduction='none'"
                    raise ValueError(f"loss: returns {found} (allowed: {tuple(every.shape)}, one an image)")
                return losses

            keep = _Worst(clean, y)
            with torch.no_grad():
                logits = forward(model, clean, precision)
                if logits.dim() != 2 or len(logits) != len(y) or logits.shape[1] < 2:
                    found = tuple(logits.shape)
                    raise ValueError(
                        f"model: returns {found} (allowed: logits (n, classes), two classes or more)"
                    )
                keep.see(clean, logits, objective(logits))
            together = size // len(clean)
            for first in range(0, restarts, together):
                some = generators[first : first + together]
                starts = [random_starts(clean, eps, one) if random_start else clean for one in some]
                visit = _Visit(curves[first : first + together], keep)
                ascend(
                    model,
                    objective,
                    clean.repeat(len(some), 1, 1, 1),
                    torch.cat(starts),
                    eps=eps,
                    step_size=step_size,
                    steps=steps,
                    precision=precision,
                    visit=visit,
                )
            worst.append(keep.images.cpu())
            fooled.append(keep.fooled.cpu())
    return PGDResult(torch.cat(worst), torch.cat(fooled), (curves / len(x)).cpu())


def ascend(
    model: nn.Module,
    objective: Callable[[Tensor], Tensor],
    images: Tensor,
    start: Tensor,
    *,
    eps: float,
    step_size: float,
    steps: int,
    precision: str = "fp32",
    visit: Callable[[int, Tensor, Tensor, Tensor], object] | None = None,
) -> Tensor:
    """The inner loop: ``steps`` signed ascent steps from ``start``, in the ball around ``images``; returns the last point.

    Call it inside ``frozen``. ``objective(logits)`` is a loss per image or their mean; the sign of the gradient is the same as
    long as the images of a batch do not interact, as in eval mode. ``visit(t, point, logits, losses)`` is called for every point,
    including the start (t = 0) and the last one; without ``visit`` the last point is not evaluated.
    """
    low, high = (images - eps).clamp(min=0.0), (images + eps).clamp(max=1.0)
    z = start.detach()
    for t in range(steps):
        z.requires_grad_(True)
        with torch.enable_grad():
            logits = forward(model, z, precision)
            losses = objective(logits)
            (gradient,) = torch.autograd.grad(losses.sum(), z)
        with torch.no_grad():
            z = z.detach()
            if visit:
                visit(t, z, logits.detach(), losses.detach())
            z = torch.add(z, gradient.sign(), alpha=step_size).clamp(low, high)
    if visit:
        with torch.no_grad():
            logits = forward(model, z, precision)
            visit(steps, z, logits, objective(logits))
    return z


def random_starts(images: Tensor, eps: float, generator: torch.Generator | None = None) -> Tensor:
    """Uniform points in the cubes of half-side ε around the images, clipped to [0, 1]; drawn on the CPU, one image after the other."""
    noise = torch.rand(images.shape, generator=generator, dtype=images.dtype)
    start = images + noise.mul_(2 * eps).sub_(eps).to(images.device)
    # Rounding may move a point slightly outside the cube; clamping to the loop's bounds keeps every visited point inside.
    return start.clamp((images - eps).clamp(min=0.0), (images + eps).clamp(max=1.0))


def forward(model: nn.Module, images: Tensor, precision: str = "fp32") -> Tensor:
    """Logits, at least float32."""
    if precision == "bf16":
        with torch.autocast(images.device.type, torch.bfloat16):
            logits = model(images)
    else:
        logits = model(images)
    if not isinstance(logits, Tensor):
        raise TypeError(f"model: returns a {type(logits).__name__} (allowed: a tensor of logits)")
    return logits.float() if logits.dtype in (torch.bfloat16, torch.float16) else logits


class _Worst:
    """The worst point of each image so far: misclassified before correct, then the larger loss. A NaN loss never counts as worse."""

    def __init__(self, clean: Tensor, labels: Tensor) -> None:
        self.images, self.labels = clean.clone(), labels
        self.fooled = torch.zeros(len(clean), dtype=torch.bool, device=clean.device)
        self.losses: Tensor | None = None

    def see(self, z: Tensor, logits: Tensor, losses: Tensor) -> None:
        wrong = (logits.argmax(1) != self.labels) | logits.isnan().any(1)  # to argmax, NaN is the largest
        if self.losses is None:
            self.fooled, self.losses = wrong, losses
            return
        wrong &= ~losses.isnan()
        better = (wrong & ~self.fooled) | ((wrong == self.fooled) & (losses > self.losses))
        self.images = torch.where(better[:, None, None, None], z, self.images)
        self.losses = torch.where(better, losses, self.losses)
        self.fooled = self.fooled | wrong


class _Visit:
    """Add the losses of restarts that run together to their curves and update the worst points."""

    def __init__(self, curves: Tensor, keep: _Worst) -> None:
        self.curves, self.keep = curves, keep

    def __call__(self, t: int, z: Tensor, logits: Tensor, losses: Tensor) -> None:
        count = len(self.curves)
        for curve, *seen in zip(self.curves, z.chunk(count), logits.chunk(count), losses.chunk(count)):
            curve[t].add_(seen[-1].double().sum())
            self.keep.see(*seen)


def _generator(seed: int, restart: int) -> torch.Generator:
    return torch.Generator().manual_seed(zlib.crc32(f"{seed}/{restart}".encode()))


def _pixels(images: Tensor, labels: Tensor) -> Tensor:
    if images.dtype not in DTYPES:
        raise TypeError(f"images: {images.dtype} (allowed: float32, float64, uint8)")
    if images.dim() != 4 or labels.shape != images.shape[:1] or not len(labels):
        found = f"images {tuple(images.shape)}, labels {tuple(labels.shape)}"
        raise ValueError(f"{found}: allowed are (n, C, H, W) and (n,) with n > 0")
    if images.dtype == torch.uint8:
        return images.float() / 255.0
    if not bool((images.amin() >= 0) & (images.amax() <= 1)):
        found = f"{float(images.amin()):.4g} to {float(images.amax()):.4g}"
        raise ValueError(f"images run from {found}; allowed: pixels in [0, 1]")
    return images


def _check_numbers(eps: float, step_size: float, steps: int, restarts: int) -> None:
    if not 0 <= eps <= 1:
        raise ValueError(f"eps is {eps}; allowed: 0 to 1, in [0,1] pixel scale (8/255, not 8)")
    if not 0 <= step_size <= 2:
        raise ValueError(f"step_size is {step_size}; allowed: 0 to 2, in [0,1] pixel scale (2/255, not 2)")
    if not all(isinstance(count, Integral) for count in (steps, restarts)) or steps < 0 or restarts < 1:
        found = f"steps is {steps}, restarts {restarts}"
        raise ValueError(f"{found}; allowed: whole numbers, at least 0 and at least 1")
