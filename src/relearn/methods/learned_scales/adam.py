"""Adam for a vector of scale factors, on the host and in double precision."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

MOMENTS = ("shared", "split")


def check_low(low: float | None) -> None:
    """ValueError unless a lower bound of the factors is ``None`` or in (0, 1]; at 0 a tensor would be lost."""
    if low is not None and not 0 < low <= 1:
        raise ValueError(f"min_scale: found {low}, allowed: above 0 to 1, where the factors start")


class ScaleAdam:
    r"""Adam (Kingma & Ba 2015) for the factors m, with the clamp of zhu2022, algorithm 4.

    .. math:: u \leftarrow \beta_1 u + (1 - \beta_1) q, \quad v \leftarrow \beta_2 v + (1 - \beta_2) q^2, \quad
              m \leftarrow \mathrm{clamp}\Bigl(m - \tau \frac{u / (1 - \beta_1^t)}{\sqrt{v / (1 - \beta_2^t)} + \epsilon}\Bigr)

    The text says "Adam using the default momentum parameters", with one state for all iterations: ``moments="shared"``. The released
    code keeps separate first moments u for objective and constraint iterations, each with its own count t, and one v with the count
    of all iterations: ``moments="split"``.

    Args:
        count: number of factors; all start at 1.
        tau: learning rate of the factors.
        low, high: bounds after each step; ``None`` for no bound.
        clip: each factor's derivative is first clamped to [-clip, clip]; ``None`` for no clamping.
        moments: ``shared`` or ``split``.
    """

    def __init__(
        self,
        count: int,
        tau: float,
        *,
        low: float | None = None,
        high: float | None = None,
        clip: float | None = None,
        moments: str = "shared",
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
    ) -> None:
        if moments not in MOMENTS:
            raise ValueError(f"moments: found {moments!r}, allowed are {', '.join(MOMENTS)}")
        check_low(low)
        self.scales = torch.ones(count, dtype=torch.float64)
        self.tau, self.low, self.high, self.clip = tau, low, high, clip
        self.split, self.betas, self.eps = moments == "split", betas, eps
        self.first = torch.zeros(2, count, dtype=torch.float64)
        self.second = torch.zeros(count, dtype=torch.float64)
        self.counts = [0, 0]

    def step(self, gradient: Tensor, kind: int = 0) -> None:
        """Move the factors against ``gradient`` (count,); ``kind`` 0 or 1 selects the first moment if they are split."""
        if self.clip is not None:
            gradient = gradient.clamp(-self.clip, self.clip)
        which = kind if self.split else 0
        self.counts[which] += 1
        (beta, beta2), every = self.betas, sum(self.counts)
        self.first[which].mul_(beta).add_(gradient, alpha=1 - beta)
        self.second.mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
        mean = self.first[which] / (1 - beta ** self.counts[which])
        self.scales -= self.tau * mean / ((self.second / (1 - beta2**every)).sqrt() + self.eps)
        if self.low is not None or self.high is not None:
            self.scales.clamp_(self.low, self.high)

    def state(self) -> dict[str, Any]:
        """The state for a checkpoint."""
        return {
            "scales": self.scales,
            "first": self.first,
            "second": self.second,
            "counts": list(self.counts),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Restore the state from :meth:`state`.

        Raises:
            ValueError: the state has a different number of factors.
        """
        if len(state["scales"]) != len(self.scales):
            raise ValueError(
                f"checkpoint: {len(state['scales'])} scale factors, the network has {len(self.scales)}"
            )
        self.scales, self.first = state["scales"].clone(), state["first"].clone()
        self.second, self.counts = state["second"].clone(), [int(one) for one in state["counts"]]
