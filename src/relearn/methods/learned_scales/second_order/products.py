"""Convolutions and linear maps: y = w * x + b, bilinear in x and w (formulas in the package's docstring)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from relearn.methods.learned_scales.second_order.stage import CURVATURE, GRAPH, Stage


def convolve(
    stage: Stage,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor | None:
    """``torch.conv1d``, ``conv2d`` or ``conv3d``, or None if the call is left to autograd."""
    if isinstance(padding, str) or input.dim() != weight.dim() or not _ours(stage, input, weight, bias):
        return None
    how = _Convolution(input.dim() - 2, stride, padding, dilation, groups)
    return _Product.apply(input, weight, bias, how, stage)


def multiply(stage: Stage, input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor | None:
    """``torch.nn.functional.linear``, or None if the call is left to autograd."""
    if weight.dim() != 2 or input.dim() < 2 or not _ours(stage, input, weight, bias):
        return None
    return _Product.apply(input, weight, bias, _Linear(), stage)


def _ours(stage: Stage, x: Tensor, w: Tensor, b: Tensor | None) -> bool:
    return id(w) in stage.known and stage.ends_at(b) and not torch.is_autocast_enabled(x.device.type)


class _Bilinear:
    """w * x and its adjoints; autograd does not differentiate through them."""

    def forward(self, x: Tensor, w: Tensor, b: Tensor | None) -> Tensor:
        raise NotImplementedError

    def adjoints(self, gy: Tensor, x: Tensor, w: Tensor, to_x: bool, to_w: bool) -> tuple[Any, Any]:
        raise NotImplementedError

    def to_bias(self, gy: Tensor) -> Tensor:
        raise NotImplementedError

    def add_bias(self, y: Tensor, b: Tensor) -> Tensor:
        raise NotImplementedError


class _Convolution(_Bilinear):
    def __init__(self, dims: int, stride: Any, padding: Any, dilation: Any, groups: int) -> None:
        def spread(value: Any) -> list[int]:
            return [value] * dims if isinstance(value, int) else list(value) * (dims // len(value))

        self.how = (
            spread(stride),
            spread(padding),
            spread(dilation),
            False,
            [0] * dims,
            groups,
        )
        self.over = (0, *range(2, dims + 2))
        self.shape = (1, -1, *[1] * dims)

    def forward(self, x: Tensor, w: Tensor, b: Tensor | None) -> Tensor:
        return torch.convolution(x, w, b, *self.how)

    def adjoints(self, gy: Tensor, x: Tensor, w: Tensor, to_x: bool, to_w: bool) -> tuple[Any, Any]:
        found = torch.ops.aten.convolution_backward(gy, x, w, None, *self.how, [to_x, to_w, False])
        return found[0], found[1]

    def to_bias(self, gy: Tensor) -> Tensor:
        return gy.sum(self.over)

    def add_bias(self, y: Tensor, b: Tensor) -> Tensor:
        return y.add_(b.view(self.shape))


class _Linear(_Bilinear):
    def forward(self, x: Tensor, w: Tensor, b: Tensor | None) -> Tensor:
        return functional.linear(x, w, b)

    def adjoints(self, gy: Tensor, x: Tensor, w: Tensor, to_x: bool, to_w: bool) -> tuple[Any, Any]:
        return gy @ w if to_x else None, gy.flatten(0, -2).t() @ x.flatten(0, -2) if to_w else None

    def to_bias(self, gy: Tensor) -> Tensor:
        return gy.flatten(0, -2).sum(0)

    def add_bias(self, y: Tensor, b: Tensor) -> Tensor:
        return y.add_(b)


class _Product(torch.autograd.Function):
    """y = w * x + b."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor, b: Tensor | None, op: _Bilinear, stage: Stage) -> Tensor:
        ctx.op, ctx.stage, ctx.kept = op, stage, None
        ctx.save_for_backward(x, w)
        return op.forward(x, w, b)

    @staticmethod
    def backward(ctx: Any, gy: Tensor) -> tuple[Any, ...]:
        x, w = ctx.saved_tensors
        to_x, _, to_b = ctx.needs_input_grad[:3]
        if ctx.stage.now == GRAPH:
            kept, ctx.kept = ctx.kept, None  # passed on, and freed as soon as the layer below has used it
            return (*_ProductBackward.apply(x, w, gy, to_x, to_b, ctx.op, kept), None, None)
        gb = ctx.op.to_bias(gy) if to_b else None
        if ctx.stage.now == CURVATURE and to_x:
            gx, _ = ctx.op.adjoints(gy, x, w, True, False)
            return gx, _with_product(w, _dot(gx, x)), gb, None, None
        gx, gw = ctx.op.adjoints(gy, x, w, to_x, True)
        ctx.kept = gx
        return gx, gw, gb, None, None


class _ProductBackward(torch.autograd.Function):
    """The gradients of a product as functions of x, w and gy. Those of w and b have a graph but no values, because the values are
    never used (``Stage.ends_at``)."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, w: Tensor, gy: Tensor, to_x: bool, to_b: bool, op: _Bilinear, kept: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        ctx.op = op
        ctx.set_materialize_grads(False)
        gx = None
        if to_x:
            # This must be a new tensor object, because autograd attaches a graph to the returned one.
            gx = kept.detach() if kept is not None else op.adjoints(gy, x, w, True, False)[0]
        ctx.save_for_backward(x, w, gy)
        nothing = gy.new_zeros(())
        return gx, nothing.expand(w.shape), nothing.expand(len(w)) if to_b else None

    @staticmethod
    def backward(ctx: Any, u: Any, v: Any, vb: Any) -> tuple[Any, ...]:
        x, w, gy = ctx.saved_tensors
        to_gy = by_x = by_w = None
        if u is not None:
            to_gy = ctx.op.forward(u, w, None)
            by_w = _with_product(w, _dot(gy, to_gy))
        if v is not None:
            more = ctx.op.forward(x, v, None)
            to_gy = more if to_gy is None else to_gy.add_(more)
            if ctx.needs_input_grad[0]:
                by_x, _ = ctx.op.adjoints(gy, x, v, True, False)
        if vb is not None:
            to_gy = ctx.op.add_bias(torch.zeros_like(gy) if to_gy is None else to_gy, vb)
        return by_x, by_w, to_gy, None, None, None, None


def _dot(one: Tensor, other: Tensor) -> Tensor:
    return torch.dot(one.reshape(-1), other.reshape(-1))


def _with_product(w: Tensor, product: Tensor) -> Tensor:
    """A tensor h with ⟨h, w⟩ = product; 0 if w is 0."""
    return w * (product / w.square().sum().clamp_min(torch.finfo(w.dtype).tiny))
