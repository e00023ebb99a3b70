"""Records the loss of every training step without synchronising with the device at every step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor


class LossMeter:
    """Losses, their weights and gradient norms since the last row of the history.

    :meth:`add` only stores references. :meth:`settle` moves them to the host, which is the only synchronisation, and detects a divergence
    with its exact step. In data parallel training a step's loss is the sum of the processes' weighted contributions.

    Args:
        diverged_above: a loss above this value also counts as a divergence.
        add_up: function that sums over processes, if there are several.
    """

    def __init__(
        self, diverged_above: float | None = None, add_up: Callable[[Tensor], Tensor] | None = None
    ) -> None:
        self.diverged_above, self.add_up = diverged_above, add_up
        self.losses: list[float] = []
        self.weights: list[float] = []
        self.norms: list[float] = []
        self._pending: tuple[list[Tensor], list[Any], list[Tensor]] = ([], [], [])

    def add(self, loss: Tensor, weight: Tensor | float, norm: Tensor | None) -> None:
        losses, weights, norms = self._pending
        losses.append(loss.detach().reshape(()))
        weights.append(weight)
        if norm is not None:
            norms.append(norm)

    def settle(self) -> int | None:
        """Process the pending losses; returns the number of steps between the first divergence and the last step, or None."""
        losses, weights, norms = self._pending
        self._pending = ([], [], [])
        if not losses:
            return None
        values = torch.stack(losses).double()
        if self.add_up:
            values = self.add_up(values)
        values = values.cpu()
        bad = ~values.isfinite()
        if self.diverged_above is not None:
            bad |= values > self.diverged_above
        if bad.any():
            return len(values) - 1 - int(bad.nonzero()[0])
        self.losses += values.tolist()
        if isinstance(weights[0], Tensor):
            weights = torch.stack(weights).tolist()
        self.weights += [float(weight) for weight in weights]
        if norms:
            self.norms += torch.stack(norms).double().cpu().tolist()
        return None

    def row(self) -> dict[str, float]:
        """The weighted mean loss, and the mean gradient norm if norms were recorded; resets the meter."""
        losses = torch.tensor(self.losses, dtype=torch.float64)
        weights = torch.tensor(self.weights, dtype=torch.float64)
        means = {"loss": float((losses * weights).sum() / weights.sum())}
        if self.norms:
            means["gradient_norm"] = sum(self.norms) / len(self.norms)
        self.losses, self.weights, self.norms = [], [], []
        return means

    def __bool__(self) -> bool:
        return bool(self.losses or self._pending[0])

    def state(self) -> dict[str, list[float]]:
        return {"losses": list(self.losses), "weights": list(self.weights), "norms": list(self.norms)}

    def restore(self, state: Mapping[str, list[float]]) -> None:
        self.losses, self.weights = list(state["losses"]), list(state["weights"])
        self.norms = list(state["norms"])
