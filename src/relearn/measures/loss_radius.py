r"""For each sample, a radius within which a reference model answers correctly (zhu2022, section 3.5.3 and its footnote 11).

The largest increase of the loss, :func:`relearn.measures.loss_increase.largest_increase`, is not comparable across samples in balls of
the same size, because near a decision boundary it is huge for any model. So each sample is tried with the radii

.. math:: \varepsilon_j = (1 - j s)\,\varepsilon_0 > 0, \qquad j = 0, 1, \ldots

until the reference classifies it correctly under a full attack. All models are then compared at that radius, which favours the
reference; hence there is more than one reference.

=========  ==================================  ==============  =========
symbol     meaning                             code            unit
=========  ==================================  ==============  =========
ε_0        the first radius, one per sample    ``first``       as X
s          linear decrement, relative to ε_0   ``shrink``      fraction
ε_j        the first successful radius         ``Radii.eps``   as X
=========  ==================================  ==============  =========

The text does not define "correctly under the attack". Here every point visited by the attack must be classified correctly, from all
starts, including X and the last point. This costs nothing extra and is at least as strict as checking only the last point. A sample
without such a radius is excluded and reported.

Every sample proceeds through radii, starts and steps at its own pace, all in one batch: after a wrong answer it restarts at once in the
next smaller ball, and a decided sample is attacked no further. The result equals that of plain loops
(tests/measures/test_loss_radius.py).
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from relearn.measures.loss_increase import Losses, check_arguments, like, look, start_of, uphill

CHECK = 25  # number of steps between checks for decided samples, each of which synchronises with the device


class Radii(NamedTuple):
    """Result of a search, in the order of the samples."""

    eps: Tensor
    """First radius at which every visited point was classified correctly, (S,); 0 if there is none."""
    held: Tensor
    """Whether there is such a radius, (S,) bool; other samples are dropped."""
    increases: Tensor
    """The reference's largest increase at that radius, as by ``largest_increase``, (S,) float64; NaN for dropped samples."""
    losses: Tensor
    """Loss at X, (S,) float64."""
    nonfinite: Tensor
    """Number of evaluations with a non-finite loss, (S,) int64."""


def search_eps(
    losses_of: Callable[[Tensor], Losses],
    embeds: Tensor,
    real: Tensor,
    first: float | Tensor,
    *,
    shrink: float,
    steps: int,
    step_size: float,
    starts: int = 1,
    seed: int = 0,
    numbers: Sequence[int] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Radii:
    """Find each sample's radius, and the reference's Δ L_max at it. Call it inside :func:`~relearn.maths.eval_mode.frozen`.

    Args:
        losses_of: indices of samples (R,) int64 → the function ``losses`` for these samples, in this order, with answers.
        first: the first radius, a number or (S,).
        shrink: decrement of the radius as a fraction of the first; above 0, at most 1 (1: a single radius).
        embeds, real, steps, step_size, starts, seed, numbers: see :func:`relearn.measures.loss_increase.largest_increase`.
        progress: called as ``progress(decided, all)`` after every ``CHECK`` steps.

    Raises:
        ValueError: as ``largest_increase``; a ``shrink`` out of range; losses without answers (regression).
    """
    if not 0 < shrink <= 1:
        raise ValueError(f"shrink: {shrink} (allowed: above 0, at most 1)")
    x, radius, names = check_arguments(embeds, real, first, steps, step_size, starts, numbers)
    noise = [start_of(x, real, seed, names, start) for start in range(1, starts)]
    now = _Search(x, ~real[..., None], radius, factors(shrink), noise, steps, step_size)
    ended: list[_Search] = []
    while len(now.rows):
        losses = losses_of(now.rows)
        for _ in range(CHECK):
            now.step(losses)
        done = ~now.open
        if bool(done.any()):
            ended.append(now.part(done))
            now = now.part(~done)
        if progress:
            progress(len(x) - len(now.rows), len(x))
    order = torch.cat([one.rows for one in ended]).argsort()
    eps, held, best, clean, nonfinite = (
        torch.cat([getattr(one, name) for one in ended])[order]
        for name in ("eps", "held", "best", "clean", "nonfinite")
    )
    return Radii(
        torch.where(held, eps, 0.0), held, torch.where(held, best - clean, torch.nan), clean, nonfinite
    )


def factors(shrink: float) -> list[float]:
    """Return the radii to try as fractions of the first: 1, 1 - s, 1 - 2 s, … above 0."""
    return [1 - level * shrink for level in range(math.ceil(1 / shrink - 1e-9))]


class _Search:
    """Samples in progress; each has its own radius, start and step."""

    WHOLE = ("factors", "levels", "steps", "step_size")  # attributes that are not per sample

    def __init__(
        self,
        x: Tensor,
        padding: Tensor,
        first: Tensor,
        shares: list[float],
        noise: list[Tensor],
        steps: int,
        step_size: float,
    ) -> None:
        self.factors, self.levels, self.steps, self.step_size = (
            first.new_tensor(shares),
            len(shares),
            steps,
            step_size,
        )
        self.x, self.padding, self.first = x, padding, first
        self.noise = noise  # offsets of all starts but the first, which is at 0
        self.rows = torch.arange(len(x), device=x.device)
        self.level, self.start, self.taken, self.nonfinite = (torch.zeros_like(self.rows) for _ in range(4))
        self.eps, self.delta = first * self.factors[0], torch.zeros_like(x)
        self.open = torch.ones_like(self.rows, dtype=torch.bool)
        self.seen = torch.zeros_like(self.open)
        self.clean = self.best = torch.zeros_like(first, dtype=torch.float64)

    def step(self, losses: Losses) -> None:
        """Evaluate and move all samples by one step; decided ones are only carried along."""
        value, right, gradient = look(losses, self.x + self.delta, answers=True)
        finite = value.isfinite()
        self.nonfinite = self.nonfinite + (self.open & ~finite)
        self.clean = torch.where(self.seen, self.clean, value)  # the first evaluation is at X itself
        self.best = torch.where(self.seen, self.best, value)
        self.best = torch.where(self.open & finite & (value > self.best), value, self.best)

        failed = self.open & ~right
        passed = self.open & right & (self.taken == self.steps)
        self.best = torch.where(failed, self.clean, self.best)  # a smaller ball has its own maximum
        # a wrong answer at X itself is wrong in every ball
        self.level = torch.where(failed & ~self.seen, self.levels, self.level + failed)
        self.start = torch.where(failed, 0, self.start + passed)
        self.open = self.open & (self.level < self.levels) & (self.start <= len(self.noise))
        self.seen = torch.ones_like(self.seen)

        self.eps = self.first * self.factors[self.level.clamp(max=self.levels - 1)]
        moved = uphill(self.delta, gradient, self.padding, self.eps, self.step_size)
        anew = failed | passed
        self.delta = torch.where(like(anew, moved), self._begin(), moved)
        self.taken = torch.where(anew, 0, self.taken + 1)

    def _begin(self) -> Tensor:
        """Return the starting point of each sample's current start."""
        found = torch.zeros_like(self.x)
        for number, noise in enumerate(self.noise, 1):
            found = torch.where(like(self.start == number, noise), noise * like(self.eps, noise), found)
        return found

    @property
    def held(self) -> Tensor:
        """For decided samples (R,): whether a radius was found."""
        return self.level < self.levels

    def part(self, chosen: Tensor) -> _Search:
        """Return only the chosen samples."""
        other = copy.copy(self)
        for name, value in vars(self).items():
            if name == "noise":
                other.noise = [one[chosen] for one in value]
            elif name not in self.WHOLE:
                setattr(other, name, value[chosen])
        return other
