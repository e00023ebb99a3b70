r"""A weight that keeps a stated norm while it is trained: spectral normalisation as a reparametrisation.

.. math:: \tilde W = \frac{W}{\max(1,\ \sigma(W) / L)}, \qquad \sigma(\tilde W) = \min(\sigma(W), L)

========  ============================================================  ===========================
symbol    meaning                                                       code
========  ============================================================  ===========================
W         the trained weight                                            ``original``
W̃         what the layer multiplies by                                  ``layer.weight``
L         the stated norm                                               ``bound``
σ(W)      the 2-norm of the map that the layer makes of W               :meth:`NormConstraint.norm`
v         unit vector of the inputs, kept between the steps             ``vector``
========  ============================================================  ===========================

What the map is, and the shape of v:

===========  ======================================================================  ======================
map          σ                                                                       v
===========  ======================================================================  ======================
`Rows`       of every block of rows of a matrix, (blocks, out/blocks, in)            (blocks, 1, in)
`Kernel`     of a convolution as a map of whole images, with its padding, stride,    (1, channels, \*size)
             dilation and groups; not of the kernel flattened to a matrix. v has a
             unit vector for each group
`Diagonal`   the largest modulus, the 2-norm of diag(w), of a vector or number       none
===========  ======================================================================  ======================

Two ways to σ:

* ``upper`` never under-estimates: singular values for rows, the Fourier transform for circular convolutions, and for zero padding
  the larger torus of :mod:`relearn.maths.conv_bounds`. The constraint then holds after every step, up to rounding.
* ``power`` is power iteration on the map and its adjoint, :math:`v \leftarrow A^\top A v / \|A^\top A v\|` and
  :math:`\hat\sigma = \|A v\| \le \sigma`, with ``iterations`` steps at each use of the weight in training mode and none in evaluation
  mode. It takes every padding and costs a few products, but it is a lower estimate, so σ(W̃) ≤ L σ/σ̂ only. Training drives several
  singular values to the limit, where they are close together and the iteration is slow: expect some per cent above L, more after large
  steps (tests/layers/test_constraints.py allows a quarter, with ten iterations). :meth:`NormConstraint.settle` lets it converge, as
  before an evaluation or a certificate.

The gradient goes through σ; with ``power`` it is that of ‖A v‖ at the present v, which is the gradient of σ once v has converged.

Sources: power iteration in training is spectral normalisation (Miyato et al., ICLR 2018), and dividing only above L is the projection
of Gouk et al. (Machine Learning 110, 2021). qi2023 normalises once, before training (equation 5), and says of α that it could be kept in
a range "during the whole training process" (section 4.1.3) without doing so. Differences: Miyato et al. flatten kernels, always divide,
and take one step; here there are five by default, and the first v has converged.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils import parametrize

from relearn.layers.on_device import wide
from relearn.maths.conv_bounds import conv_bound
from relearn.maths.norms import CONVOLUTIONS, PADDING_MODES, conv_operator_norm, spectral_norm
from relearn.maths.operator_norm import flattened_is_exact

METHODS = ("upper", "power")
ITERATIONS, FIRST_STEPS, FIRST_RESIDUAL = 5, 1_000, 1e-7


@dataclass(frozen=True)
class Rows:
    """The maps of ``blocks`` groups of rows, each with a norm of its own (1 for a linear layer, one a head for attention)."""

    blocks: int = 1

    def view(self, weight: Tensor) -> Tensor:
        """The blocks as matrices, (blocks, out/blocks, in)."""
        return weight.flatten(1).unflatten(0, (self.blocks, -1))

    def upper(self, weight: Tensor) -> Tensor:
        return spectral_norm(self.view(weight), check_finite=False)

    def inputs(self, weight: Tensor) -> tuple[int, ...]:
        return self.blocks, 1, self.view(weight).shape[2]

    def parts(self, v: Tensor) -> Tensor:
        """Vectors or images by the part of the map that they belong to, (blocks, 1, entries)."""
        return v

    def forward(self, weight: Tensor, v: Tensor) -> Tensor:
        return v @ self.view(weight).mT

    def adjoint(self, weight: Tensor, u: Tensor) -> Tensor:
        return u @ self.view(weight)

    def extreme(self, weight: Tensor) -> Tensor:
        """A weight whose every block has the norm 1: the same rows of the identity in each, so that no other choice has a larger
        norm as a whole."""
        out = torch.zeros_like(self.view(weight))
        torch.diagonal(out, dim1=1, dim2=2).fill_(1.0)
        return out.reshape(weight.shape)


@dataclass(frozen=True)
class Diagonal:
    """Entry-wise multiplication."""

    blocks = 1

    def upper(self, weight: Tensor) -> Tensor:
        return weight.abs().amax()[None]

    def extreme(self, weight: Tensor) -> Tensor:
        """All ones."""
        return torch.ones_like(weight)


@dataclass(frozen=True)
class Kernel:
    """A convolution of images of one size; its fields are those of ``nn.Conv1d`` to ``nn.Conv3d``."""

    size: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...] | str
    dilation: tuple[int, ...]
    groups: int
    padding_mode: str
    blocks = 1

    def upper(self, weight: Tensor) -> Tensor:
        """A number that is never below the norm: (1,).

        Raises:
            ValueError: a padding for which no such number is known here.
        """
        more: dict[str, Any] = dict(stride=self.stride, padding=self.padding, groups=self.groups)
        if self.padding_mode == "circular":
            more |= dict(dilation=self.dilation, padding_mode="circular", method="fourier")
            return conv_operator_norm(weight, self.size, **more)[None]
        if isinstance(self.padding, str) or self.padding_mode != "zeros" or set(self.dilation) != {1}:
            raise ValueError(
                f"padding {self.padding!r}, padding_mode {self.padding_mode!r}, dilation {self.dilation}: no upper bound "
                "(allowed with method upper: zeros or circular, padding as numbers, without dilation; or method power)"
            )
        return conv_bound(weight, self.size, **more)[None]

    def inputs(self, weight: Tensor) -> tuple[int, ...]:
        return 1, self.groups * weight.shape[1], *self.size

    def parts(self, v: Tensor) -> Tensor:
        """Images by groups, which are maps of their own, (1, groups, entries)."""
        return v.unflatten(1, (self.groups, -1)).flatten(2)

    def forward(self, weight: Tensor, v: Tensor) -> Tensor:
        padding = self._pads(weight)
        if any(padding):
            v = functional.pad(v, padding, mode=PADDING_MODES[self.padding_mode])
        convolve = CONVOLUTIONS[len(self.size)]
        return convolve(v, weight, stride=self.stride, dilation=self.dilation, groups=self.groups)

    def adjoint(self, weight: Tensor, u: Tensor) -> Tensor:
        at = u.new_zeros(self.inputs(weight))
        back: Any = torch.func.vjp(lambda v: self.forward(weight, v), at)[1]
        return back(u)[0]

    def extreme(self, weight: Tensor) -> Tensor:
        """The norm 1 at every size: in every group, rows of the identity at one pixel of the kernel."""
        out = torch.zeros_like(weight)
        pixel = out.unflatten(0, (self.groups, -1))
        for k in weight.shape[2:]:
            pixel = pixel.select(3, k // 2)
        torch.diagonal(pixel, dim1=1, dim2=2).fill_(1.0)
        return out

    def _pads(self, weight: Tensor) -> list[int]:
        """Numbers for ``functional.pad``: before and after, last axis first."""
        pads: list[tuple[int, int]]
        if isinstance(self.padding, str):
            spans = [d * (k - 1) for d, k in zip(self.dilation, weight.shape[2:])]
            pads = [(span // 2, span - span // 2) if self.padding == "same" else (0, 0) for span in spans]
        else:
            pads = [(one, one) for one in self.padding]
        return [amount for pair in reversed(pads) for amount in pair]


Map = Rows | Diagonal | Kernel


class NormConstraint(nn.Module):
    """The reparametrisation of this module's first line, for ``torch.nn.utils.parametrize``.

    Shapes: the weight of any layer; the output has its shape. State: ``vector`` (with ``power``), which belongs to the state dict.

    Args:
        weight: the weight at the start.
        bound: L.
        map: what the layer makes of it.
        method, iterations: see above; the diagonal is always exact.

    Raises:
        ValueError: a bound that is not positive and finite, an unknown method, fewer than one iteration, a number of blocks that does
            not divide the rows, or, with ``upper``, a padding without an upper bound.
    """

    def __init__(
        self, weight: Tensor, bound: float, map: Map, *, method: str = "upper", iterations: int = ITERATIONS
    ) -> None:
        super().__init__()
        if not 0 < bound < math.inf:
            raise ValueError(f"bound: found {bound}, allowed: a positive number")
        if method not in METHODS:
            raise ValueError(f"method: found {method!r}, allowed: {', '.join(METHODS)}")
        if iterations < 1:
            raise ValueError(f"iterations: found {iterations}, allowed: at least 1")
        if map.blocks < 1 or (map.blocks > 1 and len(weight) % map.blocks):
            raise ValueError(f"blocks: found {map.blocks}, allowed: a divisor of {len(weight)} rows")
        self.bound, self.map, self.iterations = float(bound), map, iterations
        self.method = "upper" if isinstance(map, Diagonal) else method
        full = wide(weight.detach())
        if self.method == "upper":
            map.upper(full)  # says now if there is none
            return
        assert not isinstance(map, Diagonal)
        drawn = torch.randn(map.inputs(full), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        parts = map.parts(drawn)
        self.vector: Tensor
        self.register_buffer("vector", (parts / _size(parts)).reshape(drawn.shape).to(full))
        self.settle(weight)

    def norm(self, weight: Tensor) -> Tensor:
        """σ of each block, (blocks,): ``upper``, or ‖A v‖ at the present v without a step."""
        if self.method == "upper":
            return self.map.upper(weight)
        assert not isinstance(self.map, Diagonal)
        v = self.vector.to(weight).clone()  # later steps change the buffer, which the gradient still needs
        return _size(self.map.parts(self.map.forward(weight, v))).flatten(1).amax(1)

    def forward(self, weight: Tensor) -> Tensor:
        if self.training and self.method == "power":
            self._iterate(wide(weight.detach()), self.iterations)
        full = wide(weight)
        divisor = (self.norm(full) / self.bound).clamp_min(1.0)
        capped = full.reshape(self.map.blocks, -1) / divisor[:, None]
        return capped.reshape(weight.shape).to(weight.dtype)

    def right_inverse(self, weight: Tensor) -> Tensor:
        """The weight itself: what is assigned to the layer is capped at its next use."""
        return weight

    @torch.no_grad()
    def settle(self, weight: Tensor, steps: int = FIRST_STEPS, residual: float = FIRST_RESIDUAL) -> None:
        """Take the best v for this weight: that of rows from a decomposition, that of a convolution by power iteration until
        ‖AᵀA v - σ² v‖ ≤ residual · σ², for at most ``steps`` steps."""
        if self.method == "upper":
            return
        weight = wide(weight.detach())
        if isinstance(self.map, Rows):
            self.vector.copy_(torch.linalg.svd(self.map.view(weight), full_matrices=False)[2][:, :1])
        else:
            self._iterate(weight, steps, residual)

    @torch.no_grad()
    def _iterate(self, weight: Tensor, steps: int, residual: float = 0.0) -> None:
        assert not isinstance(self.map, Diagonal)
        v = self.vector.to(weight)
        attainable = max(residual, 16 * torch.finfo(v.dtype).eps) if residual else 0.0
        for _ in range(steps):
            before = self.map.parts(v)
            image = self.map.parts(self.map.adjoint(weight, self.map.forward(weight, v)))
            squares = _size(image)
            moved = torch.where(squares > 0, image / squares.clamp_min(torch.finfo(v.dtype).tiny), before)
            v = moved.reshape(v.shape)
            if residual and bool((_size(image - squares * before) <= attainable * squares).all()):
                break
        self.vector.copy_(v)

    def extreme(self, weight: Tensor) -> Tensor:
        """A weight of this shape that attains the constraint."""
        return self.bound * self.map.extreme(weight)

    def extra_repr(self) -> str:
        return f"bound={self.bound:g}, map={type(self.map).__name__}, method={self.method}"


def constrain_norm(
    layer: nn.Module,
    bound: float = 1.0,
    *,
    name: str = "weight",
    blocks: int = 1,
    size: int | Sequence[int] | None = None,
    method: str = "upper",
    iterations: int = ITERATIONS,
) -> nn.Module:
    """Put a :class:`NormConstraint` on one weight of a layer, in place; ``parametrize.remove_parametrizations`` takes it off.

    Args:
        layer: a convolution of one to three axes, or any module whose ``name`` is a matrix (a map) or a vector (a diagonal).
        bound: L.
        name: the weight.
        blocks: number of equal groups of rows with a norm of their own; of matrices only.
        size: size of a convolution's input along its axes; needed unless its windows neither overlap nor reach into padding.
        method, iterations: see the module.

    Returns:
        The layer.

    Raises:
        ValueError: arguments that :class:`NormConstraint` rejects; no possible size for a convolution that needs one; blocks for another
            weight than a matrix; a weight of more than two axes in another layer (transposed convolutions, bilinear maps), or with a
            parametrization.
    """
    weight = weight_of(layer, name, 1)
    map = map_of(layer, weight, blocks=blocks, size=size)
    constraint = NormConstraint(weight, bound, map, method=method, iterations=iterations).train(
        layer.training
    )
    parametrize.register_parametrization(layer, name, constraint)
    return layer


def weight_of(layer: nn.Module, name: str, least: int) -> Tensor:
    """A weight that can be constrained; ValueError for another dtype or shape, with ``least`` the smallest number of axes, and for a
    weight with a parametrization: a second one would not see what the first makes of the trained weight."""
    if parametrize.is_parametrized(layer, name):
        kinds = ", ".join(
            type(one).__name__ for one in layer.get_submodule(f"parametrizations.{name}").children()
        )
        raise ValueError(
            f"{name} of {type(layer).__name__}: found parametrizations ({kinds}), allowed: a plain parameter"
        )
    weight = getattr(layer, name)
    lazy = weight is not None and nn.parameter.is_lazy(weight)
    own = isinstance(layer, nn.Conv1d | nn.Conv2d | nn.Conv3d) and name == "weight"
    fits = weight is not None and not lazy and weight.is_floating_point() and weight.numel() > 0
    if not fits or (weight.dim() > 2 and not own):
        shape = (
            "None" if weight is None else "no shape yet" if lazy else f"{weight.dtype} {tuple(weight.shape)}"
        )
        axes = "1 or 2 axes" if least == 1 else "2 axes"
        raise ValueError(
            f"{name} of {type(layer).__name__}: found {shape}, allowed: real numbers, not empty, {axes}, or Conv1d to Conv3d"
        )
    return weight


def map_of(
    layer: nn.Module, weight: Tensor, *, blocks: int = 1, size: int | Sequence[int] | None = None
) -> Map:
    """The map that a layer makes of its weight; arguments and errors as in :func:`constrain_norm`."""
    if blocks != 1 and weight.dim() != 2:
        raise ValueError(f"blocks: found {blocks} for a weight of {weight.dim()} axes, allowed: 1")
    if isinstance(layer, nn.Conv1d | nn.Conv2d | nn.Conv3d) and weight.dim() > 2:
        if flattened_is_exact(layer):
            return Rows()
        axes = len(layer.kernel_size)
        if size is None:
            raise ValueError(
                "size: found none, allowed: the size of the images, for the windows of this convolution meet"
            )
        sizes = (size,) * axes if isinstance(size, int) else tuple(size)
        if len(sizes) != axes or min(sizes) < 1:
            raise ValueError(f"size: found {size}, allowed: 1 or more, for all or each of {axes} axes")
        padding = layer.padding if isinstance(layer.padding, str) else tuple(layer.padding)
        return Kernel(
            sizes, tuple(layer.stride), padding, tuple(layer.dilation), layer.groups, layer.padding_mode
        )
    return Diagonal() if weight.dim() < 2 else Rows(blocks)


def _size(parts: Tensor) -> Tensor:
    return torch.linalg.vector_norm(parts, dim=2, keepdim=True)
