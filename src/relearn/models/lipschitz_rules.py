"""The rules of `relearn.models.lipschitz_bound`: the contribution of each layer to the bound of a network."""

from __future__ import annotations

import math
from typing import Any, cast

import torch
from torch import Tensor, nn

from relearn.layers.attention import MultiHeadAttention
from relearn.layers.center_norm import CenterNorm
from relearn.layers.cosine_attention import CosineAttention
from relearn.layers.cross_attention import CrossAttention
from relearn.layers.dot_product_attention import DotProductAttention
from relearn.layers.gelu_linear import GeluLinear, GeluPointwiseConv2d
from relearn.layers.invertible_residual import InvertibleResidual
from relearn.layers.l2_attention import L2Attention
from relearn.layers.lrsa import LRSA
from relearn.layers.random_feature_gp import RandomFeatureGP
from relearn.layers.scalar import Scale, Shift
from relearn.layers.weighted_residual import WeightedResidual
from relearn.maths import layer_norm_bounds, lrsa_bounds
from relearn.maths.conv_bounds import conv_bound, window_bound
from relearn.maths.cosine_bounds import cosine_bound, unit_factor
from relearn.maths.network_bounds import centre_norm_constant, gelu_constant
from relearn.maths.norms import inf_norm, spectral_norm
from relearn.models.cross_windows import CrossShapedAttention
from relearn.models.cswin import CSwinBlock, OverlappingStem
from relearn.models.lips_block import FeedForward, LipsBlock
from relearn.models.lipschitz_bound import At, Walk, check_channels, lipschitz_rule, sides, without_radius
from relearn.models.lipsformer import LipsFormer
from relearn.models.pyramid import Downsample, Pyramid
from relearn.models.residual_block import ResidualBlock
from relearn.models.residual_vit import ResidualViT
from relearn.models.shifted_windows import ShiftedWindowAttention
from relearn.models.timm_parts import (
    Attention,
    ClassifierHead,
    DropPath,
    Mlp,
    PatchEmbed,
    PatchMerging,
)

SLOPES: dict[type[nn.Module], float] = {
    nn.ReLU: 1.0,
    nn.Tanh: 1.0,
    nn.Sigmoid: 0.25,
    nn.SiLU: gelu_constant("sigmoid"),  # rescaling input and output inversely preserves the largest slope
}


def _wide(weight: Tensor) -> Tensor:
    return weight.detach().double()


def _norm(walk: Walk, weight: Tensor) -> Tensor:
    """Return the norm of x ↦ W x."""
    return spectral_norm(_wide(weight)) if walk.p == "two" else inf_norm(_wide(weight))


@lipschitz_rule(nn.Identity, nn.Dropout, DropPath)
def _nothing(walk: Walk, module: nn.Module, at: At) -> At:
    return at


@lipschitz_rule(Shift)
def _shift(walk: Walk, module: nn.Module, at: At) -> At:
    return without_radius(at)


@lipschitz_rule(Scale)
def _scale(walk: Walk, module: Scale, at: At) -> At:
    walk.add(module, abs(float(module.scale)))
    return without_radius(at)


@lipschitz_rule(nn.Flatten)
def _flatten(walk: Walk, module: nn.Flatten, at: At) -> At:
    start, end = module.start_dim, module.end_dim
    axes = len(at.shape) + 1
    first, last = start % axes - 1, end % axes - 1
    if first < 0:
        raise walk.refuse(module, "it joins the batch with other axes")
    return without_radius(at, *at.shape[:first], math.prod(at.shape[first : last + 1]), *at.shape[last + 1 :])


@lipschitz_rule(*SLOPES)
def _activation(walk: Walk, module: nn.Module, at: At) -> At:
    walk.add(module, next(SLOPES[kind] for kind in type(module).__mro__ if kind in SLOPES))
    return without_radius(at)


@lipschitz_rule(nn.GELU)
def _gelu(walk: Walk, module: nn.GELU, at: At) -> At:
    walk.add(module, gelu_constant("tanh" if module.approximate == "tanh" else "erf"))
    return without_radius(at)


@lipschitz_rule(nn.LeakyReLU)
def _leaky(walk: Walk, module: nn.LeakyReLU, at: At) -> At:
    walk.add(module, max(1.0, abs(module.negative_slope)))
    return without_radius(at)


@lipschitz_rule(nn.Linear)
def _linear(walk: Walk, module: nn.Linear, at: At) -> At:
    if at.shape[-1] != module.in_features:
        raise ValueError(f"{walk.path}: input of width {at.shape[-1]} (allowed: {module.in_features})")
    walk.add(module, _norm(walk, module.weight))
    return without_radius(at, *at.shape[:-1], module.out_features)


@lipschitz_rule(GeluLinear)
def _gelu_linear(walk: Walk, module: GeluLinear, at: At) -> At:
    walk.add(module, gelu_constant() * float(_norm(walk, module.weight)))
    return without_radius(at, *at.shape[:-1], module.out_features)


@lipschitz_rule(nn.Conv1d, nn.Conv2d, nn.Conv3d)
def _conv(walk: Walk, module: Any, at: At) -> At:
    size, (stride, padding) = at.shape[1:], (module.stride, module.padding)
    check_channels(walk, at, module.in_channels, len(module.kernel_size))
    more: dict[str, Any] = dict(stride=stride, padding=padding, groups=module.groups, p=walk.p)
    bound = conv_bound(_wide(module.weight), size, **more)
    if isinstance(module, GeluPointwiseConv2d):
        bound = bound * gelu_constant()
    walk.add(module, bound)
    return without_radius(at, module.out_channels, *sides(walk, at, module.kernel_size, stride, padding))


@lipschitz_rule(nn.BatchNorm1d, nn.BatchNorm2d)
def _batch_norm(walk: Walk, module: Any, at: At) -> At:
    check_channels(
        walk, at, module.num_features, 2 if isinstance(module, nn.BatchNorm2d) else len(at.shape) - 1
    )
    gamma = torch.ones(()) if module.weight is None else _wide(module.weight)
    walk.add(module, (gamma.abs() / (_wide(module.running_var) + module.eps).sqrt()).max())
    return without_radius(at)


@lipschitz_rule(nn.LayerNorm)
def _layer_norm(walk: Walk, module: nn.LayerNorm, at: At) -> At:
    dim = module.normalized_shape[0]
    if at.shape[-1] != dim:
        raise ValueError(f"{walk.path}: input of width {at.shape[-1]} (allowed: {dim})")
    gamma = torch.ones(dim, dtype=torch.float64) if module.weight is None else _wide(module.weight)
    if walk.p == "two":
        form = "exact" if walk.form == "tight" else "largest"
        walk.add(module, layer_norm_bounds.bound_two(gamma, module.eps, form=form))
    else:
        form = "exact" if walk.form == "tight" else walk.form
        walk.add(module, layer_norm_bounds.bound_inf(gamma, module.eps, form=form))
    shift = 0.0 if module.bias is None else float(_wide(module.bias).norm())
    return At(at.shape, float(gamma.abs().max()) * math.sqrt(dim) + shift)


@lipschitz_rule(CenterNorm)
def _center_norm(walk: Walk, module: CenterNorm, at: At) -> At:
    walk.add(module, centre_norm_constant(module.dim, _wide(module.weight), walk.p))
    return without_radius(at)


@lipschitz_rule(nn.Sequential)
def _sequential(walk: Walk, module: nn.Sequential, at: At) -> At:
    for name, part in module._modules.items():  # named_children names a part that occurs twice once
        at = walk.visit(cast(nn.Module, part), name, at)
    return at


# attention ------------------------------------------------------------------------------------------------------------


@lipschitz_rule(DotProductAttention, MultiHeadAttention, CrossAttention, Attention, nn.MultiheadAttention)
def _no_constant(walk: Walk, module: nn.Module, at: At) -> At:
    raise walk.refuse(module, "it has no Lipschitz constant on all inputs (kim2020, theorem 3.1)")


@lipschitz_rule(L2Attention)
def _l2(walk: Walk, module: L2Attention, at: At) -> At:
    length = at.shape[0]
    forms = {"printed": "printed", "corrected": "corrected", "tight": "tightest"}

    def bound(p: str) -> float:
        return float(module.lipschitz_bound(length, p, **({"form": forms[walk.form]} if p == "two" else {})))

    try:
        if not module.contractive:
            walk.add(module, bound(walk.p))
        elif module.max_length is not None and length > module.max_length:
            raise ValueError(f"{length} tokens (allowed: max_length, {module.max_length})")
        elif module.contractive == walk.p:
            walk.add(module, module.scale)
        else:
            longest = length if module.max_length is None else module.max_length
            divisor = module.lipschitz_bound(longest, module.contractive, **_masked(module))
            walk.add(module, module.scale * bound(walk.p) / float(divisor))
    except ValueError as error:
        raise walk.refuse(module, str(error)) from error
    return without_radius(at)


def _masked(module: L2Attention) -> dict[str, Any]:
    """Keyword arguments for the divisor: without a mask the divisor is the smallest, so the quotient is the largest."""
    return {"masked": bool(module.masked)} if module.contractive == "two" else {}


@lipschitz_rule(CosineAttention)
def _cosine(walk: Walk, module: CosineAttention, at: At) -> At:
    try:
        walk.add(module, module.lipschitz_bound(at.shape[0], walk.p, walk.form))
    except ValueError as error:
        raise walk.refuse(module, str(error)) from error
    return without_radius(at)


@lipschitz_rule(ShiftedWindowAttention)
def _windows(walk: Walk, module: ShiftedWindowAttention, at: At) -> At:
    # Windows are independent, and cutting, shifting and joining them only permutes entries, so the constant is that of one window.
    walk.visit(module.attention, "attention", At((math.prod(module.window), at.shape[-1])))
    return without_radius(at)


@lipschitz_rule(CrossShapedAttention)
def _stripes(walk: Walk, module: CrossShapedAttention, at: At) -> At:
    width = module.dim // module.heads
    wq, wk, wv = _wide(module.qkv.weight).view(3, module.heads, width, module.dim).mT
    length = max(math.prod(stripe) for stripe in module.stripes)
    more: dict[str, Any] = dict(tau=module.scale, nu=module.gain, eps=module.eps, p=walk.p, form=walk.form)
    mixing = cosine_bound(wq, wk, wv, length, **more)
    # LePE: a convolution of the normalised values inside each stripe, one per direction
    kernels = [_wide(cast(Tensor, one.weight)) for one in module.lepe]
    values = _wide(module.qkv.weight)[2 * module.dim :]
    if walk.p == "two":
        local = max(window_bound(one, stripe) for one, stripe in zip(kernels, module.stripes))
        local = local * spectral_norm(values)
    else:
        local = max(one.abs().flatten(1).sum(1).amax() for one in kernels)
        local = local * unit_factor(width) * inf_norm(values)
    local = module.gain * module.eps**-0.5 * local
    walk.add(module, (mixing + local) * _norm(walk, module.proj.weight))
    return without_radius(at)


@lipschitz_rule(LRSA)
def _lrsa(walk: Walk, module: LRSA, at: At) -> At:
    if walk.p != "two" or not math.isfinite(at.radius) or not module.eps:
        raise walk.refuse(
            module,
            "it has no Lipschitz constant on all inputs (errata, Y5; allowed: p = two, directly after a LayerNorm, eps > 0)",
        )
    # The bound at given inputs grows with m/q. m is at most that of the longest token, and q is at least eps.
    wq, wk, wv = (
        _wide(one.weight).unflatten(0, (module.heads, -1)).mT for one in (module.q, module.k, module.v)
    )
    longest = math.hypot(at.radius, module.eps)
    each = lrsa_bounds.output_bound(wq, wk, alpha=module.alpha, q=module.eps, m=longest, length=at.shape[0])
    each = each * spectral_norm(wv)
    walk.add(module, torch.linalg.vector_norm(each) * spectral_norm(_wide(module.out.weight)))
    return without_radius(at)


# blocks and networks --------------------------------------------------------------------------------------------------


@lipschitz_rule(InvertibleResidual)
def _invertible(walk: Walk, module: InvertibleResidual, at: At) -> At:
    walk.branch("branch", [(module.branch, "branch")], at, module.c)
    return without_radius(at)


@lipschitz_rule(FeedForward)
def _feed_forward(walk: Walk, module: FeedForward, at: At) -> At:
    return walk.visit(module.fc2, "fc2", walk.visit(module.fc1, "fc1", at))


@lipschitz_rule(Mlp)
def _mlp(walk: Walk, module: Any, at: At) -> At:
    for name in ("fc1", "act", "norm", "fc2"):
        at = walk.visit(getattr(module, name), name, at)
    return at


def _weight(join: Any) -> float:
    """Return the largest |α| of a residual connection."""
    if not isinstance(join, WeightedResidual) and join.alpha is None:
        return 1.0
    return float(_wide(join.alpha).abs().max())


@lipschitz_rule(ResidualBlock)
def _residual_block(walk: Walk, block: ResidualBlock, at: At) -> At:
    for number, name in ((1, "attn"), (2, "mlp")):
        norm, join = getattr(block, f"norm{number}"), getattr(block, f"join{number}")
        part = (getattr(block, name), name)
        if block.behind:
            walk.branch(name, [part], at, _weight(join))
            at = walk.visit(norm, f"norm{number}", at)
        else:
            walk.branch(name, [(norm, f"norm{number}"), part], at, _weight(join))
            at = without_radius(at)
    return at


@lipschitz_rule(LipsBlock)
def _lips_block(walk: Walk, block: LipsBlock, at: At) -> At:
    height, width, dim = at.shape
    for index, (conv, join) in enumerate(zip(block.convs, block.joins)):
        walk.branch(f"convs.{index}", [(conv, f"convs.{index}")], At((dim, height, width)), _weight(join))
    walk.branch("attention", [(block.attention, "attention")], at, _weight(block.join1))
    at = walk.visit(block.norm1, "norm1", at)
    walk.branch("mlp", [(block.mlp, "mlp")], at, _weight(block.join2))
    return walk.visit(block.norm2, "norm2", at)


@lipschitz_rule(CSwinBlock)
def _cswin_block(walk: Walk, block: CSwinBlock, at: At) -> At:
    walk.branch("attention", [(block.norm1, "norm1"), (block.attention, "attention")], at, 1.0)
    walk.branch("mlp", [(block.norm2, "norm2"), (block.mlp, "mlp")], at, 1.0)
    return without_radius(at)


@lipschitz_rule(OverlappingStem)
def _overlapping_stem(walk: Walk, module: OverlappingStem, at: At) -> At:
    dim, height, width = walk.visit(module.conv, "conv", at).shape
    return walk.visit(module.norm, "norm", At((height, width, dim)))


@lipschitz_rule(PatchEmbed)
def _patch_embed(walk: Walk, module: Any, at: At) -> At:
    size, pad = at.shape[1:], module.dynamic_img_pad
    filled = tuple(side + -side % patch for side, patch in zip(size, module.patch_size))
    if module.img_size is not None:
        _check_size(walk, at, module.img_size if module.strict_img_size else size if pad else filled)
    if pad:  # zeros change no norm
        at = At((at.shape[0], *filled))
    dim, height, width = walk.visit(module.proj, "proj", at).shape
    shape = (height * width, dim) if module.flatten else (height, width, dim)
    return walk.visit(module.norm, "norm", At(shape))


def _check_size(walk: Walk, at: At, allowed: Any) -> None:
    if at.shape[1:] != tuple(allowed):
        raise ValueError(f"{walk.path or 'network'}: images of {at.shape[1:]} (allowed: {tuple(allowed)})")


@lipschitz_rule(PatchMerging)
def _patch_merging(walk: Walk, module: Any, at: At) -> At:
    height, width, dim = at.shape
    at = walk.visit(module.norm, "norm", At(((height + 1) // 2, (width + 1) // 2, 4 * dim)))
    return walk.visit(module.reduction, "reduction", at)


@lipschitz_rule(Downsample)
def _downsample(walk: Walk, module: Downsample, at: At) -> At:
    height, width, dim = at.shape
    if module.fill:
        height, width = height + height % 2, width + width % 2
    dim, height, width = walk.visit(module.conv, "conv", At((dim, height, width))).shape
    return walk.visit(module.norm, "norm", At((height, width, dim)))


@lipschitz_rule(ClassifierHead)
def _head(walk: Walk, module: Any, at: At) -> At:
    pool = module.global_pool.pool_type
    if pool == "avg":
        walk.add(module.global_pool, math.prod(at.shape[:-1]) ** (-0.5 if walk.p == "two" else 0.0))
    at = At(at.shape if pool == "" else at.shape[-1:])
    return walk.visit(module.fc, "fc", at)


@lipschitz_rule(RandomFeatureGP)
def _gaussian_process(walk: Walk, module: RandomFeatureGP, at: At) -> At:
    features = module.weight.shape[0]
    inner = math.sqrt(2 / features) / module.length_scale * float(_norm(walk, module.weight))
    walk.add(module, inner * float(_norm(walk, module.out.weight)))
    return without_radius(at, *at.shape[:-1], module.out.out_features)


@lipschitz_rule(Pyramid, LipsFormer)
def _pyramid(walk: Walk, module: Pyramid, at: At) -> At:
    _check_size(walk, at, module.img_size)
    for name in ("patch_embed", "layers", "norm", "head"):
        at = walk.visit(getattr(module, name), name, at)
    return at


@lipschitz_rule(ResidualViT)
def _vit(walk: Walk, module: ResidualViT, at: At) -> At:
    tokens, dim = walk.visit(module.patch_embed, "patch_embed", at).shape
    at = At((tokens + module.num_prefix_tokens, dim))
    at = walk.visit(module.norm, "norm", walk.visit(module.blocks, "blocks", at))
    if module.global_pool == "avg" and walk.p == "two":
        walk.add(module, tokens**-0.5)
    if module.global_pool:
        at = At((dim,))
    return walk.visit(module.head, "head", walk.visit(module.shift, "shift", at))
