"""Drawing a parameter on any device, and weights with largest singular value 1, for little more than the cost of the numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

TOLERANCE = 3e-5  # relative residual of the squared value; with 3e-3 the iteration sometimes stops at the second singular value
SMALL = 32  # matrices with up to this many rows or columns use a full decomposition
SQUARES = (1e-20, 1e20)  # of a product with W; beyond, single precision may overflow or underflow
FIRST_CHECK, CHECK_EVERY = 16, 4
START_SEED = 0


@torch.no_grad()
def redraw(parameter: Tensor, fill: Callable[[Tensor], Tensor]) -> None:
    """Fill a parameter via a temporary CPU tensor, of at least single precision: every device gets the same draws, meta none."""
    if not parameter.is_meta:
        dtype = torch.promote_types(parameter.dtype, torch.float32)
        parameter.copy_(fill(torch.empty(parameter.shape, dtype=dtype, device="cpu")))


@torch.no_grad()
def spectral_normal_(tensor: Tensor, generator: torch.Generator | None = None) -> Tensor:
    r"""Fill a weight with :math:`W / \sigma_{\max}(W)`, W normal (qi2023, equation 5), like an initialiser of ``torch.nn.init``.

    The paper's W is Xavier-normal; its standard deviation cancels. A kernel is flattened to (outputs, rest), as in the authors'
    code. For a convolution with overlapping windows this is not the norm of the convolution, which can be
    :math:`\sqrt{k_h k_w}` times larger (errata, Q12; :func:`~relearn.maths.norms.conv_operator_norm` computes it).

    Numbers are drawn on the CPU in at least single precision, so that they are the same on every device; on the
    meta device nothing is drawn.

    Raises:
        ValueError: fewer than two axes, or no entries.
    """
    if tensor.ndim < 2 or 0 in tensor.shape:
        raise ValueError(f"tensor has shape {tuple(tensor.shape)}: at least two axes with entries are needed")
    if tensor.is_meta:
        return tensor
    dtype = torch.promote_types(tensor.dtype, torch.float32)
    here = tensor.dtype == dtype and tensor.device.type == "cpu" and tensor.is_contiguous()
    drawn = (tensor if here else torch.empty(tensor.shape, dtype=dtype)).normal_(generator=generator)
    with torch.autocast(
        "cpu", enabled=False
    ):  # networks may be built under autocast, but the norm needs full precision
        drawn.div_(largest_singular_value(drawn.flatten(1)))
    return tensor if here else tensor.copy_(drawn)


@torch.no_grad()
@np.errstate(over="ignore", invalid="ignore")  # see SQUARES
def largest_singular_value(matrix: Tensor, *, tolerance: float = TOLERANCE) -> float:
    r"""Return σ_1 of one matrix (m, n) by the Lanczos method on the smaller Gram matrix.

    Unit vectors :math:`v_1, v_2, \ldots` come from products with :math:`A = W^\top W` (W is transposed if it is wide; A is
    never formed): :math:`\beta_k v_{k+1} = A v_k - \alpha_k v_k - \beta_{k-1} v_{k-1}`. The largest eigenvalue θ of the tridiagonal
    matrix T of the α and β increases to :math:`\sigma_1^2`. With the eigenvector s of T, the vector :math:`x = V s` has the residual
    :math:`\|A x - \theta x\| = \beta_k |s_k|`, so neither V nor x is needed. Rounding makes the v lose their orthogonality
    only once an eigenvalue has been found (Paige 1980), which is where the iteration ends: when the residual is at most
    tolerance · θ.
    The result is a lower estimate: some singular value is within half the tolerance of it (relative error), but the residual cannot
    tell whether this is the largest one. With a tolerance of 3e-3, the second one was returned for 5 of the 89 maps of
    LipsFormer-Swin-T, whose initial norms were then up to 0.4% above 1 (small maps: up to 2.3%). With 3e-5, all maps of six networks
    are within 3e-7. Random matrices need 20 to 50 products; plain power iteration (:func:`~relearn.maths.norms.spectral_norm`) needs
    hundreds.

    Raises:
        ValueError: not a matrix with finite entries in float32 or float64.
    """
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise ValueError(f"matrix has shape {tuple(matrix.shape)}: (m, n) with m, n ≥ 1 is needed")
    if matrix.dtype not in (torch.float32, torch.float64):
        raise ValueError(f"matrix has dtype {matrix.dtype}: float32 or float64 is needed")
    # the sum is finite unless an entry is not (or it overflows): one pass over the numbers instead of three
    if not math.isfinite(float(matrix.sum())) and not bool(matrix.isfinite().all()):
        raise ValueError("matrix holds NaN or infinity: finite entries are needed")
    most = min(matrix.shape)
    if most <= SMALL:
        return float(torch.linalg.matrix_norm(matrix, 2))
    tall = matrix if matrix.shape[0] >= matrix.shape[1] else matrix.T
    start = torch.empty(most, dtype=matrix.dtype).normal_(generator=torch.Generator().manual_seed(START_SEED))
    w = (
        tall.cpu().numpy()
    )  # NumPy's calls take less time than torch's, and there are hundreds on small matrices
    v: NDArray[np.floating[Any]] = (start / start.norm()).numpy()
    before, diagonal, beside = np.zeros_like(v), list[float](), [0.0]
    value, rounding = 0.0, 100 * torch.finfo(matrix.dtype).eps
    last = 2 * most  # exact arithmetic needs ``most`` products
    for k in range(1, last + 1):
        image = (w @ v) @ w
        diagonal.append(float(v @ image))
        if (
            k == 1
            and not SQUARES[0] < diagonal[0] < SQUARES[1]
            and (most_of := float(matrix.abs().max())) != 1
        ):
            # the products square the scale of W, which leaves the range of its type
            return most_of * largest_singular_value(matrix / most_of, tolerance=tolerance) if most_of else 0.0
        rest = image - diagonal[-1] * v - beside[-1] * before
        length = math.sqrt(float(rest @ rest))
        scale = math.hypot(diagonal[-1], beside[-1])
        closed = length <= rounding * scale  # A maps the span of the vectors into itself
        if closed or k == last or (k >= FIRST_CHECK and k % CHECK_EVERY == 0):
            between = beside[1:k]
            values, vectors = np.linalg.eigh(np.diag(diagonal) + np.diag(between, 1) + np.diag(between, -1))
            value = max(float(values[-1]), 0.0)
            if closed or length * abs(vectors[-1, -1]) <= tolerance * value:
                break
        before, v = v, rest / length
        beside.append(length)
    return math.sqrt(value)
