"""The attention layer that `invert_residual` and `attention_outputs` examine, and its inputs (kim2020, section 5.2).

The paper states that one x_i is 0, the other tokens are uniformly random, and the weights are randomly initialised. It does not state the
range of the inputs or the scale of the weights. We draw entries from U[-10, 10], the widest range in the paper (starting points in
appendix I), set token 0 to zero, and use the initial weights of the layers' constructors (Xavier-uniform, each map as a whole). L2-MHA is
the tied layer with A_h of theorem 3.2, not divided by its bound; the untied layer behaves like dot-product attention. For inputs in a range
of 1 or less, all layers are inverted; see `ranges.csv` of `invert_residual`.

All computations are in float64, because the final errors are far below the rounding error of float32.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from relearn.steps.trained.seed import seed_of

if TYPE_CHECKING:
    from torch import Tensor, nn

RANGE = 10.0


@dataclass(frozen=True, kw_only=True)
class OnLayer:
    """The settings that steps on one layer share; each step states which ``weights`` it allows."""

    attention: str
    weights: str
    length: int
    dim: int
    heads: int


def layer_of(settings: OnLayer, inputs: Mapping[str, list[Path]], seed: int, device: str) -> nn.Module:
    """The layer in eval mode and float64: randomly initialised, or the first layer of a trained language model (input `network`).

    Random weights depend only on attention, dim, heads and seed, so they are the same for every length.

    Raises:
        ValueError: the file of trained weights is missing or has other sizes, or the model has no attention.
    """
    import torch

    from relearn.layers.attention_kinds import attention

    kind, dim, heads = settings.attention, settings.dim, settings.heads
    if settings.weights == "random":
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(_seed(seed, "weights", kind, dim, heads))
            layer: nn.Module = attention(kind, dim, heads, max_length=settings.length)
    else:
        layer = _trained(inputs.get("network", []), kind, dim, heads)
    return layer.to(device, torch.float64).eval().requires_grad_(False)


def _trained(files: list[Path], kind: str, dim: int, heads: int) -> nn.Module:
    from relearn.models import character_lm

    if not files:
        raise ValueError("input network: none (needed where weights is 'trained')")
    network = character_lm.FILE.load(files[0])
    if not network.attention_layers():
        raise ValueError(f"{files[0]}: a model without attention (allowed: one with at least a layer of it)")
    found = tuple(network.description[key] for key in ("attention", "dim", "heads"))
    if found != (kind, dim, heads):
        one, other = (f"{a} of width {d} with {h} heads" for a, d, h in (found, (kind, dim, heads)))
        raise ValueError(f"{files[0]}: {one} (allowed: as the settings say, {other})")
    return network.attention_layers()[0]


def zero_token_inputs(
    count: int, length: int, dim: int, seed: int, device: str, spread: float = RANGE
) -> Tensor:
    """(count, length, dim) in float64: token 0 of each sequence is zero, all other entries U[-spread, spread].

    The inputs are the same for every attention, and for different spreads they differ only by a factor.
    """
    import torch

    generator = torch.Generator().manual_seed(_seed(seed, "inputs", length, dim))
    x = spread * (2 * torch.rand(count, length, dim, generator=generator, dtype=torch.float64) - 1)
    x[:, 0] = 0
    return x.to(device)


def _seed(seed: int, *what: object) -> int:
    return seed_of({"of": "/".join(map(str, what))}, seed, "of")
