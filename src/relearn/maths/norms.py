"""Differentiable operator norms of matrices and convolutions: exact, or from below by power iteration."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn import functional

ITERATIONS, TOLERANCE = 1_000, 1e-6
# singular values of a convolution are close together, so a smaller residual would take many steps
CONV_TOLERANCE = 1e-3
CHECK_EVERY = 16  # iterations between convergence checks, each of which transfers the residual to the host
DENSE_ENTRIES = (
    2**18
)  # convolutions with up to this many matrix entries per group are written out as matrices
ORDINARY = (
    2.0**-16,
    2.0**16,
)  # largest entries whose squares, and the squares of these, are far inside float32
START_SEED = 0  # seed of the initial vector of power iteration, so that a matrix always gives the same number
PADDING_MODES = {"zeros": "constant", "circular": "circular", "reflect": "reflect", "replicate": "replicate"}
CONVOLUTIONS = {1: functional.conv1d, 2: functional.conv2d, 3: functional.conv3d}


def inf_norm(matrix: Tensor, *, check_finite: bool = True) -> Tensor:
    r"""max_i Σ_j |W_ij|, the largest absolute row sum: (..., m, n) → (...).

    A layer x ↦ x W on rows applies W^T, so its norm is :math:`\|W^\top\|_\infty`.

    Raises:
        ValueError: not a matrix with entries, or NaN or infinity in it (unless check_finite is False).
    """
    _require_matrix(matrix, check_finite)
    return matrix.abs().sum(-1).amax(-1)


def spectral_norm(
    matrix: Tensor,
    *,
    method: str = "exact",
    iterations: int = ITERATIONS,
    tolerance: float = TOLERANCE,
    check_finite: bool = True,
) -> Tensor:
    r"""The largest singular value σ_1 of each matrix: (..., m, n) → (...).

    * ``exact``: singular values; half-precision input is converted to float32.
    * ``power``: power iteration on W^T W (kim2020, equation 11),

      .. math:: b \leftarrow \frac{W^\top W b}{\|W^\top W b\|}, \qquad
                \sigma_1 \ge \Big(\frac{b^\top W^\top W b}{b^\top b}\Big)^{1/2}

      a lower estimate: after k steps it is too small by about (σ_2/σ_1)^(4k) σ_1, so it is not an upper
      bound. It stops early if :math:`\|W^\top W b - \sigma^2 b\| \le \text{tolerance} \cdot \sigma^2`. Half precision is
      converted likewise, and very large or small matrices are divided by a power of two, for their squares leave the range of numbers.

    Both are differentiable: the gradient of ``power`` is that of ‖W b‖ at the last b, which is u v^T at the optimum.

    Args:
        iterations: maximum number for ``power``; if it does not suffice for tolerance > 0, a RuntimeWarning is issued.
        tolerance: 0 runs all iterations.
        check_finite: False skips the check of every entry, which makes the host wait for a GPU; a matrix with
            NaN or infinity then has the norm NaN.

    Raises:
        ValueError: not a matrix with entries, NaN or infinity in it, or an unknown method.
    """
    _require_matrix(matrix, check_finite)
    if method == "exact":
        wide = matrix.float() if matrix.dtype in (torch.bfloat16, torch.float16) else matrix
        if check_finite:
            return torch.linalg.matrix_norm(wide, ord=2).to(matrix.dtype)
        finite = torch.isfinite(wide).all(-1).all(-1)  # torch raises for NaN instead of returning NaN
        norm = torch.linalg.matrix_norm(torch.where(finite[..., None, None], wide, 0.0), ord=2)
        return torch.where(finite, norm, math.nan).to(matrix.dtype)
    if method != "power":
        raise ValueError(f"method is {method!r}; allowed: exact, power")
    scale = _power_of_two(matrix, (-2, -1))
    scaled = (matrix.float() if matrix.dtype in (torch.bfloat16, torch.float16) else matrix) / scale
    start = _start((*matrix.shape[:-2], matrix.shape[-1]), scaled)

    def forward(b: Tensor) -> Tensor:
        return (scaled @ b.unsqueeze(-1)).squeeze(-1)

    def backward(u: Tensor) -> Tensor:
        return (scaled.mT @ u.unsqueeze(-1)).squeeze(-1)

    norm = _power(forward, backward, start, iterations, tolerance)
    return (norm * scale[..., 0, 0]).to(matrix.dtype)


def conv_operator_norm(
    weight: Tensor,
    size: int | Sequence[int],
    *,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] | str = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
    padding_mode: str = "zeros",
    method: str = "auto",
    iterations: int = ITERATIONS,
    tolerance: float = CONV_TOLERANCE,
) -> Tensor:
    r"""The 2-norm of a convolution as a linear map of whole images (or signals, or volumes): a scalar.

    This is not the spectral norm of the kernel flattened to a matrix, which can be smaller by √(k_h k_w), e.g. for
    a kernel of equal entries. Groups are independent maps, so the norm is the largest over the groups.

    * ``fourier``: exact for size-preserving circular padding and stride 1. In the Fourier basis the map is block diagonal,
      with one (out, in) matrix per frequency.
    * ``dense``: exact; writes the matrix out.
    * ``power``: power iteration on the map and its adjoint, from below, as in :func:`spectral_norm`.
    * ``auto``: fourier where it applies, otherwise dense for small maps and power for large ones.

    Args:
        weight: (out, in/groups, *kernel), one to three kernel axes, as in ``nn.Conv1d`` to ``nn.Conv3d``.
        size: size of the input along these axes.
        padding: a number, one number per axis, "same" or "valid".
        padding_mode: zeros, circular, reflect or replicate; reflect and replicate can increase the norm.

    Raises:
        ValueError: shapes or arguments that do not fit, non-finite weights, a kernel larger than the padded input,
            or method="fourier" where it is not exact.
    """
    axes = weight.ndim - 2
    if axes not in CONVOLUTIONS or 0 in weight.shape:
        raise ValueError(
            f"weight has shape {tuple(weight.shape)}: (out, in/groups, *kernel) with 1 to 3 axes is needed"
        )
    _require_finite(weight)
    if groups < 1 or weight.shape[0] % groups:
        raise ValueError(
            f"groups is {groups!r}: a divisor of the {weight.shape[0]} output channels is needed"
        )
    if padding_mode not in PADDING_MODES:
        raise ValueError(f"padding_mode is {padding_mode!r}; allowed: {', '.join(PADDING_MODES)}")
    kernel = tuple(weight.shape[2:])
    sizes, strides = _per_axis("size", size, axes, 1), _per_axis("stride", stride, axes, 1)
    dilations = _per_axis("dilation", dilation, axes, 1)
    spans = [d * (k - 1) for d, k in zip(dilations, kernel)]
    if isinstance(padding, str):
        if padding not in ("same", "valid"):
            raise ValueError(f"padding is {padding!r}; allowed: same, valid, whole numbers")
        pads = [(span // 2, span - span // 2) if padding == "same" else (0, 0) for span in spans]
    else:
        pads = [(p, p) for p in _per_axis("padding", padding, axes, 0)]
    if any(n + sum(p) <= span for n, p, span in zip(sizes, pads, spans)):
        raise ValueError(
            f"size {sizes} with padding {pads} is smaller than the kernel, which spans {spans} + 1"
        )
    reach = {"circular": 0, "reflect": 1}.get(padding_mode)
    if reach is not None and any(max(p) > n - reach for n, p in zip(sizes, pads)):
        raise ValueError(
            f"padding {pads} is more than an input of size {sizes} has for padding_mode {padding_mode!r}"
        )
    circulant = (
        padding_mode == "circular" and set(strides) == {1} and all(sum(p) == s for p, s in zip(pads, spans))
    )
    if method == "auto":
        outputs = [(n + sum(p) - span - 1) // s + 1 for n, p, span, s in zip(sizes, pads, spans, strides)]
        entries = math.prod(sizes) * weight.shape[1] * math.prod(outputs) * weight.shape[0] // groups
        method = "fourier" if circulant else "dense" if entries <= DENSE_ENTRIES else "power"
    if method == "fourier":
        if not circulant:
            raise ValueError("method is 'fourier': needs circular padding that keeps the size, and stride 1")
        return fourier_norm(weight, sizes, dilations, groups)
    if method not in ("dense", "power"):
        raise ValueError(f"method is {method!r}; allowed: auto, fourier, dense, power")

    channels = weight.shape[1]
    full = weight.float() if weight.dtype in (torch.bfloat16, torch.float16) else weight
    scale = _power_of_two(weight, tuple(range(weight.ndim)))
    kernels = full / scale
    flat_pads = [amount for pair in reversed(pads) for amount in pair]
    mode = PADDING_MODES[padding_mode]

    def forward(x: Tensor) -> Tensor:
        """Apply each group's map to B inputs, (B, groups, n) → (B, groups, m)."""
        images = x.reshape(len(x), groups * channels, *sizes)
        if any(flat_pads):
            images = functional.pad(images, flat_pads, mode=mode)
        out = CONVOLUTIONS[axes](images, kernels, stride=strides, dilation=dilations, groups=groups)
        return out.reshape(len(x), groups, -1)

    n = channels * math.prod(sizes)
    if method == "dense":
        basis = torch.eye(n, dtype=full.dtype, device=weight.device)
        matrices = forward(basis.unsqueeze(1).expand(n, groups, n)).permute(1, 2, 0)
        return (spectral_norm(matrices).amax() * scale.reshape(())).to(weight.dtype)
    start = _start((1, groups, n), full)
    adjoint = torch.func.vjp(forward, torch.zeros_like(start))[1]
    norm = _power(forward, lambda u: adjoint(u)[0], start, iterations, tolerance).amax()
    return (norm * scale.reshape(())).to(weight.dtype)


def fourier_norm(weight: Tensor, sizes: Sequence[int], dilations: Sequence[int], groups: int) -> Tensor:
    """Return the largest singular value of Σ_t W_t exp(-2πi ⟨f, t d / n⟩) over all frequencies f.

    The weights are real, so half of the frequencies of the last axis suffice. The offset of the padding only changes
    phases, which leave the norm unchanged. A kernel that spans more than the input wraps around automatically.
    """
    wide = weight.float() if weight.dtype in (torch.bfloat16, torch.float16) else weight
    symbol = torch.complex(wide, torch.zeros_like(wide)).unflatten(0, (groups, -1))
    for axis, (n, d) in enumerate(zip(sizes, dilations)):
        frequencies = n // 2 + 1 if axis == len(sizes) - 1 else n
        positions = torch.arange(weight.shape[2 + axis], device=weight.device) * d
        turns = (
            torch.outer(torch.arange(frequencies, device=weight.device), positions) % n
        )  # exact in integers
        angles = turns.to(wide.dtype) * (-2 * math.pi / n)
        # the axis being transformed is always the fourth: transformed axes move to the end
        symbol = torch.tensordot(symbol, torch.polar(torch.ones_like(angles), angles), dims=([3], [1]))
    matrices = symbol.permute(0, *range(3, symbol.ndim), 1, 2)
    if tuple(matrices.shape[-2:]) == (1, 1):  # depth-wise
        return matrices.abs().amax().to(weight.dtype)
    return torch.linalg.matrix_norm(matrices, ord=2).amax().to(weight.dtype)


def _power(
    forward: Callable[[Tensor], Tensor],
    adjoint: Callable[[Tensor], Tensor],
    b: Tensor,
    iterations: int,
    tolerance: float,
) -> Tensor:
    """Run power iteration for a batch of linear maps from b (..., n); return ‖A b‖ (...), with the last forward pass's graph."""
    if iterations < 0 or tolerance < 0:
        raise ValueError(f"iterations is {iterations}, tolerance {tolerance}: neither may be negative")
    attainable = max(tolerance, 16 * torch.finfo(b.dtype).eps) if tolerance else 0.0
    residual = torch.full(b.shape[:-1], math.inf)
    with torch.no_grad():
        for iteration in range(1, iterations + 1):
            new = adjoint(forward(b))
            size = torch.linalg.vector_norm(new, dim=-1, keepdim=True)
            if tolerance and (iteration % CHECK_EVERY == 0 or iteration == iterations):
                square = (b * new).sum(-1, keepdim=True)  # the Rayleigh quotient, since b has norm 1
                off = torch.linalg.vector_norm(new - square * b, dim=-1)
                residual = torch.where(size.squeeze(-1) == 0, 0.0, off / size.squeeze(-1))
                if (residual <= attainable).all():
                    break
            # if b is in the kernel of the map, the estimate is σ = 0; NaN stays
            b = torch.where(size == 0, b, new / size)
        else:
            if tolerance:
                warnings.warn(
                    f"power iteration: residual {float(residual.max()):.2g} after {iterations} iterations, "
                    f"above the tolerance {tolerance:g}; the norm is under-estimated",
                    RuntimeWarning,
                    stacklevel=3,
                )
    return torch.linalg.vector_norm(forward(b), dim=-1)


def _power_of_two(weight: Tensor, axes: tuple[int, ...]) -> Tensor:
    """1 for ordinary weights; for others the power of two, by which products are exact, at the largest entry over ``axes``."""
    largest = (
        weight.detach().abs().amax(axes, keepdim=True).to(torch.promote_types(weight.dtype, torch.float32))
    )
    power = largest / (2 * torch.frexp(largest).mantissa)
    usual = (power >= ORDINARY[0]) & (power <= ORDINARY[1])
    return torch.where(usual | ~power.isfinite(), 1.0, power)


def _start(shape: tuple[int, ...], like: Tensor) -> Tensor:
    generator = torch.Generator().manual_seed(START_SEED)  # on the CPU: same vector on every device
    b = torch.randn(shape, generator=generator, dtype=torch.float64).to(like)
    return b / torch.linalg.vector_norm(b, dim=-1, keepdim=True)


def _per_axis(name: str, value: int | Sequence[int], axes: int, least: int) -> tuple[int, ...]:
    values = (value,) * axes if isinstance(value, int) else tuple(value)
    if len(values) != axes or any(v < least for v in values):
        raise ValueError(
            f"{name} is {value!r}: {axes} whole numbers of at least {least}, or one for all, are needed"
        )
    return values


def _require_matrix(matrix: Tensor, check_finite: bool) -> None:
    if matrix.ndim < 2 or 0 in matrix.shape[-2:]:
        raise ValueError(f"matrix has shape {tuple(matrix.shape)}: (..., m, n) with m, n ≥ 1 is needed")
    if check_finite:
        _require_finite(matrix)


def _require_finite(weight: Tensor) -> None:
    if not torch.isfinite(weight).all():
        index = tuple(int(i) for i in (~torch.isfinite(weight)).nonzero()[0])
        raise ValueError(f"the weight holds {float(weight[index])} at {index}; finite values are needed")
