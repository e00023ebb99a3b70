r"""Perturbations δ of a batch: start, norm, ascent and projection, with one ball per sample.

zhu2022, equation 3.2 and algorithm 3. X are the embeddings of a sample (or its pixels), and N_δ is the number of its entries that are
not padding:

.. math::
    \delta_0 = m\,u / \sqrt{N_\delta},\; u \sim U(-1, 1)^{N_\delta}, \qquad
    \delta_{t+1} = \Pi_{\|\delta\|_F \le \varepsilon}\big(\delta_t + \alpha\, g_t / \|g_t\|_F\big), \qquad
    g_t = \nabla_\delta L(f_\theta(X + \delta_t), y)

=======  ==========================================  ===============  =========================
symbol   meaning                                     code             shape, unit
=======  ==========================================  ===============  =========================
δ        perturbation                                ``delta``        (rows, ...)
g        gradient of the loss w.r.t. δ               ``gradient``     as ``delta``
ε        radius of a sample's ball                   ``eps``          units of X
α        step                                        ``step_size``    units of X
m        magnitude of the start (the text: m = ε)    ``start_norm``   units of X
-        False on padding                            ``real``         (rows, n)
=======  ==========================================  ===============  =========================

**Samples.** A batch of B samples has ``rows`` = B·C rows, where the C rows of a sample are adjacent: one per candidate of a question,
or C = 1. Norms are taken per sample, over all its rows, positions and channels. The norms are ``frobenius`` (called ``l2`` for pixels)
and ``linf``. With ``linf`` the step is α·sign g, the ball is a cube, and the start is uniform in the cube of half-side m.

Facts (tests/methods/test_perturbation.py): E‖δ_0‖² = m²/3, never above m; samples do not interact; a step is invariant to the
gradient's scale, so dividing the loss by K, or weighting it in data parallel training, changes nothing; padding stays 0 with
``mask="always"``.

Differs from the authors' code, which divides by max(‖g‖, 1e-8) or 1e-10 and so shrinks the steps of samples already learned. Here a
gradient is always divided by its norm, and a zero gradient gives no step. Their code masks padding at the start only; this corresponds
to ``mask="start"``. If a sample's gradient is not finite, its δ is not changed, and the skipped step is counted.

δ is at least float32, whatever the precision of the network; starts are drawn on the CPU, so they do not depend on the device.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import NamedTuple

import torch
from torch import Tensor

NORMS = ("frobenius", "l2", "linf")
MASKS = ("always", "start")


class Ascended(NamedTuple):
    """Result of an ascent step."""

    delta: Tensor
    skipped: Tensor
    """() int64: number of samples whose gradient was not finite and whose δ was kept."""


@dataclass(frozen=True)
class Ball:
    """The validated settings of δ.

    Args:
        eps: radius ε. With ``project=False`` it only serves as the default of ``start_norm`` and may be None.
        step_size: α.
        start_norm: m; None means ``eps``, 0 starts at zero.
        project: False leaves δ unconstrained (the authors' configurations write this as a radius of 0).
        mask: ``always``: padding is never perturbed; ``start``: δ is 0 on padding at the start and then follows its gradient.
        norm: one of :data:`NORMS`.

    Raises:
        ValueError: a value out of range.
    """

    eps: float | None
    step_size: float
    start_norm: float | None = None
    project: bool = True
    mask: str = "always"
    norm: str = "frobenius"

    def __post_init__(self) -> None:
        if self.project and self.eps is None:
            raise ValueError("eps: missing (allowed: 0 or more; it may be left out only with project: false)")
        for key in ("eps", "step_size", "start_norm"):
            value = getattr(self, key)
            if value is None and key != "step_size":
                continue
            number = isinstance(value, Real) and not isinstance(value, bool)
            if not number or not 0 <= float(value) < float("inf"):
                found = value if number else repr(value)
                raise ValueError(f"{key}: found {found} (allowed: 0 or more, finite)")
        if self.start_norm is None and self.eps is None:
            raise ValueError("start_norm: missing, and there is no eps as its default (allowed: 0 or more)")
        if self.norm not in NORMS:
            raise ValueError(f"norm: found {self.norm!r} (allowed: {', '.join(NORMS)})")
        if self.mask not in MASKS:
            raise ValueError(f"mask: found {self.mask!r} (allowed: {', '.join(MASKS)})")

    @property
    def magnitude(self) -> float:
        """m, the magnitude of the start."""
        found = self.eps if self.start_norm is None else self.start_norm
        assert found is not None
        return found

    @property
    def is_point(self) -> bool:
        """Whether δ is always 0, so that training is plain."""
        return (self.project and self.eps == 0) or (self.step_size == 0 and self.magnitude == 0)

    def start(
        self,
        shape: torch.Size | tuple[int, ...],
        samples: int,
        real: Tensor | None,
        device: torch.device,
        name: str = "real",
    ) -> Tensor:
        """δ_0 in the ball; if ``start_norm`` exceeds ``eps`` it is projected. ``name``: name of ``real`` in error messages."""
        delta = start(shape, samples, self.magnitude, real=real, norm=self.norm, device=device, name=name)
        return self.projected(delta, samples)

    def ascend(self, delta: Tensor, gradient: Tensor, samples: int, real: Tensor | None) -> Ascended:
        """δ_{t+1} from δ_t and its gradient."""
        masked = real if self.mask == "always" else None
        moved, skipped = ascend(delta, gradient, self.step_size, samples, real=masked, norm=self.norm)
        return Ascended(self.projected(moved, samples), skipped)

    def projected(self, delta: Tensor, samples: int) -> Tensor:
        """The nearest point of the ball; ``delta`` itself with ``project`` False."""
        if not self.project:
            return delta
        assert self.eps is not None
        return project(delta, self.eps, samples, norm=self.norm)


def norms(values: Tensor, samples: int, norm: str = "frobenius") -> Tensor:
    """(samples,): norm of each sample, computed without overflow or underflow of squares; not finite if an entry is not finite."""
    flat = values.reshape(samples, -1)
    largest = flat.abs().amax(1)
    if norm == "linf":
        return largest
    return largest * (flat / _divisor(largest)[:, None]).square().sum(1).sqrt()


def entries(
    shape: torch.Size | tuple[int, ...], samples: int, real: Tensor | None, name: str = "real"
) -> Tensor:
    """(samples,) float: N_δ, the number of non-padding entries of each sample. ``name``: name of ``real`` in error messages.

    Raises:
        ValueError: a sample that is all padding.
    """
    size = 1
    for length in shape:
        size *= length
    if real is None:
        return torch.full((samples,), size / samples)
    counts = real.reshape(samples, -1).sum(1).cpu()
    if not bool(counts.all()):
        empty = int((counts == 0).nonzero()[0])
        raise ValueError(f"{name}: sample {empty} is all padding (allowed: at least one token per sample)")
    return counts.float() * (size / real.numel())


def start(
    shape: torch.Size | tuple[int, ...],
    samples: int,
    magnitude: float,
    *,
    real: Tensor | None = None,
    norm: str = "frobenius",
    device: torch.device | str = "cpu",
    generator: torch.Generator | None = None,
    name: str = "real",
) -> Tensor:
    """δ_0 of ``shape``, float32: U(-1, 1)·m/√N_δ per sample (``linf``: U(-1, 1)·m), 0 on padding.

    Drawn on the CPU from ``generator`` (torch's global one by default); with a magnitude of 0 nothing is drawn.
    ``name``: name of ``real`` in error messages.

    Raises:
        ValueError: a sample that is all padding.
    """
    counts = entries(shape, samples, real, name)
    if magnitude == 0:
        return torch.zeros(shape, device=device)
    drawn = torch.rand(shape, generator=generator, dtype=torch.float32).mul_(2).sub_(1)
    scale = torch.full_like(counts, magnitude) if norm == "linf" else magnitude / counts.sqrt()
    drawn = (drawn.reshape(samples, -1) * scale[:, None]).reshape(shape).to(device)
    return drawn if real is None else mask_padding(drawn, real)


def ascend(
    delta: Tensor,
    gradient: Tensor,
    step_size: float,
    samples: int,
    *,
    real: Tensor | None = None,
    norm: str = "frobenius",
) -> Ascended:
    """One ascent step for every sample, without projection: α·g/‖g‖, or α·sign g for ``linf``; g = 0 gives no step."""
    gradient = gradient.to(delta.dtype)
    if real is not None:
        gradient = mask_padding(gradient, real)
    flat = gradient.reshape(samples, -1)
    largest = flat.abs().amax(1)  # not finite if an entry is not finite
    finite = largest.isfinite()
    if norm == "linf":
        direction = flat.sign()
    else:
        direction = (
            flat / _divisor(largest)[:, None]
        )  # before squaring, which would underflow for very small numbers
        direction = direction / _divisor(direction.square().sum(1).sqrt())[:, None]
    moved = torch.where(
        finite[:, None], delta.reshape(samples, -1) + step_size * direction, delta.reshape(samples, -1)
    )
    return Ascended(moved.reshape(delta.shape), (~finite).sum())


def project(delta: Tensor, eps: float, samples: int, norm: str = "frobenius") -> Tensor:
    """The nearest point of each sample's ball of radius ``eps``."""
    if norm == "linf":
        return delta.clamp(-eps, eps)
    factor = (eps / _divisor(norms(delta, samples))).clamp(max=1.0)
    return (delta.reshape(samples, -1) * factor[:, None]).reshape(delta.shape)


def mask_padding(values: Tensor, real: Tensor) -> Tensor:
    """``values`` (rows, n, d) set to 0, even if NaN, wherever ``real`` (rows, n) is False."""
    return values.masked_fill(~real.reshape(real.shape + (1,) * (values.dim() - real.dim())), 0.0)


def _divisor(values: Tensor) -> Tensor:
    return torch.where(values > 0, values, torch.ones_like(values))
