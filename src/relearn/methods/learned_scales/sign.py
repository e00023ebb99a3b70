"""SignSGD with momentum, applied to the norms of weight tensors."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from relearn.methods.learned_scales.adam import check_low


class ScaleSign:
    r"""Each norm n = α‖W‖ moves by a fixed amount against the sign of its derivative (Dauphin & Schoenholz 2019; Bernstein et al. 2018).

    .. math:: u \leftarrow \mu u - \tau\, \mathrm{sign}(\partial F / \partial n), \qquad n \leftarrow n + u

    ∂F/∂n and ∂F/∂α have the same sign. ``low`` bounds α, so that norms stay positive.

    Args:
        norms: ‖W‖ of the tensors, (M,).
        tau: step size, in units of the norm.
        momentum: μ.
        low: lower bound of α; ``None`` for no bound.
    """

    def __init__(self, norms: Tensor, tau: float, momentum: float, low: float | None = None) -> None:
        check_low(low)
        self.norms, self.tau, self.momentum, self.low = norms.double(), tau, momentum, low
        self.scales = torch.ones_like(self.norms)
        self.velocity = torch.zeros_like(self.norms)

    def step(self, gradient: Tensor, kind: int = 0) -> None:
        self.velocity = self.momentum * self.velocity - self.tau * gradient.sign()
        self.scales = self.scales + self.velocity / self.norms
        if self.low is not None:
            self.scales = self.scales.clamp(min=self.low)

    def state(self) -> dict[str, Any]:
        return {"scales": self.scales, "velocity": self.velocity}

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a saved state; raises ValueError if it has a different number of factors."""
        if len(state["scales"]) != len(self.scales):
            raise ValueError(
                f"checkpoint: {len(state['scales'])} scale factors, the network has {len(self.scales)}"
            )
        self.scales, self.velocity = state["scales"].clone(), state["velocity"].clone()
