"""Batch normalisation with batch statistics (formulas in the package's docstring), and weight normalisation."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from relearn.methods.learned_scales.second_order.stage import GRADIENT, GRAPH, Stage


def normalise(
    stage: Stage,
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor | None:
    """``torch.nn.functional.batch_norm``, or None if the call is left to autograd."""
    if not training or running_mean is not None or weight is None or bias is None:
        return None
    if not input.requires_grad or torch.is_autocast_enabled(input.device.type):
        return None
    if not stage.ends_at(weight, bias):
        return None
    return _Normalise.apply(input, weight, bias, eps, stage)


def weight_by_norm(stage: Stage, v: Tensor, g: Tensor, dim: int = 0) -> Tensor:
    """``torch._weight_norm``: g v / ‖v‖, with the norm over all axes but ``dim``; -1: over all."""
    over = [axis for axis in range(v.dim()) if axis != dim]
    return g * v / torch.linalg.vector_norm(v, dim=over, keepdim=dim >= 0)


class _Normalise(torch.autograd.Function):
    """Batch normalisation with batch statistics."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, a: Tensor, b: Tensor, eps: float, stage: Stage) -> Tensor:
        y, mean, r = torch.native_batch_norm(x, a, b, None, None, True, 0.0, eps)
        ctx.eps, ctx.stage, ctx.kept = eps, stage, None
        ctx.save_for_backward(x, a, mean, r)
        return y

    @staticmethod
    def backward(ctx: Any, gy: Tensor) -> tuple[Any, ...]:
        x, a, mean, r = ctx.saved_tensors
        if ctx.stage.now == GRAPH:
            kept, ctx.kept = ctx.kept, None
            return (*_NormaliseBackward.apply(x, a, gy, mean, r, ctx.eps, kept), None, None)
        found = _normalise_backward(gy, x, a, mean, r, ctx.eps)
        if ctx.stage.now == GRADIENT:
            ctx.kept = found[0]
        return (*found, None, None)


class _NormaliseBackward(torch.autograd.Function):
    """The gradients of a and b have a graph but no values."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, a: Tensor, gy: Tensor, mean: Tensor, r: Tensor, eps: float, kept: Tensor | None
    ) -> tuple[Tensor, ...]:
        gx = kept.detach() if kept is not None else _normalise_backward(gy, x, a, mean, r, eps)[0]
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(x, a, gy, mean, r)
        nothing = gy.new_zeros(())
        return gx, nothing.expand(a.shape), nothing.expand(a.shape)

    @staticmethod
    def backward(ctx: Any, u: Any, va: Any, vb: Any) -> tuple[Any, ...]:
        x, a, gy, mean, r = ctx.saved_tensors
        over, shape = (0, *range(2, x.dim())), (1, -1, *[1] * (x.dim() - 2))
        count = x.numel() // x.shape[1]
        u = torch.zeros_like(x) if u is None else u
        va = torch.zeros_like(a) if va is None else va
        vb = torch.zeros_like(a) if vb is None else vb

        def average(*factors: Tensor) -> Tensor:
            product = factors[0] if len(factors) == 1 else factors[0] * factors[1]
            return product.sum(over) / count

        # x̂ = r x - r μ, so means with x̂ follow from means with x, and x̂ need not be stored.
        u1, g1, ug = average(u), average(gy), average(u, gy)
        ux, gx = r * (average(u, x) - mean * u1), r * (average(gy, x) - mean * g1)
        projected = ug - u1 * g1 - ux * gx  # m(P(u) gy)
        # g_y: a r u + (v_a - a r m(u x̂)) x̂ + v_b - a r m(u)
        on_xhat = va - a * r * ux
        to_gy = _affine(shape, (u, a * r), (x, on_xhat * r), vb - a * r * u1 - on_xhat * r * mean)
        # x: r (t - m(t) - x̂ m(t x̂)) - r a r m(P(u) gy) x̂ with t = on_xhat gy - a r m(gy x̂) u
        on_u = -a * r * gx
        t1, tx = on_xhat * g1 + on_u * u1, on_xhat * gx + on_u * ux
        by_xhat = -r * (tx + a * r * projected)
        by_x = _affine(
            shape,
            (gy, r * on_xhat),
            (u, r * on_u),
            -r * t1 - by_xhat * r * mean,
        ).addcmul_(x, (by_xhat * r).view(shape))
        return by_x, r * count * projected, to_gy, None, None, None, None


def _affine(
    shape: tuple[int, ...], one: tuple[Tensor, Tensor], other: tuple[Tensor, Tensor], shift: Tensor
) -> Tensor:
    """one·k + other·l + shift, where k, l and shift have one number per channel."""
    found = torch.addcmul(shift.view(shape), one[0], one[1].view(shape))
    return found.addcmul_(other[0], other[1].view(shape))


def _normalise_backward(gy: Tensor, x: Tensor, a: Tensor, mean: Tensor, r: Tensor, eps: float) -> Any:
    return torch.ops.aten.native_batch_norm_backward(
        gy, x, a, None, None, mean, r, True, eps, [True, True, True]
    )
