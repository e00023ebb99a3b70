"""State of the crafting loop (poisons, Adam's moments, coefficients) and its form in a checkpoint."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

BETAS = (0.9, 0.999)
ADAM_EPS = 1e-8
COEFFICIENTS = "coefficients"


class State:
    """Poisons within the box [lower, upper], updated by Adam.

    Adam is implemented here so that its moments are plain tensors of the checkpoint.
    """

    def __init__(self, poisons: Tensor, eps: float) -> None:
        self.poisons = poisons
        self.lower, self.upper = (poisons - eps).clamp_min(0), (poisons + eps).clamp_max(1)
        self.first, self.second = torch.zeros_like(poisons), torch.zeros_like(poisons)
        self.coefficients: dict[int, Tensor] = {}  # by substitute, (T, k)
        self.iteration = 0
        self.history: list[dict[str, Any]] = []

    def step(self, gradient: Tensor, std: Tensor, lr: float) -> None:
        """One Adam step on pixels / std, given the gradient w.r.t. pixels, followed by projection to the box."""
        self.iteration += 1
        gradient = gradient * std
        self.first.lerp_(gradient, 1 - BETAS[0])
        self.second.mul_(BETAS[1]).addcmul_(gradient, gradient, value=1 - BETAS[1])
        size = lr / (1 - BETAS[0] ** self.iteration)
        spread = self.second.sqrt() / math.sqrt(1 - BETAS[1] ** self.iteration) + ADAM_EPS
        moved = self.poisons - size * std * self.first / spread
        self.poisons = torch.minimum(torch.maximum(moved, self.lower), self.upper)

    def dump(self) -> dict[str, Any]:
        """Everything the next iteration depends on: copies of tensors, and one int."""
        state: dict[str, Any] = {"iteration": self.iteration, "rng": torch.get_rng_state()}
        state |= {"poisons": self.poisons.clone(), "first": self.first.clone(), "second": self.second.clone()}
        if self.poisons.is_cuda:
            state["rng_cuda"] = torch.cuda.get_rng_state(self.poisons.device)
        state |= {f"{COEFFICIENTS}{i}": c.clone() for i, c in self.coefficients.items()}
        rows = [[row["loss_sum"], row["loss_mean"], *row.get("watch", ())] for row in self.history]
        width = max(map(len, rows))
        state["history"] = torch.tensor(
            [row + [math.nan] * (width - len(row)) for row in rows], dtype=torch.float64
        )
        return state

    def restore(self, state: dict[str, Any], iterations: int) -> None:
        """Continue from a dump.

        Raises:
            ValueError: the dump belongs to other bases or another eps, or has more than `iterations` iterations.
        """
        poisons, iteration = state["poisons"].to(self.lower), int(state["iteration"])
        inside = (
            poisons.shape == self.lower.shape and ((poisons >= self.lower) & (poisons <= self.upper)).all()
        )
        if not inside:
            raise ValueError(
                "checkpoint: its poisons do not belong to these bases and eps; delete it to start anew"
            )
        if not 0 < iteration <= iterations:
            raise ValueError(f"checkpoint: iteration is {iteration}; allowed: 1 to {iterations}")
        self.poisons, self.iteration = poisons, iteration
        self.first, self.second = (
            state["first"].to(self.lower).clone(),
            state["second"].to(self.lower).clone(),
        )
        self.coefficients = {
            int(name.removeprefix(COEFFICIENTS)): c.to(self.lower.device)
            for name, c in state.items()
            if name.startswith(COEFFICIENTS)
        }
        self.history = [_row(i, values) for i, values in enumerate(state["history"].tolist(), start=1)]
        torch.set_rng_state(state["rng"].cpu())
        if "rng_cuda" in state and self.poisons.is_cuda:
            torch.cuda.set_rng_state(state["rng_cuda"].cpu(), self.poisons.device)


def _row(iteration: int, values: list[float]) -> dict[str, Any]:
    row: dict[str, Any] = {"iteration": iteration, "loss_sum": values[0], "loss_mean": values[1]}
    if values[2:] and not all(map(math.isnan, values[2:])):
        row["watch"] = values[2:]
    return row
