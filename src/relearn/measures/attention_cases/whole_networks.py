r"""Statements of qi2023 about layers, measured on whole networks of the published size at initialisation.

The Jacobians are too large to write out, so their norms are computed from products (:func:`relearn.measures.lipschitz.jacobian_norm`).
They are lower bounds: a bound that they exceed is refuted; a bound that they do not exceed is supported at these inputs.
Rows have the columns of the small cases, plus ``network``, the name of the network.

==============  ==========================================================================================================
function        rows
==============  ==========================================================================================================
attention       theorem 1, case ``network``: every windowed attention layer with its weights, position bias and output map, for p = 2; the
                first one also for p = inf. Inputs: one window of normal tokens, times spread √ε
stack           theorem 2, case ``network``: norm of the Jacobian of all blocks and merges together, at the tokens of one image, and the
                product of their individual norms; κ and the corrected bound are computed from the weights
affine          equation 5: every linear layer and convolution
==============  ==========================================================================================================
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from relearn.maths.network_bounds import centre_norm_constant, gelu_constant, residual_bound
from relearn.maths.operator_norm import flattened_is_exact
from relearn.maths.spectral_draw import largest_singular_value
from relearn.measures.lipschitz.jacobian import jacobian_norm

ROUNDING = 1e-4  # relative; the networks are in single precision
FINE = 1e-6  # tolerance of the norms of the weights
CASE = "network"
ITERATIONS = 30  # maximum for the norm of a convolution


def prepared(net: nn.Module) -> Any:
    """Return the network in eval mode, without parameter gradients and without fused kernels, which ``torch.func`` rejects."""
    for module in net.modules():
        if hasattr(module, "fused"):
            module.fused = False  # type: ignore[assignment]
    return net.eval().requires_grad_(False)


def attention(
    name: str, net: nn.Module, *, spreads: Sequence[float], iterations: int, seed: int
) -> Iterator[dict[str, Any]]:
    """Yield the rows of theorem 1 for every windowed attention of ``net``: modules with ``attention``, ``bias()`` and ``window``."""
    draw = torch.Generator().manual_seed(seed)
    first = True
    for layer in _windowed(prepared(net)):
        inner, bias = layer.attention.double(), layer.bias().double()
        length, dim, unit = math.prod(layer.window), inner.dim, math.sqrt(inner.eps)

        def function(x: Tensor, inner: Any = inner, bias: Tensor = bias) -> Tensor:
            return inner(x, bias=bias)

        tokens = torch.randn(1, length, dim, generator=draw, dtype=torch.float64)
        for p in ("two", "inf") if first else ("two",):
            for spread in spreads:
                found = jacobian_norm(
                    function, spread * unit * tokens, p, method="free", iterations=iterations, seed=seed
                )
                bounds = {
                    form: float(inner.lipschitz_bound(length, p, form))
                    for form in ("printed", "corrected", "tight")
                }
                up = 1 + ROUNDING
                yield {
                    "case": CASE,
                    "network": name,
                    "p": p,
                    "length": length,
                    "dim": dim,
                    "width": dim // inner.heads,
                    "heads": inner.heads,
                    "tau": inner.tau,
                    "eps": inner.eps,
                    "spread": spread,
                    "norm": found.value,
                    **bounds,
                    "share": found.value / bounds["tight"],
                    "holds": found.value <= min(bounds["corrected"], bounds["tight"]) * up,
                    "printed_holds": found.value <= bounds["printed"] * up,
                }
        first = False


def stack(name: str, net: Any, *, iterations: int, seed: int) -> dict[str, Any]:
    """Return the row of theorem 2 for ``net``, which has ``patch_embed`` and then ``layers`` of merges and blocks."""
    net = prepared(net)
    image = torch.randn(1, net.in_chans, *net.img_size, generator=torch.Generator().manual_seed(seed))
    with torch.no_grad():
        tokens = net.patch_embed(image)
    maps, constants, alphas, others = _parts(net)

    def measured(function: Callable[[Tensor], Tensor], x: Tensor) -> float:
        return jacobian_norm(function, x, "two", method="free", iterations=iterations, seed=seed).value

    whole, product, x = measured(net.layers, tokens), 1.0, tokens
    for part in maps:
        product *= measured(part, x)
        with torch.no_grad():
            x = part(x)
    printed = residual_bound(constants, form="printed")
    corrected = residual_bound(constants, alpha=alphas, others=others)
    up = 1 + ROUNDING
    blocks = [part for part in maps if hasattr(part, "attention")]
    return {
        "case": CASE,
        "network": name,
        "blocks": len(blocks),
        "branches": len(constants),
        "length": math.prod(blocks[0].attention.window),
        "dim": tokens.shape[-1],
        "alpha": alphas[0],
        "eps": blocks[0].attention.attention.eps,
        "kappa": max(constants),
        "norm": whole,
        "product": product,
        "printed": printed,
        "corrected": corrected,
        # both norms are lower estimates, so norm <= product is not tested
        "holds": whole <= corrected * up and product <= corrected * up,
        "printed_holds": whole <= printed * up,
    }


def affine(name: str, net: nn.Module, *, size: int) -> Iterator[dict[str, Any]]:
    """Yield the rows of equation 5 for every linear layer and convolution of ``net``.

    ``size``: image side length at which convolutions with overlapping windows are measured.
    """
    for layer in net.modules():
        if not isinstance(layer, nn.Linear | nn.Conv2d):
            continue
        flattened = largest_singular_value(layer.weight.detach().flatten(1), tolerance=FINE)
        exact = flattened_is_exact(layer)
        norm = flattened if exact else _map_norm(layer, size)
        kernel = 1 if isinstance(layer, nn.Linear) else layer.kernel_size[0]
        limit = flattened if exact else kernel * flattened
        yield {
            "case": _kind(layer, exact),
            "network": name,
            "start": "flattened",
            "channels": layer.weight.shape[0],
            "kernel": kernel,
            "size": size,
            "flattened": flattened,
            "norm": norm,
            "limit": limit,
            "holds": norm <= limit * (1 + ROUNDING) and (abs(norm - 1) <= ROUNDING or not exact),
            "printed_holds": norm <= 1 + ROUNDING,
        }


def _map_norm(layer: nn.Linear | nn.Conv2d, size: int) -> float:
    """Return a lower bound of the norm of a convolution as a map of images."""
    image = torch.zeros(1, layer.weight.shape[1] * getattr(layer, "groups", 1), size, size)
    return jacobian_norm(layer, image, "two", method="free", iterations=ITERATIONS).value


def _kind(layer: nn.Linear | nn.Conv2d, exact: bool) -> str:
    """Return the layer's case name in :mod:`~relearn.measures.attention_cases.spectral_norms`."""
    if isinstance(layer, nn.Linear):
        return "linear"
    if exact:
        return {1: "point_wise", 2: "merging"}.get(layer.kernel_size[0], "patches")
    return "depth_wise" if layer.groups > 1 else "dense"


def _windowed(net: nn.Module) -> Iterator[Any]:
    for module in net.modules():
        if hasattr(module, "window") and hasattr(getattr(module, "attention", None), "lipschitz_bound"):
            yield module


def _parts(net: Any) -> tuple[list[Any], list[float], list[float], list[float]]:
    """Return the maps in order, each branch's Lipschitz bound and largest absolute α, and the constants of everything else."""
    maps: list[Any] = []
    constants: list[float] = []
    alphas: list[float] = []
    others: list[float] = []
    gelu = gelu_constant()
    for stage in net.layers:
        for part in _maps_of(stage):
            maps.append(part)
            if not hasattr(part, "attention"):
                others += [_norm_of(one) for one in part.modules() if hasattr(one, "weight")]
                continue
            for branch, join in zip(part.convs, part.joins):
                layers = [one for one in branch.modules() if isinstance(one, nn.Conv2d)]
                constants.append(math.prod(gelu * _bound_of(one) for one in layers))
                alphas.append(float(join.alpha.abs().max()))
            window = math.prod(part.attention.window)
            constants.append(float(part.attention.attention.lipschitz_bound(window)))
            constants.append(gelu * math.prod(_bound_of(one) for one in (part.mlp.fc1, part.mlp.fc2)))
            alphas += [float(join.alpha.abs().max()) for join in (part.join1, part.join2)]
            others += [_norm_of(part.norm1), _norm_of(part.norm2)]
    return maps, constants, alphas, others


def _maps_of(stage: nn.Module) -> Iterator[Any]:
    """Yield the merge of a stage, if it has one, and its blocks."""
    for child in stage.children():
        if isinstance(child, nn.Sequential | nn.ModuleList):
            yield from _maps_of(child)
        else:
            yield child


def _norm_of(layer: Any) -> float:
    """Return the Lipschitz constant of a CenterNorm, or a bound for an affine map."""
    if isinstance(layer, nn.Linear | nn.Conv2d):
        return _bound_of(layer)
    return float(centre_norm_constant(len(layer.weight), layer.weight.detach().double()))


def _bound_of(layer: nn.Linear | nn.Conv2d) -> float:
    """Return the norm of an affine map, or for overlapping windows the bound: kernel side times the flattened norm."""
    flattened = largest_singular_value(layer.weight.detach().flatten(1), tolerance=FINE)
    return flattened if flattened_is_exact(layer) else layer.weight.shape[-1] * flattened
