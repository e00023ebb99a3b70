"""State of the crafting loop (poisons, Adam's moments, coefficients) and its form in a checkpoint."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

BETAS = (0.9, 0.999)
ADAM_EPS = 1e-8
COEFFICIENTS = "coefficients"
PLAIN = (bool, int, float, str, type(None))


def fingerprint(settings: Iterable[Any], attack: Any, tensors: Iterable[Tensor]) -> int:
    """60 bits of the sha256 of a run's settings, tensors and attack.

    Of the attack count its name, and the numbers and texts that it and the functions in it hold, no further objects.
    """
    told = hashlib.sha256(repr([*settings]).encode())
    for one in (attack, *vars(attack).values()):
        cells = getattr(one, "__closure__", None) or ()
        held = [*(vars(one).values() if one is attack else ()), *(cell.cell_contents for cell in cells)]
        name = getattr(one, "__qualname__", type(one).__qualname__)
        told.update(repr([name, *(value for value in held if isinstance(value, PLAIN))]).encode())
    for tensor in tensors:
        told.update(tensor.detach().cpu().reshape(-1).view(torch.uint8).numpy().tobytes())
    return int(told.hexdigest()[:15], 16)


class State:
    """Poisons within the box [lower, upper], updated by Adam.

    Adam is implemented here so that its moments are plain tensors of the checkpoint.
    """

    made_from: int | None = None  # the `fingerprint`, if there is a checkpoint

    def __init__(self, poisons: Tensor, eps: float) -> None:
        self.poisons = poisons
        self.lower, self.upper = (poisons - eps).clamp_min(0), (poisons + eps).clamp_max(1)
        self.first, self.second = torch.zeros_like(poisons), torch.zeros_like(poisons)
        self.coefficients: dict[int, Tensor] = {}  # by substitute, (T, k)
        self.iteration = 0
        self.jumps = 0  # iterations that were no step of Adam
        self.history: list[dict[str, Any]] = []

    def step(self, gradient: Tensor, std: Tensor, lr: float) -> None:
        """One Adam step on pixels / std, given the gradient w.r.t. pixels, followed by projection to the box."""
        self.iteration += 1
        gradient = gradient * std
        self.first.lerp_(gradient, 1 - BETAS[0])
        self.second.mul_(BETAS[1]).addcmul_(gradient, gradient, value=1 - BETAS[1])
        steps = self.iteration - self.jumps
        size = lr / (1 - BETAS[0] ** steps)
        spread = self.second.sqrt() / math.sqrt(1 - BETAS[1] ** steps) + ADAM_EPS
        moved = self.poisons - size * std * self.first / spread
        self.poisons = torch.minimum(torch.maximum(moved, self.lower), self.upper)

    def dump(self) -> dict[str, Any]:
        """Everything the next iteration depends on: copies of tensors, and ints."""
        state: dict[str, Any] = {
            "iteration": self.iteration,
            "jumps": self.jumps,
            "rng": torch.get_rng_state(),
        }
        state |= {"poisons": self.poisons.clone(), "first": self.first.clone(), "second": self.second.clone()}
        if self.made_from is not None:
            state["made_from"] = self.made_from
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
            ValueError: the dump belongs to another run (a dump without fingerprint: to other bases or another eps), or has more than
                `iterations` iterations.
        """
        poisons, iteration = state["poisons"].to(self.lower), int(state["iteration"])
        own = state.get("made_from", self.made_from) == self.made_from and poisons.shape == self.lower.shape
        if not own or not ((poisons >= self.lower) & (poisons <= self.upper)).all():
            raise ValueError(
                "checkpoint: of other settings, networks, bases or targets; delete it to start anew"
            )
        if not 0 < iteration <= iterations:
            raise ValueError(f"checkpoint: iteration is {iteration}; allowed: 1 to {iterations}")
        self.poisons, self.iteration, self.jumps = poisons, iteration, int(state.get("jumps", 0))
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
