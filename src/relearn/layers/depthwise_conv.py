"""Depth-wise convolutions whose backward pass on a CPU is about as fast as the forward pass."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d

from relearn.layers.on_device import own_backward

IMAGE_ENTRIES = (
    2**17
)  # the weight gradient is computed for groups of images with at most this many entries, or for one image


ONE_DNN = torch.backends.mkldnn.is_available()  # evaluated once, because torch.compile cannot trace the call


class DepthwiseConv2d(nn.Conv2d):
    r"""Size-preserving convolution of every channel with its own kernel: ``nn.Conv2d(D, D, k, groups=D)``.

    .. math:: y_c = w_c \star x_c + \beta_c, \qquad
              \bar x_c = \tilde w_c \star \bar y_c, \qquad \bar w_c = \sum_b x_{bc} \star \bar y_{bc}

    where :math:`\star` is the operation of ``torch.nn.functional.conv2d``, bars denote gradients, and the tilde rotates a
    kernel by 180 degrees. Both gradients are depth-wise convolutions themselves; for the weight, the output
    gradient is the kernel. oneDNN's forward kernel computes them at full speed, whereas its own kernel for the gradient of a
    depth-wise weight is 3 to 50 times slower on channels-last images. This path is used for float32 on a CPU
    outside autocast and outside a compiler; otherwise the layer is an ordinary ``nn.Conv2d``.

    Shapes: x (B, D, H, W), or (D, H, W) as an ordinary ``nn.Conv2d``; the output has the shape and memory format of x.

    Args:
        dim: D.
        kernel: k, odd.

    Raises:
        ValueError: the kernel size is even.
    """

    def __init__(self, dim: int, kernel: int) -> None:
        if kernel < 1 or kernel % 2 == 0:
            raise ValueError(f"kernel: {kernel} (allowed: an odd number >= 1)")
        super().__init__(dim, dim, kernel, padding=kernel // 2, groups=dim)

    def forward(self, x: Tensor) -> Tensor:
        fast = (
            ONE_DNN
            and x.dim() == 4
            and own_backward(x)
            and x.dtype == self.weight.dtype == torch.float32
            and not torch.is_autocast_enabled("cpu")
        )
        return Depthwise.apply(x, self.weight, self.bias) if fast else super().forward(x)


class Depthwise(torch.autograd.Function):
    """Autograd function of :class:`DepthwiseConv2d`; its backward pass is differentiable."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        return _convolve(x, weight, bias)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.save_for_backward(*inputs[:2])
        ctx.save_for_forward(*inputs[:2])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        to_x = to_weight = to_bias = None
        if ctx.needs_input_grad[0]:
            to_x = _convolve(grad, weight.flip(2, 3), None)
        if ctx.needs_input_grad[1]:
            to_weight = _weight_gradient(x, grad, weight.shape[-1] // 2)
        if ctx.needs_input_grad[2]:
            to_bias = grad.sum((0, 2, 3))
        return to_x, to_weight, to_bias

    @staticmethod
    def jvp(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        at_x, at_weight = ctx.saved_tensors
        moved = _convolve(x, at_weight, bias)
        return moved + _convolve(at_x, weight, None)


def _convolve(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return conv2d(x, weight, bias, padding=weight.shape[-1] // 2, groups=len(weight))


def _weight_gradient(x: Tensor, grad: Tensor, padding: int) -> Tensor:
    """Return the gradient (D, 1, k, k); every channel of every image becomes a group of one convolution."""
    batch, dim, height, width = x.shape
    together = max(1, min(batch, IMAGE_ENTRIES // max(1, dim * height * width)))
    found = []
    for images, kernels in zip(x.split(together), grad.split(together)):
        rows = len(images) * dim
        kernel = kernels.reshape(rows, 1, height, width)
        each = conv2d(images.reshape(1, rows, height, width), kernel, padding=padding, groups=rows)
        found.append(each.view(len(images), dim, *each.shape[2:]).sum(0))
    return torch.stack(found).sum(0)[:, None]
