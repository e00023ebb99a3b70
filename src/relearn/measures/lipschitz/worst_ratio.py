r"""Try to break an upper bound: gradient ascent on the inputs and on all weights of a layer at once.

.. math:: \max_{X, \theta}\ \frac{\|J_{f_\theta}(X)\|_p}{B(\theta)}

A value above 1 refutes the bound B; a value below 1 proves nothing. J is the whole Jacobian by reverse-mode differentiation in
float64, so this is for small layers. Each start draws X and every weight from normal distributions whose widths are themselves
drawn, log-uniformly, because the softmax is flat where tokens are far apart and uniform where they meet. Adam then climbs on
ln‖J‖ - ln B.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor, nn

Layer = TypeVar("Layer", bound=nn.Module)
WIDTHS = (0.1, 10.0)  # of the tokens at the starts
SCALES = (0.3, 3.0)  # of the weights


class Worst(NamedTuple):
    """The largest ratio that was found, the two numbers that it divides, and the largest ratio at the starts."""

    ratio: float
    norm: float
    bound: float
    first: float


def worst_ratio(
    layer: Layer,
    bound: Callable[[Layer], Tensor],
    shape: tuple[int, ...],
    *,
    p: str = "two",
    starts: int = 8,
    steps: int = 150,
    rate: float = 0.05,
    seed: int = 0,
) -> Worst:
    """Search for a violation.

    Args:
        layer: a module on inputs (1, \\*shape); its weights are overwritten.
        bound: the bound for its present weights, differentiable.
        shape: shape of one input.
        p: "two" or "inf".
        starts, steps, rate: of Adam.
        seed: of the starts.

    Raises:
        ValueError: an unknown p, or no start.
    """
    if p not in ("two", "inf"):
        raise ValueError(f"p: found {p!r}, allowed: two, inf")
    if starts < 1 or steps < 0:
        raise ValueError(f"starts, steps: found {starts}, {steps}, allowed: at least 1 and 0")
    layer.double().eval()
    generator = torch.Generator().manual_seed(seed)
    best, first = Worst(0.0, 0.0, 0.0, 0.0), 0.0
    for _ in range(starts):
        x = _drawn(torch.zeros(shape), WIDTHS, generator).requires_grad_()
        for weight in layer.parameters():
            weight.data = _drawn(weight, SCALES, generator) / max(1, weight.shape[-1]) ** 0.5
        optimiser = torch.optim.Adam([x, *layer.parameters()], lr=rate)
        for step in range(steps + 1):
            norm, limit = _norm(layer, x, p), bound(layer)
            found = float((norm / limit).detach())
            first = max(first, found if step == 0 else 0.0)
            if found > best.ratio:
                best = Worst(found, float(norm.detach()), float(limit.detach()), 0.0)
            optimiser.zero_grad()
            (limit.log() - norm.clamp_min(1e-300).log()).backward()
            optimiser.step()
    return best._replace(first=first)


def _norm(layer: nn.Module, x: Tensor, p: str) -> Tensor:
    matrix = torch.func.jacrev(lambda z: layer(z[None])[0])(x).reshape(-1, x.numel())
    return torch.linalg.matrix_norm(matrix, 2) if p == "two" else matrix.abs().sum(1).amax()


def _drawn(like: Tensor, widths: tuple[float, float], generator: torch.Generator) -> Tensor:
    share = torch.rand((), generator=generator, dtype=torch.float64)
    width = widths[0] * (widths[1] / widths[0]) ** share
    return width * torch.randn(like.shape, generator=generator, dtype=torch.float64)
