"""Protocols of `check_theorems` for qi2023: theorems 1 and 2, spectral initialisation, activations. Each returns columns, rows, metrics."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from relearn.runs.settings import picked
from relearn.steps.bound_shares import shares

if TYPE_CHECKING:
    from torch import Tensor, nn

Examined = tuple[Sequence[str], list[dict[str, Any]], dict[str, float]]
File = tuple[str, Sequence[str], list[dict[str, Any]]]


@dataclass(frozen=True, kw_only=True)
class Theorem1:
    protocol: Literal["theorem_1"]
    lengths: Sequence[int]
    dims: Sequence[int]
    heads: int
    taus: Sequence[float]
    spreads: Sequence[float]
    steps: int
    networks: Sequence[str]
    iterations: int


@dataclass(frozen=True, kw_only=True)
class Theorem2:
    protocol: Literal["theorem_2"]
    blocks: Sequence[int]
    lengths: Sequence[int]
    dims: Sequence[int]
    heads: int
    tau: float
    eps: Sequence[float]
    networks: Sequence[str]
    iterations: int


@dataclass(frozen=True, kw_only=True)
class Spectral:
    protocol: Literal["spectral_start"]
    channels: Sequence[int]
    size: int
    networks: Sequence[str]


@dataclass(frozen=True, kw_only=True)
class Activations:
    protocol: Literal["activations"]
    pairs: int
    reach: float
    points: int


def theorem_1(settings: Theorem1, seed: int) -> Examined:
    from relearn.layers.cosine_attention import CosineAttention
    from relearn.measures.attention_cases.cosine import COLUMNS, cases
    from relearn.measures.attention_cases.whole_networks import attention

    def make(dim: int, heads: int, tau: float, eps: float) -> CosineAttention:
        return CosineAttention(dim, heads, tau=tau, eps=eps, project=False, average_heads=False)

    sizes = picked(settings, "lengths", "dims", "heads", "taus", "spreads", "steps")
    rows = cases(make, **sizes, seed=seed)
    for name, net in _networks(settings.networks, seed):
        rows += attention(name, net, spreads=settings.spreads, iterations=settings.iterations, seed=seed)
    return _with_network(COLUMNS, rows), rows, shares(rows, bound="tight", printed="printed")


def theorem_2(settings: Theorem2, seed: int) -> Examined:
    from relearn.layers.center_norm import CenterNorm
    from relearn.layers.cosine_attention import CosineAttention
    from relearn.layers.weighted_residual import WeightedResidual
    from relearn.measures.attention_cases.residual_stack import COLUMNS, Parts, cases
    from relearn.measures.attention_cases.whole_networks import stack

    def attention(dim: int, heads: int, eps: float) -> CosineAttention:
        return CosineAttention(dim, heads, tau=settings.tau, eps=eps)

    parts = Parts(attention=attention, norm=CenterNorm, join=WeightedResidual)
    rows = cases(parts, **picked(settings, "blocks", "lengths", "dims", "heads", "eps"), seed=seed)
    rows += [
        stack(name, net, iterations=settings.iterations, seed=seed)
        for name, net in _networks(settings.networks, seed)
    ]
    return _with_network(COLUMNS, rows), rows, shares(rows, bound="corrected", printed="printed")


def spectral(settings: Spectral, seed: int) -> Examined:
    from relearn.measures.attention_cases.spectral_norms import COLUMNS, cases
    from relearn.measures.attention_cases.whole_networks import affine
    from relearn.methods.spectral_start import spectral_start

    def start(layer: nn.Module, number: int, image: Tensor | None) -> None:
        batches = None if image is None else iter([(image,)])
        spectral_start(layer, None, batches, seed=number, operator=image is not None)

    rows = cases(start, channels=settings.channels, size=settings.size, seed=seed)
    for name, net in _networks(settings.networks, seed):
        rows += affine(name, net, size=settings.size)
    metrics = shares([row | {"one": 1.0} for row in rows], bound="limit", printed="one")
    return _with_network(COLUMNS, rows), rows, metrics


def _networks(names: Sequence[str], seed: int) -> Iterator[tuple[str, nn.Module]]:
    """Networks of the published size at initialisation, with their names in the paper."""
    from importlib import import_module

    import torch

    import relearn.models.timm_names  # noqa: F401  (registers the names when timm is imported)
    from relearn.measures.model_counts import NETWORKS

    for name in names:
        create_model = import_module("timm").create_model
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            net = create_model(NETWORKS[name])
        yield name, net


def _with_network(columns: Sequence[str], rows: list[dict[str, Any]]) -> tuple[str, ...]:
    """The columns plus ``network``, which is empty for layers that belong to no network."""
    found = (*columns, "network")
    for row in rows:
        for name in found:
            row.setdefault(name, None)
    return found


def activations(
    settings: Activations, seed: int
) -> tuple[Sequence[str], list[dict[str, Any]], dict[str, float], File]:
    """The cases, and the curves of figure 2 as a second file."""
    from relearn.measures.attention_cases.activations import COLUMNS, CURVE_COLUMNS, cases, curves

    rows = cases(pairs=settings.pairs, seed=seed)
    metrics = shares(rows, bound="bound", printed="printed")
    metrics |= {f"{row['activation']}_slope_max": row["norm"] for row in rows}
    drawn = curves(reach=settings.reach, points=settings.points)
    return COLUMNS, rows, metrics, ("curves.csv", CURVE_COLUMNS, drawn)
