r"""Initialisation of a vision Transformer's linear maps under each residual scheme.

====================  =====================================================  ==============================
scheme                maps of the body's branches                            elsewhere
====================  =====================================================  ==============================
pre_norm, post_norm,  N(0, 0.02²), truncated at ±2 (DeiT)                    the same
layer_scale
rezero                Xavier-uniform (its released Transformer)              as DeiT
skip_init             N(0, 2 / fan-in) (He et al. 2015, eq. 10)              as DeiT
fixup                 Xavier-uniform; values and fc1 × :math:`L^{-1/2}`,     last layer 0, the rest as DeiT
                      output and fc2 0
t_fixup               Xavier-uniform; values, output, fc1, fc2               patches, position table and
                      × :math:`0.67\,N^{-1/4}`                               class token ×
                                                                             :math:`(9N)^{-1/4}`
====================  =====================================================  ==============================

N is the number of blocks and L = 2N the number of branches. Fixup (Zhang, Dauphin, Ma 2019) scales all but the last of a branch's m maps
by :math:`L^{-1/(2m-2)}`. Here m = 2: queries and keys only produce the attention weights, so they do not count and stay Xavier. T-Fixup
(Huang, Pérez, Ba, Volkovs 2020) assumes embedding tables with N(0, 1/D) before its factor. Here the position table and the class token
are treated as such, and the patch map is Xavier-uniform before the factor. :mod:`relearn.methods.t_fixup` implements the same rules for
translation networks.

0.02 is the value for the published widths (``start_std``). Biases are 0, the position table is N(0, 0.02²) (``position_std``), and the
patch map has torch's initialisation, all as in timm's DeiT, except for t_fixup. Layers of class attention are initialised as in DeiT
under every scheme. LRSA and a Gaussian-process head are Xavier-uniform wherever the table says DeiT. :func:`start_attention` draws the
maps of either attention from the same distribution, so that a comparison of the two is not affected by their initialisation.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import init

from relearn.layers.lrsa import LRSA
from relearn.layers.random_feature_gp import RandomFeatureGP

STD = 0.02


def deit(net: nn.Module, std: float = STD) -> None:
    """Initialise every linear map with N(0, std²) truncated at ±2 and every bias with 0, except in LRSA and a Gaussian-process head."""
    ours = [layer for layer in net.modules() if isinstance(layer, LRSA | RandomFeatureGP)]
    own = {id(part) for layer in ours for part in layer.modules()}
    for module in net.modules():
        if isinstance(module, nn.Linear) and id(module) not in own:
            init.trunc_normal_(module.weight, std=std)
            if module.bias is not None:
                init.zeros_(module.bias)


def start(residual: str, net: Any) -> None:
    """Redraw in place the parameters that this scheme initialises differently from :func:`deit`; the body is ``net.blocks``.

    Args:
        residual: the scheme.
        net: a network with ``blocks``, ``patch_embed``, ``pos_embed``, ``cls_token`` (or None) and ``last`` (the weight of the last
            layer, or None).
    """
    maps = [_maps(block) for block in net.blocks]
    if residual == "skip_init":
        for weight in (one for each in maps for one in each.values()):
            init.kaiming_normal_(weight, nonlinearity="relu")
    if residual in ("rezero", "fixup", "t_fixup"):
        for weight in (one for each in maps for one in each.values()):
            init.xavier_uniform_(weight)
    if residual == "fixup":
        _fixup(maps, net.last)
    if residual == "t_fixup":
        _t_fixup(maps, net)


def start_attention(blocks: Any, kind: str, std: float = STD) -> None:
    """Redraw the four D x D maps of every block's attention, LRSA or dot product, so that both have the same initial distribution.

    Args:
        blocks: the blocks of the body.
        kind: "xavier" (uniform) or "deit" (N(0, std²) truncated at ±2).
        std: standard deviation for "deit".
    """
    for block in blocks:
        for name, weight in _maps(block).items():
            if name in ("q", "k", "v", "out"):
                if kind == "xavier":
                    init.xavier_uniform_(weight)
                else:
                    init.trunc_normal_(weight, std=std)


def _fixup(maps: list[dict[str, Tensor]], last: Tensor | None) -> None:
    branches = 2 * len(maps)
    for each in maps:
        each["v"].mul_(branches**-0.5)
        each["fc1"].mul_(branches**-0.5)
        each["out"].zero_()
        each["fc2"].zero_()
    if last is not None:
        last.detach().zero_()


def _t_fixup(maps: list[dict[str, Tensor]], net: Any) -> None:
    inner, outer = 0.67 * len(maps) ** -0.25, (9 * len(maps)) ** -0.25
    for each in maps:
        for name in ("v", "out", "fc1", "fc2"):
            each[name].mul_(inner)
    init.xavier_uniform_(net.patch_embed.proj.weight.detach().flatten(1), gain=outer)
    init.zeros_(net.patch_embed.proj.bias)
    for table in _tables(net):
        init.normal_(table, std=outer / math.sqrt(table.shape[-1]))


def _tables(net: Any) -> Iterator[Tensor]:
    yield net.pos_embed
    if net.cls_token is not None:
        yield net.cls_token


def _maps(block: Any) -> dict[str, Tensor]:
    """Return the weights of a block's linear maps, as views of its parameters."""
    attention, mlp = block.attn, block.mlp
    if isinstance(attention, LRSA):
        named = {name: getattr(attention, name).weight.detach() for name in ("q", "k", "v", "out")}
    else:
        named = dict(zip("qkv", torch.chunk(attention.qkv.weight.detach(), 3)))
        named["out"] = attention.proj.weight.detach()
    return named | {"fc1": mlp.fc1.weight.detach(), "fc2": mlp.fc2.weight.detach()}
