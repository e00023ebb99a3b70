r"""A weight with orthonormal rows or columns, times a stated norm, while it is trained: Björck's iteration as a reparametrisation.

.. math:: A_0 = \frac{W}{s}, \qquad A_{k+1} = \tfrac12 A_k\, (3 I - A_k^\top A_k), \qquad \tilde W = L A_K,
          \qquad s = \min\bigl(\|W\|_F,\ (\|W\|_1 \|W\|_\infty)^{1/2}\bigr) \ge \sigma_{\max}(W)

======  ======================================================  ==============
symbol  meaning                                                 code
======  ======================================================  ==============
W       the trained weight, one matrix or blocks of rows        ``original``
W̃       what the layer multiplies by                            ``layer.weight``
L       all its singular values, in the limit                   ``bound``
K       number of steps                                         ``iterations``
======  ======================================================  ==============

Each step keeps the singular vectors and takes a singular value σ to σ(3 - σ²)/2, a function that grows on [0, 1] from 0 to 1. So a
value in (0, 1] stays there and rises to 1, with 1 - σ' = (1 - σ)² (2 + σ)/2 (quadratically); a small one grows by almost 3/2 a
step. Hence

* A_K converges to the factor U Vᵀ of the decomposition W = U Σ Vᵀ if W has full rank, the nearest matrix with orthonormal rows (or
  columns);
* the norm of W̃ never exceeds L, whatever K is. Unlike power iteration, stopping early costs orthonormality and not the bound.

A singular value 0 stays 0. The gradient goes through all steps and through s.

Convolutions: defined where the windows neither overlap nor reach into padding, 1 x 1 and patches, because the map is then the flattened
kernel, applied to each window (in each group). For overlapping windows the nearest orthonormal map is in general no convolution of the same
kernel size, and this module refuses.

Source: Björck and Bowie, SIAM J. Numer. Anal. 8 (1971), first order; used for Lipschitz networks by Anil, Lucas and Grosse (ICML 2019).
Differences: s here is never below the largest singular value, so that the bound needs no convergence.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from relearn.layers.norm_constraint import Rows, weight_of
from relearn.layers.on_device import wide
from relearn.maths.operator_norm import separate_windows

ITERATIONS = 20


class OrthonormalConstraint(nn.Module):
    """The reparametrisation of this module's first line, for ``torch.nn.utils.parametrize``; it has no state.

    Shapes: a weight (out, \\*rest), flattened to ``blocks`` matrices (out/blocks, rest); the output has its shape.

    Args:
        weight: the weight at the start.
        bound: L.
        blocks: number of equal groups of rows, each orthonormal by itself.
        iterations: K.

    Raises:
        ValueError: a bound that is not positive and finite, fewer than one iteration, a weight with fewer than two axes, or a number of
            blocks that does not divide the rows.
    """

    def __init__(
        self, weight: Tensor, bound: float = 1.0, *, blocks: int = 1, iterations: int = ITERATIONS
    ) -> None:
        super().__init__()
        if not 0 < bound < math.inf:
            raise ValueError(f"bound: found {bound}, allowed: a positive number")
        if iterations < 1:
            raise ValueError(f"iterations: found {iterations}, allowed: at least 1")
        if weight.dim() < 2:
            raise ValueError(f"weight: found {weight.dim()} axes, allowed: at least 2")
        if blocks < 1 or len(weight) % blocks:
            raise ValueError(f"blocks: found {blocks}, allowed: a divisor of {len(weight)} rows")
        self.bound, self.map, self.iterations = float(bound), Rows(blocks), iterations

    def forward(self, weight: Tensor) -> Tensor:
        matrices = self.map.view(wide(weight))
        return (self.bound * orthonormal(matrices, self.iterations)).reshape(weight.shape).to(weight.dtype)

    def right_inverse(self, weight: Tensor) -> Tensor:
        """The weight itself: what is assigned to the layer is made orthonormal at its next use."""
        return weight

    def extreme(self, weight: Tensor) -> Tensor:
        """A weight of this shape that attains the constraint."""
        return self.bound * self.map.extreme(weight)

    def extra_repr(self) -> str:
        return f"bound={self.bound:g}, blocks={self.map.blocks}, iterations={self.iterations}"


def orthonormal(matrix: Tensor, iterations: int = ITERATIONS) -> Tensor:
    """A_K of matrices (..., m, n): orthonormal rows if m ≤ n, else columns. A matrix of zeros stays one."""
    tall = matrix if matrix.shape[-2] >= matrix.shape[-1] else matrix.mT
    size = tall.abs()
    product = size.sum(-1).amax(-1) * size.sum(-2).amax(-1)
    scale = torch.minimum(tall.square().sum((-2, -1)), product).clamp_min(torch.finfo(tall.dtype).tiny).sqrt()
    a = tall / scale[..., None, None]
    for _ in range(iterations):
        a = 1.5 * a - 0.5 * (a @ (a.mT @ a))
    return a if tall is matrix else a.mT


def constrain_orthonormal(
    layer: nn.Module,
    bound: float = 1.0,
    *,
    name: str = "weight",
    blocks: int = 1,
    iterations: int = ITERATIONS,
) -> nn.Module:
    """Put an :class:`OrthonormalConstraint` on one weight of a layer, in place; ``parametrize.remove_parametrizations`` takes it off.

    Args:
        layer: any module whose ``name`` is a matrix, or a convolution whose windows neither overlap nor reach into padding; its groups
            are blocks.
        bound, blocks, iterations: see :class:`OrthonormalConstraint`.
        name: the weight.

    Returns:
        The layer.

    Raises:
        ValueError: arguments that :class:`OrthonormalConstraint` rejects, another convolution, another layer with more than two axes, or a
            weight with a parametrization.
    """
    weight = weight_of(layer, name, 2)
    if isinstance(layer, nn.Conv1d | nn.Conv2d | nn.Conv3d):
        if not separate_windows(layer):
            raise ValueError(
                f"convolution: found kernel {layer.kernel_size}, stride {layer.stride}, padding {layer.padding}, allowed: windows "
                "that neither overlap nor reach into padding"
            )
        blocks *= layer.groups
    constraint = OrthonormalConstraint(weight, bound, blocks=blocks, iterations=iterations)
    parametrize.register_parametrization(layer, name, constraint.train(layer.training))
    return layer
