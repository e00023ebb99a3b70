"""Linear maps after a GELU that save the GELU's input for the backward pass, but not its output."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, linear


class GeluLinear(nn.Linear):
    r"""``nn.Linear`` applied to the exact GELU of its input.

    .. math:: y = W \phi(z) + \beta, \qquad \phi(z) = z\, \Phi(z)

    The backward pass recomputes φ(z) instead of storing a second tensor of the hidden width. Derivatives of
    every order exist, in forward and reverse mode.

    Shapes: z (..., ``in_features``), output (..., ``out_features``).
    """

    def forward(self, z: Tensor) -> Tensor:
        return gelu_product(z, self.weight, self.bias)


class GeluPointwiseConv2d(nn.Conv2d):
    """:class:`GeluLinear` as a 1 x 1 convolution D to D, computed as a product over the channels.

    Channels-last images are not copied. Shapes: z (B, D, H, W), channels last; the output likewise.

    Args:
        dim: D.
    """

    def __init__(self, dim: int) -> None:
        super().__init__(dim, dim, 1)

    def forward(self, z: Tensor) -> Tensor:
        return gelu_product(z.permute(0, 2, 3, 1), self.weight.flatten(1), self.bias).permute(0, 3, 1, 2)


def gelu_product(z: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Apply the formula of :class:`GeluLinear`; under a compiler, which decides what to store, as two operations."""
    if torch.compiler.is_compiling():
        return linear(gelu(z), weight, bias)
    return GeluProduct.apply(z, weight, bias)


class GeluProduct(torch.autograd.Function):
    """Autograd function of :class:`GeluLinear`."""

    generate_vmap_rule = True

    @staticmethod
    def forward(z: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        return linear(gelu(z), weight, bias)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        z, weight, bias = ctx.saved_tensors
        needed = ctx.needs_input_grad
        if torch.is_grad_enabled():
            given = (z, weight) if bias is None else (z, weight, bias)
            pulled: Any = torch.func.vjp(lambda *at: linear(gelu(at[0]), *at[1:]), *given)
            return (*pulled[1](grad), None)[:3]
        rows = grad.reshape(-1, grad.shape[-1])
        near = z.to(grad.dtype)  # under autocast the output, and thus the gradient, may have another type
        to_z = torch.ops.aten.gelu_backward(grad @ weight.to(grad.dtype), near) if needed[0] else None
        to_weight = rows.mT @ gelu(near).reshape(-1, near.shape[-1]) if needed[1] else None
        return to_z, to_weight, rows.sum(0) if needed[2] else None

    @staticmethod
    def jvp(ctx: Any, z: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        at_z, at_weight, _ = ctx.saved_tensors
        moved = linear(torch.ops.aten.gelu_backward(z, at_z), at_weight)
        return moved + linear(gelu(at_z), weight, bias)
