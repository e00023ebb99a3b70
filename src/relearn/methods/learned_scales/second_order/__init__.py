r"""Efficient second derivatives of convolutions, linear maps and batch normalisation with batch statistics.

Autograd computes second derivatives of these layers correctly but slowly: for one convolution the Hessian-vector product takes, in
addition to the forward pass (1) and the gradient (2), another gradient with a graph (2) and six more products. GradInit's constraint
needs less: it needs only the inner products of H v with the weights W, and v is known when the graph is built. Let :math:`y = w * x` be
bilinear with adjoints :math:`x^\top(\cdot)` and :math:`w^\top(\cdot)`, c the cotangent of y in the last pass, and u and v the cotangents
of the gradients of x and w:

.. math:: \langle \nabla_w, w \rangle = \langle w^\top(c), x \rangle + \langle g_y, w * u \rangle

Both w^⊤(c) and w * u are computed anyway, which saves two of the six products. The gradient of the first pass is stored, so the
gradient with a graph is free. The cost drops from 11 units to 7; a training step takes 3. A convolution or linear map is replaced only
if its weight is itself one of the tensors θ = αW. Its bias, and the scale and shift of a normalisation, must also be such tensors or
need no gradient: for a computed one, such as :math:`b^2`, the chain rule uses the values of the gradient.
Everything else, and everything under autocast, is left to autograd.

For batch normalisation let :math:`\hat x = (x - \mu) r`, let m(·) be the mean over a channel's N numbers, and
:math:`P(z) = z - m(z) - \hat x\, m(z \hat x)`. The gradient is :math:`g_x = a r P(g_y)` (zhu2022, eq. 4.5). With cotangents u of g_x,
v_a and v_b of the gradients of a and b,

.. math:: g_y:\; a r P(u) + v_a \hat x + v_b, \qquad a:\; \langle u, g_x \rangle / a, \qquad
          x:\; r P(t) - \frac{r}{N} \langle u, g_x \rangle\, \hat x, \quad
          t = v_a g_y - a r\,\bigl(g_y\, m(u \hat x) + u\, m(g_y \hat x)\bigr)

All means involved are m(u), m(g_y), m(u x̂), m(g_y x̂) and m(u g_y).

Weight normalisation is replaced by its formula, because the second derivative of torch's function is wrong (2.13).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from relearn.methods.learned_scales.second_order.normalisation import normalise, weight_by_norm
from relearn.methods.learned_scales.second_order.products import convolve, multiply
from relearn.methods.learned_scales.second_order.stage import CURVATURE, GRADIENT, GRAPH, Stage


class SecondOrder(TorchFunctionMode):
    """Context for the forward pass of a network at ``theta``. Afterwards, call in this order:
    :meth:`gradient` (the plain gradient, as computed by autograd), then :meth:`along`. For v shaped like θ, ``along`` returns tensors
    whose inner products with θ equal those of H v.

    ``along`` may also be called alone. The forward pass must have run inside the context.
    """

    def __init__(self, theta: Sequence[Tensor]) -> None:
        super().__init__()
        self.theta = list(theta)
        self.stage = Stage(frozenset(id(one) for one in theta))

    def gradient(self, value: Tensor) -> list[Tensor]:
        """First-order gradient ∇_θ of the value; the graph is retained."""
        self.stage.now = GRADIENT
        return list(torch.autograd.grad(value, self.theta, retain_graph=True, materialize_grads=True))

    def along(self, value: Tensor, v: Sequence[Tensor], wanted: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """For each θ_i in ``wanted``, a tensor h with ⟨h, θ_i⟩ = ⟨(H v)_i, θ_i⟩."""
        self.stage.now = GRAPH
        graph = torch.autograd.grad(value, self.theta, create_graph=True, materialize_grads=True)
        self.stage.now = CURVATURE
        # A gradient without a graph (of a bias under a linear loss) is constant and contributes nothing.
        pairs = [(one, along) for one, along in zip(graph, v) if one.requires_grad]
        if not pairs:
            return tuple(torch.zeros_like(one) for one in wanted)
        ends, starts = zip(*pairs)
        return torch.autograd.grad(ends, list(wanted), starts, materialize_grads=True)

    def __torch_function__(
        self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        replacement = REPLACED.get(func)
        if replacement is not None and torch.is_grad_enabled():
            found = replacement(self.stage, *args, **(kwargs or {}))
            if found is not None:
                return found
        return func(*args, **(kwargs or {}))


REPLACED: dict[Any, Callable[..., Tensor | None]] = {
    torch.conv1d: convolve,
    torch.conv2d: convolve,
    torch.conv3d: convolve,
    functional.linear: multiply,
    functional.batch_norm: normalise,
    torch._weight_norm: weight_by_norm,
}
