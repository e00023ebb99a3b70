r"""Maximise the norm of a Jacobian by gradient ascent on the input (kim2020, section 5.1, appendices I, K and L).

.. math:: \sup_X \|J_f(X)\|_p = \sup_X \max_{u \in \mathcal U_p} \|J_f(X)^\top u\|_{p^*}, \qquad
          \mathcal U_2 = \{\|u\|_2 = 1\},\; p^* = 2, \qquad \mathcal U_\infty = \{e_1, \ldots, e_m\},\; p^* = 1

Each step finds the best available u, then takes an Adam step on X with u fixed (if u is the maximiser, this is the gradient of the
norm itself). For p = inf the best row is found exactly. For p = two, one step of power iteration improves u: with
:math:`v = J^\top u / \|J^\top u\|`, :math:`Jv` is the derivative of :math:`\|J^\top u\|` with respect to u and costs nothing extra. So
each intermediate value is a lower bound on the norm at its X, and a step costs one forward pass, one backward pass and one backward pass
through both.

All starts are optimised at once and do not influence each other. The returned values are recomputed in float64.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from relearn.measures.lipschitz.jacobian import jacobian_norm, require_fixed
from relearn.measures.lipschitz.products import pulled_rows

Function = Callable[[Tensor], Tensor]
ROOM = 1 << 22  # for p = inf: maximum number of entries in the rows computed at a time,
ROWS = 32  # and maximum number of rows


@dataclass(frozen=True)
class Ascent:
    """Result of the ascent from each start.

    Attributes:
        values: (S,) float64, the norm at ``inputs``, recomputed; at least ``first_values``.
        inputs: (S, ...), the input with the largest value for each start; the start itself if none exceeded it.
        first_values: (S,) float64, the norm at the starts.
        curve: (steps, S), the running value before each step, a lower bound on the norm in the precision of the starts. Not monotone,
            because Adam overshoots. NaN once an input is no longer finite.
    """

    values: Tensor
    inputs: Tensor
    first_values: Tensor
    curve: Tensor

    @property
    def envelope(self) -> Tensor:
        """(steps, S), the running maximum of :attr:`curve`."""
        return self.curve.nan_to_num(nan=-torch.inf).cummax(0).values

    @property
    def late_rise(self) -> float:
        """Relative increase of the largest value over all starts in the last tenth of the steps; small means converged."""
        if len(self.curve) < 2:
            return 0.0
        best = self.envelope.amax(1)
        before = best[-1 - max(1, len(best) // 10)]
        return float((best[-1] - before) / best[-1].clamp_min(torch.finfo(best.dtype).tiny))


def ascend(
    f: Function,
    starts: Tensor,
    *,
    p: str = "inf",
    steps: int,
    lr: float = 0.1,
    eps: float = 1e-8,
    exact: Function | None = None,
    batch: int | None = None,
    tolerance: float = 1e-4,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> Ascent:
    """Maximise ‖J_f(x)‖_p over the input, from several starts.

    Args:
        f: maps (S, ...) to (S, ...), independently for each member of the batch, twice differentiable (attention: ``fused = False``).
            A module in eval mode, or any callable; for one block row of an attention layer ``lambda x: layer.row(x, 0)``.
        starts: (S, ...), any precision; the ascent uses that precision.
        p: "inf" or "two".
        steps: number of Adam steps; 0 only measures the starts.
        lr, eps: Adam's. A start at which f is almost flat moves by less than lr once its gradient is below ``eps``.
        exact: f in float64 (with a copy of its layers), for the returned values. Default: a float64 copy if f is a module, else f.
        batch: number of starts processed at a time, to limit memory; affects results only through rounding. Default: all.
        tolerance: relative tolerance of the returned values for p = two (see :func:`~relearn.measures.lipschitz.jacobian.jacobian_norm`).
        seed: seed of the initial u (p = two).
        progress: called as ``progress(done, all)`` after each step of each batch.

    Raises:
        ValueError: an unknown p, no starts, numbers out of range, an f that mixes or drops members of the batch, or one that
            :func:`~relearn.measures.lipschitz.jacobian.require_fixed` rejects.
    """
    if p not in ("inf", "two"):
        raise ValueError(f"p: {p!r} (allowed: inf, two)")
    if starts.dim() < 2 or not starts.numel() or not starts.is_floating_point():
        raise ValueError(
            f"starts: shape {tuple(starts.shape)}, {starts.dtype} (allowed: (S, ...) of floating point, S >= 1)"
        )
    if steps < 0 or lr <= 0 or eps <= 0 or (batch is not None and batch < 1):
        raise ValueError(
            f"steps {steps}, lr {lr}, eps {eps}, batch {batch} (allowed: steps >= 0, others positive)"
        )
    for one in (f, exact or f):
        require_fixed(one)
    if exact is None:
        exact = copy.deepcopy(f).double() if isinstance(f, nn.Module) else f
    parts = starts.detach().split(batch or len(starts))
    done: list[tuple[Tensor, Tensor, Tensor, Tensor]] = []
    for number, part in enumerate(parts):
        search = _Search(f, part, p, seed + number * len(parts[0]))
        optimiser = torch.optim.Adam([search.x], lr=lr, eps=eps, maximize=True)
        curve = part.new_empty(steps, len(part))
        for step in range(steps):
            curve[step] = search.gradient()
            optimiser.step()
            if progress:
                progress(number * steps + step + 1, len(parts) * steps)
        first = last = _norms(exact, part, p, tolerance, None)
        if steps:
            search.gradient()  # evaluates the last input too
            last = _norms(exact, search.best_x, p, tolerance, search.best_v)
        better = last > first
        inputs = torch.where(_like(better, part), search.best_x, part)
        done.append((torch.where(better, last, first), inputs, first, curve))
    values, best_inputs, first_values, curves = zip(*done)
    return Ascent(torch.cat(values), torch.cat(best_inputs), torch.cat(first_values), torch.cat(curves, 1))


class _Search:
    """State of the ascent: current inputs with their u, and the best inputs so far with their v = Jᵀu."""

    def __init__(self, f: Function, starts: Tensor, p: str, seed: int) -> None:
        self.f, self.p = f, p
        self.x = starts.clone().requires_grad_()
        self.best = starts.new_full((len(starts),), -torch.inf)
        self.best_x, self.best_v = starts.clone(), torch.zeros_like(starts)
        with torch.no_grad():
            y = f(starts)
        if not isinstance(y, Tensor) or y.dim() < 1 or len(y) != len(starts):
            found = tuple(y.shape) if isinstance(y, Tensor) else type(y).__name__
            raise ValueError(
                f"f: returns {found} for {tuple(starts.shape)} (allowed: the batch's size first)"
            )
        # One seed per start, so that the u of a start does not depend on the other starts in its batch.
        seeded = [torch.Generator().manual_seed(seed + i) for i in range(len(y))]
        chance = torch.stack([torch.randn(y.shape[1:], generator=one, dtype=torch.float64) for one in seeded])
        self.u = _normalise(chance.to(y), chance.to(y))

    def gradient(self) -> Tensor:
        """Return ‖Jᵀu‖ (S,) at the current inputs, and store its gradient in ``x.grad``; for p = two, also improve u."""
        with torch.enable_grad():
            y = self.f(self.x)
            if self.p == "inf":
                self.u = self._largest_rows(y)
            u = self.u.requires_grad_(self.p == "two")
            pulled = self._pull(y, u)
            norms = torch.linalg.vector_norm(pulled.flatten(1), ord=1 if self.p == "inf" else 2, dim=1)
            slope, pushed = None, None
            if norms.requires_grad:
                wanted = (self.x, u) if self.p == "two" else (self.x,)
                slope, pushed = (*torch.autograd.grad(norms.sum(), wanted, allow_unused=True), None)[:2]
        self.u = u.detach() if pushed is None else _normalise(pushed, u.detach())
        self.x.grad = torch.zeros_like(self.x) if slope is None else slope
        norms = norms.detach()
        better = (norms > self.best) & norms.isfinite()
        self.best = torch.where(better, norms, self.best)
        self.best_x = torch.where(_like(better, self.x), self.x.detach(), self.best_x)
        self.best_v = torch.where(_like(better, self.x), pulled.detach(), self.best_v)
        return norms

    def _pull(self, y: Tensor, u: Tensor) -> Tensor:
        found = None
        if y.requires_grad:
            (found,) = torch.autograd.grad(y, self.x, u, create_graph=True, allow_unused=True)
        return torch.zeros_like(self.x) if found is None else found

    def _largest_rows(self, y: Tensor) -> Tensor:
        """For each member of the batch, return the basis vector e_i of the Jacobian row with the largest sum."""
        outputs = y[0].numel()
        if outputs == 1:
            return torch.ones_like(y)
        basis = torch.eye(outputs, dtype=y.dtype, device=y.device).view(outputs, 1, *y.shape[1:])
        sums = []
        for some in basis.split(max(1, min(ROWS, ROOM // self.x.numel()))):
            rows = pulled_rows(y, self.x, some.expand(-1, *y.shape))
            sums.append(rows.flatten(2).abs().sum(2))
        return basis[torch.cat(sums).nan_to_num().argmax(0), 0]


def _norms(f: Function, inputs: Tensor, p: str, tolerance: float, guesses: Tensor | None) -> Tensor:
    """Return the norms (S,) at these inputs, each recomputed in float64."""
    found = []
    for i, x in enumerate(inputs.double()):
        guess = None if guesses is None else guesses[i]
        norm = jacobian_norm(lambda z: f(z[None])[0], x, p, tolerance=tolerance, start=guess)
        found.append(norm.value)
    return inputs.new_tensor(found, dtype=torch.float64)


def _normalise(u: Tensor, otherwise: Tensor) -> Tensor:
    """Scale each member to length 1; use ``otherwise`` where it is 0 or not finite."""
    length = _like(torch.linalg.vector_norm(u.reshape(len(u), -1), dim=1), u)
    return torch.where((length > 0) & length.isfinite(), u / length, otherwise)


def _like(batch: Tensor, x: Tensor) -> Tensor:
    """Reshape (S,) to as many axes as x has."""
    return batch.view(-1, *[1] * (x.dim() - 1))
