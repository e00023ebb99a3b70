"""Random weights with largest singular value 1, for little more than the cost of drawing the numbers."""

from __future__ import annotations

import math

import torch
from torch import Tensor

TOLERANCE = 3e-5  # relative residual of the squared value; with 3e-3 the iteration sometimes stops at the second singular value
SMALL = 32  # matrices with up to this many rows or columns use a full decomposition
FIRST_CHECK, CHECK_EVERY = 16, 4
START_SEED = 0


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
def largest_singular_value(matrix: Tensor, *, tolerance: float = TOLERANCE) -> float:
    r"""Return σ_1 of one matrix (m, n) by the Lanczos method on the smaller Gram matrix.

    Unit vectors :math:`v_1, v_2, \ldots` come from products with :math:`A = W^\top W` (W is transposed if it is wide; A is
    never formed), each orthogonalised against the previous ones. The largest eigenvalue θ of :math:`T = V A V^\top` increases to
    :math:`\sigma_1^2`. The iteration ends when :math:`\|A x - \theta x\| \le \text{tolerance} \cdot \theta` for the eigenvector x of θ.
    The result is a lower estimate: some singular value is within half the tolerance of it (relative error), but the residual cannot
    tell whether this is the largest one. With a tolerance of 3e-3, the second one was returned for 5 of the 89 maps of
    LipsFormer-Swin-T, whose initial norms were then up to 0.4% above 1 (small maps: up to 2.3%). With 3e-5, all maps of six networks
    are within 3e-7. Random matrices need 20 to 50 products; plain power iteration (:func:`~relearn.maths.norms.spectral_norm`) needs
    hundreds.

    Raises:
        ValueError: not a matrix with entries.
    """
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise ValueError(f"matrix has shape {tuple(matrix.shape)}: (m, n) with m, n ≥ 1 is needed")
    most = min(matrix.shape)
    if most <= SMALL:
        return float(torch.linalg.matrix_norm(matrix, 2))
    tall = matrix if matrix.shape[0] >= matrix.shape[1] else matrix.T
    start = torch.empty(most, dtype=matrix.dtype).normal_(generator=torch.Generator().manual_seed(START_SEED))
    basis, projected = matrix.new_empty(most, most), matrix.new_zeros(most, most)
    torch.div(start, start.norm(), out=start)
    basis[0] = start
    value, rounding = 0.0, 100 * torch.finfo(matrix.dtype).eps
    for k in range(1, most + 1):
        past = basis[:k]
        image = tall.T @ (tall @ past[-1])
        parts = past @ image
        projected[k - 1, :k] = parts  # eigh reads only the lower triangle
        rest = torch.addmv(image, past.T, parts, alpha=-1)
        rest = torch.addmv(
            rest, past.T, past @ rest, alpha=-1
        )  # orthogonalise twice, because of rounding errors from cancellation
        length = rest.norm()
        closed = bool(length <= rounding * parts.norm())  # A maps the span of the basis into itself
        if closed or k == most or (k >= FIRST_CHECK and k % CHECK_EVERY == 0):
            values, vectors = torch.linalg.eigh(projected[:k, :k])
            value = max(float(values[-1]), 0.0)
            if float(length * vectors[-1, -1].abs()) <= tolerance * value:
                break
        if k < most:
            torch.div(rest, length, out=basis[k])
    return math.sqrt(value)
