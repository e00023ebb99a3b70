r"""Rules of :mod:`relearn.models.lipschitz_bound` for pooling and for timm's ResNets, and which layers of a network have no rule.

Pooling with windows that overlap in at most o places (o = the product over the axes of ⌈kernel / stride⌉):

===========================  ===================  =======
layer                        2-norm               ∞-norm
===========================  ===================  =======
maximum                      √o                   1
average                      ‖A_H‖ ‖A_W‖          1
average of a whole H x W     1 / √(H W)           1
===========================  ===================  =======

Each output of a maximum changes by at most the largest change in its window, whose square is at most the sum of squares there; a pixel
is counted o times. An average weighs each pixel of its window by 1 / (h w). The counts h and w are each known from one axis: of all
pixels, or of those inside the image (``count_include_pad=False``), in windows that the border may cut (``ceil_mode``). So its matrix
is the Kronecker product of the averages A_H and A_W over single axes, whose norms multiply; both are computed, so the norm is exact.
Windows of K pixels side by side give 1/√K. No row of A sums to more than 1 (∞-norm). A residual block x ↦ a(s(x) + f(x)) has
Lip(a) (Lip(s) + Lip(f)).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn.functional import avg_pool1d
from torch.nn.utils.parametrize import is_parametrized

from relearn import torchvision_schema
from relearn.layers.scaled_residual import ScaledResidual
from relearn.layers.weighted_residual import WeightedResidual
from relearn.models import lipschitz_rules
from relearn.models.cross_windows import CrossShapedAttention
from relearn.models.lipschitz_bound import (
    REFUSED,
    RULES,
    At,
    Part,
    Walk,
    altered,
    lipschitz_rule,
    product,
    refused,
    ruled_kind,
    without_radius,
)
from relearn.models.residual_vit import ResidualViT

torchvision_schema.declare()

from timm.layers import BatchNormAct2d, ClassifierHead, LayerNorm, SelectAdaptivePool2d  # noqa: E402
from timm.layers.adaptive_avgmax_pool import FastAdaptiveAvgPool, FastAdaptiveMaxPool  # noqa: E402
from timm.models import resnet  # noqa: E402


def _pair(value: Any) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else (value[0], value[1])


def _several(module: Any) -> bool:
    return module.output_size is None or _pair(module.output_size) != (1, 1)


def _other_pool(module: Any) -> bool:
    pool = module.pool  # of another class for the format NHWC
    return module.pool_type != "avg" or not isinstance(pool, nn.AdaptiveAvgPool2d) or _several(pool)


def _other_windows(module: Any) -> bool:
    return isinstance(module.padding, str) or module.padding_mode != "zeros" or set(module.dilation) != {1}


REFUSED += [
    (
        (nn.Conv1d, nn.Conv2d, nn.Conv3d), _other_windows,
        "padding in words, padding_mode or dilation (allowed: numbers, zeros, 1)",
    ),
    (
        (nn.BatchNorm1d, nn.BatchNorm2d, BatchNormAct2d), lambda one: one.running_var is None,
        "statistics of the batch (allowed: running statistics)",
    ),
    (
        (nn.LayerNorm, LayerNorm), lambda one: len(one.normalized_shape) != 1,
        "several axes (allowed: the last one)",
    ),
    (
        (CrossShapedAttention,), lambda one: one.similarity != "cosine",
        "similarity {0.similarity!r} has no Lipschitz constant (allowed: cosine)",
    ),
    (
        (ResidualViT,), lambda one: one.class_token == "class_attention",
        "class attention has no Lipschitz constant (allowed: from_start, mean)",
    ),
    ((ClassifierHead,), lambda one: one.input_fmt != "NHWC", "input_fmt {0.input_fmt!r} (allowed: NHWC)"),
    (
        (ClassifierHead,), lambda one: one.global_pool.pool_type not in ("avg", "max", ""),
        "pooling {0.global_pool.pool_type!r} (allowed: avg, max, '')",
    ),
    ((nn.MaxPool2d,), lambda one: _pair(one.dilation) != (1, 1), "dilation {0.dilation} (allowed: 1)"),
    ((nn.MaxPool2d,), lambda one: one.return_indices, "return_indices (allowed: False)"),
    (
        (nn.AvgPool2d,), lambda one: one.divisor_override is not None,
        "divisor_override {0.divisor_override} (allowed: None)",
    ),
    ((nn.AdaptiveAvgPool2d,), _several, "output size {0.output_size} (allowed: 1)"),
    (
        (SelectAdaptivePool2d,), _other_pool,
        "pool_type {0.pool_type!r} by {0.pool} (allowed: avg, input_fmt NCHW, output_size 1)",
    ),
]  # fmt: skip


def _pooled(walk: Walk, module: Any, at: At) -> At:
    """What is known after the pooling."""
    try:
        return without_radius(at, *module(torch.empty(at.shape, device="meta")).shape)
    except (RuntimeError, IndexError) as error:
        raise ValueError(
            f"{walk.path}: images of {at.shape[1:]} (allowed: not below the kernel, {module.kernel_size})"
        ) from error


@lipschitz_rule(nn.MaxPool2d)
def _max_pool(walk: Walk, module: nn.MaxPool2d, at: At) -> At:
    overlap = math.prod(-(-k // s) for k, s in zip(_pair(module.kernel_size), _pair(module.stride)))
    walk.add(module, math.sqrt(overlap) if walk.p == "two" else 1.0)
    return _pooled(walk, module, at)


@lipschitz_rule(nn.AvgPool2d)
def _average_pool(walk: Walk, module: nn.AvgPool2d, at: At) -> At:
    after = _pooled(walk, module, at)
    bound = 1.0
    if walk.p == "two":
        sizes = (_pair(size) for size in (module.kernel_size, module.stride, module.padding))
        for n, kernel, stride, padding in zip(at.shape[1:], *sizes):
            pixels = torch.eye(n, dtype=torch.float64)[:, None]
            matrix = avg_pool1d(pixels, kernel, stride, padding, module.ceil_mode, module.count_include_pad)[
                :, 0
            ]
            bound *= float(torch.linalg.matrix_norm(matrix, 2))
    walk.add(module, bound)
    return after


@lipschitz_rule(nn.AdaptiveAvgPool2d)
def _whole_average(walk: Walk, module: nn.AdaptiveAvgPool2d, at: At) -> At:
    walk.add(module, 1 / math.sqrt(math.prod(at.shape[1:])) if walk.p == "two" else 1.0)
    return without_radius(at, at.shape[0], 1, 1)


@lipschitz_rule(SelectAdaptivePool2d)
def _select_pool(walk: Walk, module: Any, at: At) -> At:
    walk.add(module, 1 / math.sqrt(math.prod(at.shape[1:])) if walk.p == "two" else 1.0)
    flat = not isinstance(module.flatten, nn.Identity)
    return without_radius(at, at.shape[0], *(() if flat else (1, 1)))


# written anew, it computes what the layer of torch does
lipschitz_rule(LayerNorm)(lipschitz_rules._layer_norm)


@lipschitz_rule(BatchNormAct2d)
def _batch_norm_act(walk: Walk, module: Any, at: At) -> At:
    return walk.visit(module.act, "act", RULES[nn.BatchNorm2d](walk, module, at))


@lipschitz_rule(resnet.BasicBlock, resnet.Bottleneck)
def _block(walk: Walk, block: Any, at: At) -> At:
    names = ["conv1", "bn1", "drop_block", "act1", "aa", "conv2", "bn2"]
    last = "act2"
    if isinstance(block, resnet.Bottleneck):
        names = ["conv1", "bn1", "act1", "conv2", "bn2", "drop_block", "act2", "aa", "conv3", "bn3"]
        last = "act3"
    inner, end = Walk(walk.p, walk.form, walk.path), at
    for name in [*names, "se"]:
        part = getattr(block, name)
        end = end if part is None else inner.visit(part, name, end)
    other, short = Walk(walk.p, walk.form, walk.path), at
    if block.downsample is not None:
        short = other.visit(block.downsample, "downsample", at)
    if short.shape != end.shape:
        raise walk.refuse(block, f"shortcut {short.shape} and branch {end.shape} differ")
    total = product(inner.parts) + product(other.parts)
    walk.parts.append(Part(walk.path, type(block).__name__, total, None))
    return walk.visit(getattr(block, last), last, without_radius(at, *end.shape))


@lipschitz_rule(resnet.ResNet)
def _resnet(walk: Walk, network: Any, at: At) -> At:
    for name in (
        *("conv1", "bn1", "act1", "maxpool"),
        *(f"layer{i}" for i in range(1, 5)),
        "global_pool",
        "fc",
    ):
        at = walk.visit(getattr(network, name), name, at)
    return at


COUNTED = (WeightedResidual, ScaledResidual, FastAdaptiveAvgPool, FastAdaptiveMaxPool)
"""Parts without a rule that the rule of their block or head counts."""


class Uncovered(NamedTuple):
    """A layer without a bound: path, class, and why."""

    name: str
    kind: str
    why: str


def uncovered(network: nn.Module) -> list[Uncovered]:
    """Every layer of a network without a rule or a constant, or with refused options, in the order of ``named_modules``.

    A subclass of a covered layer with a method of its own (``ruled_kind``) is uncovered, because it may compute something else
    (timm's convolutions with standardised weights, batch normalisation with an activation inside); so does what
    ``altered`` names. The parts of a module with a rule count through it, except those without a rule or a constant.
    """
    found: list[Uncovered] = []
    inside: list[str] = []
    for name, module in network.named_modules():
        if "parametrizations" in name.split("."):
            continue  # they make the weight that the bound of their layer reads
        # the class before reparametrisation
        written: Any = type(module).__mro__[int(is_parametrized(module))]
        what = name, written.__name__
        covered = any(name.startswith(f"{one}.") or one == "" for one in inside if one != name)
        parent = network.get_submodule(name.rpartition(".")[0]) if name else None
        kind, own = ruled_kind(module)
        idle = written.forward is nn.Module.forward  # a mere container
        # the rule of a head counts its pooling
        options = refused(kind, module) if kind and not isinstance(parent, ClassifierHead) else ""
        if kind is not None and RULES[kind] is lipschitz_rules._no_constant:
            found.append(Uncovered(*what, "no Lipschitz constant on all inputs (kim2020, theorem 3.1)"))
        elif kind is not None and own:
            found.append(Uncovered(*what, f"its {own} differs from {kind.__name__}'s"))
        elif why := altered(module) or options:
            found.append(Uncovered(*what, why))
            if kind is not None:
                inside.append(name)
        elif kind is not None and any(module.children()):
            inside.append(name)
        elif kind is None and not (covered and (isinstance(module, COUNTED) or idle)):
            how = " for how its parts are joined" if any(module.children()) else ""
            found.append(Uncovered(name or "network", written.__name__, f"no rule{how}"))
    return found
