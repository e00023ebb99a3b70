r"""Gradient ascent on the input: how large the norm of a Jacobian gets (kim2020, section 5.1, appendices I, K and L).

.. math:: \sup_X \|J_f(X)\|_p = \sup_X \max_{u \in \mathcal U_p} \|J_f(X)^\top u\|_{p^*}, \qquad
          \mathcal U_2 = \{\|u\|_2 = 1\},\; p^* = 2, \qquad \mathcal U_\infty = \{e_1, \ldots, e_m\},\; p^* = 1

Each step takes the best u there is to have, then an Adam step on X with u held fixed (which is the gradient of the norm itself,
where u is the maximiser). For p = inf the best row is found exactly. For p = two one step of power iteration improves u: with
:math:`v = J^\top u / \|J^\top u\|`, :math:`Jv` is the derivative of :math:`\|J^\top u\|` by u and costs nothing more. So each value
on the way is a lower bound on the norm at its X, and a step costs one forward, one backward and one backward pass through both.

All starts are optimised at once and do not touch each other. Whatever is returned as a value is computed anew in float64.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from relearn.measures.lipschitz.jacobian import jacobian_norm
from relearn.measures.lipschitz.products import pulled_rows

Function = Callable[[Tensor], Tensor]
ROOM = 1 << 22  # numbers that the rows of p = inf may take at a time, and
ROWS = 32  # the most of them


@dataclass(frozen=True)
class Ascent:
    """What the starts reached.

    Attributes:
        values: (S,) float64, the norm at ``inputs``, computed anew; never below ``first_values``.
        inputs: (S, ...), where the largest value of each start was found; its start, if none was above that.
        first_values: (S,) float64, the norm at the starts.
        curve: (steps, S), the running value before each step, a lower bound on the norm in the starts' precision. Not monotone:
            Adam overshoots. NaN once a start has left the finite numbers.
    """

    values: Tensor
    inputs: Tensor
    first_values: Tensor
    curve: Tensor

    @property
    def envelope(self) -> Tensor:
        """(steps, S), the best so far of :attr:`curve`."""
        return self.curve.nan_to_num(nan=-torch.inf).cummax(0).values

    @property
    def late_rise(self) -> float:
        """How much the largest of all starts still rose in the last tenth of the steps, relative: small means converged."""
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
        f: maps (S, ...) to (S, ...), each member of the batch for itself, twice differentiable (attention: ``fused = False``).
            A module in eval mode, or any callable; for one block row of an attention layer ``lambda x: layer.row(x, 0)``.
        starts: (S, ...), any precision; the ascent runs in it.
        p: "inf" or "two".
        steps: Adam steps; 0 measures the starts only.
        lr, eps: Adam's. A start from which f is all but flat moves by less than lr once its gradient is below ``eps``.
        exact: f in float64 (of a copy of its layers), for the values returned. Default: a float64 copy if f is a module, else f.
        batch: starts at a time, for memory; changes no result but by rounding. Default: all.
        tolerance: of the values returned, for p = two (see :func:`~relearn.measures.lipschitz.jacobian.jacobian_norm`).
        seed: of the first u (p = two).
        progress: called as ``progress(done, all)`` after each step of each batch.

    Raises:
        ValueError: another p, no start, numbers out of range, an f that mixes or drops members of the batch.
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
            search.gradient()  # looks at the last input too
            last = _norms(exact, search.best_x, p, tolerance, search.best_v)
        better = last > first
        inputs = torch.where(_like(better, part), search.best_x, part)
        done.append((torch.where(better, last, first), inputs, first, curve))
    values, best_inputs, first_values, curves = zip(*done)
    return Ascent(torch.cat(values), torch.cat(best_inputs), torch.cat(first_values), torch.cat(curves, 1))


class _Search:
    """Inputs on their way, with the u of each, and the best input so far with v = Jᵀu there."""

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
        # A seed a start, so that the u of a start does not depend on which others are in its batch.
        seeded = [torch.Generator().manual_seed(seed + i) for i in range(len(y))]
        chance = torch.stack([torch.randn(y.shape[1:], generator=one, dtype=torch.float64) for one in seeded])
        self.u = _unit(chance.to(y), chance.to(y))

    def gradient(self) -> Tensor:
        """‖Jᵀu‖ (S,) at the present inputs; its gradient goes to ``x.grad``. For p = two, u takes a step of power iteration."""
        with torch.enable_grad():
            y = self.f(self.x)
            if self.p == "inf":
                self.u = self._largest_rows(y)
            u = self.u.requires_grad_(self.p == "two")
            pulled = self._pulled(y, u)
            norms = torch.linalg.vector_norm(pulled.flatten(1), ord=1 if self.p == "inf" else 2, dim=1)
            slope, pushed = None, None
            if norms.requires_grad:
                wanted = (self.x, u) if self.p == "two" else (self.x,)
                slope, pushed = (*torch.autograd.grad(norms.sum(), wanted, allow_unused=True), None)[:2]
        self.u = u.detach() if pushed is None else _unit(pushed, u.detach())
        self.x.grad = torch.zeros_like(self.x) if slope is None else slope
        norms = norms.detach()
        better = (norms > self.best) & norms.isfinite()
        self.best = torch.where(better, norms, self.best)
        self.best_x = torch.where(_like(better, self.x), self.x.detach(), self.best_x)
        self.best_v = torch.where(_like(better, self.x), pulled.detach(), self.best_v)
        return norms

    def _pulled(self, y: Tensor, u: Tensor) -> Tensor:
        found = None
        if y.requires_grad:
            (found,) = torch.autograd.grad(y, self.x, u, create_graph=True, allow_unused=True)
        return torch.zeros_like(self.x) if found is None else found

    def _largest_rows(self, y: Tensor) -> Tensor:
        """For each member of the batch the basis vector e_i of its row with the largest sum."""
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
    """The norms (S,) at these inputs, each from scratch in float64."""
    found = []
    for i, x in enumerate(inputs.double()):
        guess = None if guesses is None else guesses[i]
        norm = jacobian_norm(lambda z: f(z[None])[0], x, p, tolerance=tolerance, start=guess)
        found.append(norm.value)
    return inputs.new_tensor(found, dtype=torch.float64)


def _unit(u: Tensor, otherwise: Tensor) -> Tensor:
    """Each member scaled to length 1; where it is 0 or not finite, ``otherwise``."""
    length = _like(torch.linalg.vector_norm(u.reshape(len(u), -1), dim=1), u)
    return torch.where((length > 0) & length.isfinite(), u / length, otherwise)


def _like(batch: Tensor, x: Tensor) -> Tensor:
    """(S,) with as many axes as x."""
    return batch.view(-1, *[1] * (x.dim() - 1))
