"""Derivatives of GradInit's objective and constraint with respect to the scale factors (formulas in the package's docstring)."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from relearn.methods.learned_scales import Row, ScaledWeights, random_state, set_random_state
from relearn.methods.learned_scales.second_order import SecondOrder

OBJECTIVE, CONSTRAINT = 0, 1


def gradient_norm(gradient: Sequence[Tensor], optimizer: str) -> Tensor:
    """‖g‖ over all elements of all tensors: L2 for ``sgd``, L1 for ``adam``."""
    order = 2.0 if optimizer == "sgd" else 1.0
    each = torch.stack([torch.linalg.vector_norm(one, order) for one in gradient])
    return torch.linalg.vector_norm(each, order)


def direction(gradient: Sequence[Tensor], optimizer: str, normalised: bool) -> list[Tensor]:
    """A[g], the first direction of the optimiser: g or g/‖g‖₂ (``sgd``), sign g (``adam``)."""
    if optimizer == "adam":
        return [one.sign() for one in gradient]
    if normalised:
        size = gradient_norm(gradient, "sgd").clamp_min(torch.finfo(gradient[0].dtype).tiny)
        return [one / size for one in gradient]
    return list(gradient)


def norm_direction(gradient: Sequence[Tensor], optimizer: str) -> list[Tensor]:
    """v = ∂‖g‖/∂g: g/‖g‖₂ or sign g; 0 where g is 0."""
    return direction(gradient, optimizer, normalised=True)


class Derivative:
    """The derivative with respect to the factors, for one iteration at given factors."""

    def __init__(
        self,
        weights: ScaledWeights,
        loss: Callable[..., Tensor],
        *,
        optimizer: str,
        eta: float,
        gamma: float,
        normalised: bool,
        divide_by_eta: bool,
    ) -> None:
        self.weights, self.loss = weights, loss
        self.optimizer, self.eta, self.gamma, self.normalised = optimizer, eta, gamma, normalised
        self.divisor = eta if divide_by_eta else 1.0
        self.expected = OBJECTIVE

    def expect(self, constraint: bool) -> None:
        """Set which branch the next iteration will probably take. This affects speed only, not the result."""
        self.expected = CONSTRAINT if constraint else OBJECTIVE

    def constrained(
        self, scales: Tensor, first: Sequence[Any], second: Sequence[Any]
    ) -> tuple[int, Tensor, Row]:
        """One iteration of algorithm 4: its kind, the derivative (M,), and a history row."""
        theta = self.weights.at(scales)
        # Constraint iterations come in sequences, so after one of them the graph is built for second derivatives in advance. If the guess
        # is wrong, the forward pass is repeated with the same draws, or the graph was built needlessly; the numbers are the same.
        twice = SecondOrder(theta) if self.expected == CONSTRAINT else None
        random = random_state(theta[0].device)
        value = self._loss(theta, first, twice)
        if twice is not None:
            gradient = twice.gradient(value)
        else:
            gradient = list(torch.autograd.grad(value, theta, materialize_grads=True))
        loss, size = self._numbers(value, gradient)
        row: Row = {"kind": "constraint", "loss": loss, "gradient_norm": size}
        self.expect(size > self.gamma)
        if self.expected == CONSTRAINT:
            v = norm_direction(gradient, self.optimizer)
            del gradient
            if twice is None:
                twice = SecondOrder(theta)
                set_random_state(random, theta[0].device)
                value = self._loss(theta, first, twice)
            return CONSTRAINT, self._curvature(twice, value, theta, v), row
        del twice
        del value
        row["kind"] = "objective"
        derivative, row["objective"] = self._look_ahead(theta, gradient, second)
        return OBJECTIVE, derivative, row

    def penalised(
        self, scales: Tensor, first: Sequence[Any], second: Sequence[Any], strength: float
    ) -> tuple[int, Tensor, Row]:
        """∂(L̃ + λ‖g‖)/∂α, section 4.2.6."""
        theta = self.weights.at(scales)
        twice = SecondOrder(theta)
        value = self._loss(theta, first, twice)
        gradient = twice.gradient(value)
        loss, size = self._numbers(value, gradient)
        by_norm = self._curvature(twice, value, theta, norm_direction(gradient, self.optimizer))
        del value, twice
        by_loss, objective = self._look_ahead(theta, gradient, second)
        row: Row = {"kind": "penalty", "loss": loss, "gradient_norm": size, "objective": objective}
        return OBJECTIVE, by_loss + strength * by_norm, row

    def _loss(
        self, theta: Sequence[Tensor], batch: Sequence[Any], twice: SecondOrder | None = None
    ) -> Tensor:
        with twice or contextlib.nullcontext():
            return self.weights.loss(theta, self.loss, batch)

    def _numbers(self, value: Tensor, gradient: Sequence[Tensor]) -> list[float]:
        """L and ‖g‖, with one transfer from the device."""
        norm = gradient_norm(gradient, self.optimizer)
        return torch.stack([value.detach().double(), norm.double()]).tolist()

    def _curvature(
        self, twice: SecondOrder, value: Tensor, theta: Sequence[Tensor], v: Sequence[Tensor]
    ) -> Tensor:
        """⟨(H v)_i, W_i⟩."""
        return self.weights.by_scale(twice.along(value, v, self.weights.scaled(theta)))

    def _look_ahead(
        self, theta: Sequence[Tensor], gradient: list[Tensor], second: Sequence[Any]
    ) -> tuple[Tensor, float]:
        """⟨∇_θ_i L(S̃; θ - ηA[g]), W_i⟩ and the loss at θ - ηA[g]; overwrites ``theta`` and empties ``gradient``."""
        with torch.no_grad():
            step = direction(gradient, self.optimizer, self.normalised)
            ahead = [one.detach().sub_(along, alpha=self.eta) for one, along in zip(theta, step)]
        # This also empties the caller's list, so the second set of weights and the gradient are not in memory at the same time.
        gradient.clear()
        del step
        for one in ahead:
            one.requires_grad_()
        value = self._loss(ahead, second)
        by_theta = torch.autograd.grad(value, self.weights.scaled(ahead), materialize_grads=True)
        return self.weights.by_scale(by_theta) / self.divisor, float(value.detach())
