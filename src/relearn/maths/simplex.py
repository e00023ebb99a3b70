"""Projection onto the probability simplex, and nearest convex combinations, for any leading shape and on the tensor's device."""

from __future__ import annotations

import functools
import itertools
import warnings

import torch
from torch import Tensor

ENUMERATED = 6  # with up to this many vertices, every face of the simplex is solved directly (63 faces)
CHECK_EVERY = 32  # iterations between checks of the certificate, each of which waits for the device
CPU_BLOCK_BYTES, GPU_BLOCK_BYTES = 2**22, 2**28  # float64 differences per block
TARGET_FLOOR = 1e-6  # lower limit of the optimum, as a fraction of ½‖target‖², in the relative gap


def project_simplex(v: Tensor) -> Tensor:
    r"""Project onto the probability simplex along the last axis.

    .. math:: \Pi(v) = \max(v - \theta, 0), \quad
              \theta = \tfrac{1}{\rho} \Big(\sum_{s \le \rho} v_{(s)} - 1\Big), \quad
              \rho = \max\{r : v_{(r)} > \tfrac{1}{r}(\textstyle\sum_{s \le r} v_{(s)} - 1)\}

    with v sorted in descending order. Each row is first shifted by its maximum, which does not change the result in
    exact arithmetic and keeps large entries accurate.

    Args:
        v: (..., n), floating point, finite.

    Returns:
        (..., n), non-negative; each row sums to one up to rounding. Half precision is computed in float32.

    Raises:
        TypeError: v is not floating point.
        ValueError: the last axis is empty or missing, or a row contains NaN or infinity (the error names the row).
    """
    _require_floats("v", v)
    if v.ndim < 1 or v.shape[-1] < 1:
        raise ValueError(f"v has shape {tuple(v.shape)}: the last axis must hold at least one entry")
    _require_finite("v", v, 1)
    full = (
        v.float() if v.dtype in (torch.bfloat16, torch.float16) else v
    )  # sums of halves are off by per cents
    return _project(full).to(v.dtype)


@torch.no_grad()
def simplex_least_squares(
    features: Tensor,
    target: Tensor,
    *,
    start: Tensor | None = None,
    tolerance: float = 1e-8,
    max_iterations: int = 10_000,
) -> Tensor:
    r"""The convex combination of k points that is nearest to a target, for many problems at once.

    .. math:: \min_c \tfrac12 \|t - \textstyle\sum_j c_j a_j\|^2 \quad\text{subject to}\quad
              c_j \ge 0, \ \textstyle\sum_j c_j = 1

    This is the inner problem of the convex polytope attack (zhu2022, algorithm 1), which the paper solves by
    projected gradient steps. Here the target is first subtracted from the points and the k × k Gram matrix of
    the differences is computed once in float64; everything else operates on k × k matrices.

    * k ≤ 6: the optimum lies in the interior of one of the 2^k - 1 faces. All are solved in one batched call, and the best
      feasible solution is taken. There is no iteration, so a warm start only matters if the minimiser is not unique.
    * k > 6, or if the certificate below fails: accelerated projected gradient with restarts. Every 32
      iterations, the problem on the current face is solved directly.

    Certificate: the Frank-Wolfe gap :math:`\langle g, c\rangle - \min_j g_j` is an upper bound on the distance to the
    optimum (:func:`simplex_gap`). A problem is solved if gap ≤ tolerance · max(objective, 1e-6 · ½‖t‖²), or
    if the gap is within float64 rounding. The host checks this once per call (k ≤ 6) or once every 32
    iterations.

    Args:
        features: the points a_j, (..., k, d), floating point.
        target: t, (..., d); its leading axes broadcast against those of features.
        start: initial coefficients, (..., k); kept if nothing better is found. Default: 1/k each.
        tolerance: relative tolerance of the certificate.
        max_iterations: limit of the iterative solver; if it does not suffice, a RuntimeWarning states the
            largest gap.

    Returns:
        (..., k) in the dtype of features, without a graph: non-negative, and each row sums to EXACTLY one.
        Entries are multiples of half the machine epsilon, and the largest absorbs the remainder if it can. This makes float32
        sufficient: an error in the sum would cost 1e-7 · ‖t‖ · ‖residual‖, far more than all other rounding.

    Raises:
        TypeError: not floating point.
        ValueError: shapes that do not fit, no points, or NaN/infinity (the error names the problem's index).
    """
    _require_floats("features", features)
    _require_floats("target", target)
    if (
        features.ndim < 2
        or features.shape[-2] < 1
        or target.ndim < 1
        or features.shape[-1] != target.shape[-1]
        or features.shape[-1] < 1
    ):
        raise ValueError(
            f"features {tuple(features.shape)} and target {tuple(target.shape)} do not fit: "
            "(..., k, d) with k, d ≥ 1 and (..., d) are needed"
        )
    k = features.shape[-2]
    gram, floor = _gram_about_target(features, target)
    if not torch.isfinite(gram).all():  # cheaper than checking the k × d features
        _require_finite("features", features, 2)
        _require_finite("target", target, 1)
        raise ValueError(
            "features or target are too large: the squares of their differences overflow float64"
        )
    batch = gram.shape[:-2]
    gram, floor = gram.reshape(-1, k, k), floor.reshape(-1)
    if start is None:
        c = gram.new_full((len(gram), k), 1.0 / k)
    else:
        _require_finite("start", start, 1)
        if start.shape[-1] != k:
            raise ValueError(
                f"start has shape {tuple(start.shape)}; its last axis must hold k = {k} coefficients"
            )
        c = _project(start.to(gram).expand(*batch, k).reshape(-1, k))

    if k <= ENUMERATED:
        c = _best(gram, c, _solve_faces(gram, _all_faces(k, gram.device)))
    if k > ENUMERATED or not _certified(gram, c, floor, tolerance).all():
        c = _descend(gram, c, floor, tolerance, max_iterations)
    return _round_to_exact_sum(c, features.dtype).reshape(*batch, k)


def simplex_gap(features: Tensor, target: Tensor, coefficients: Tensor) -> tuple[Tensor, Tensor]:
    r"""Return the objective ½‖t - Σ c_j a_j‖² and the Frank-Wolfe gap of given coefficients, both (...) in float64.

    The gap ⟨g, c⟩ - min_j g_j, g the gradient, is never smaller than objective - optimum and is zero at the
    optimum. Shapes as in :func:`simplex_least_squares`; coefficients must lie in the simplex.
    """
    gram, _ = _gram_about_target(features, target)
    return _objective_and_gap(gram, coefficients.to(gram))


def _project(v: Tensor) -> Tensor:
    v = v - v.amax(-1, keepdim=True)
    descending = v.sort(dim=-1, descending=True).values
    ranks = torch.arange(1, v.shape[-1] + 1, device=v.device, dtype=v.dtype)
    thresholds = (descending.cumsum(-1) - 1) / ranks
    rho = (descending > thresholds).sum(-1, keepdim=True)  # true exactly for the first rho ranks
    return (v - thresholds.gather(-1, rho - 1)).clamp_min(0)


def _gram_about_target(features: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Return the inner products of a_j - t in float64, (..., k, k), and the lower limit of the optimum, (...).

    With Σ c = 1 the objective is ½ cᵀGc: subtracting first avoids the cancellation of ‖t‖² - 2cᵀAt + cᵀAAᵀc.
    Problems are processed in blocks, because the float64 differences of many problems do not fit into a cache.
    """
    k, d = features.shape[-2:]
    batch = torch.broadcast_shapes(features.shape[:-2], target.shape[:-1])
    block = max(
        1, (CPU_BLOCK_BYTES if features.device.type == "cpu" else GPU_BLOCK_BYTES) // (8 * k * max(d, 1))
    )
    grams, floors = [], []
    points = features.expand(*batch, k, d).reshape(-1, k, d).split(block)
    targets = target.expand(*batch, d).reshape(-1, d).split(block)
    for some_points, some_targets in zip(points, targets):
        t = some_targets.double()
        differences = some_points.double() - t.unsqueeze(-2)
        grams.append(differences @ differences.mT)
        floors.append(TARGET_FLOOR * 0.5 * t.square().sum(-1))
    return torch.cat(grams).reshape(*batch, k, k), torch.cat(floors).reshape(batch)


def _objective_and_gap(gram: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    gradient = (gram @ c.unsqueeze(-1)).squeeze(-1)
    product = (gradient * c).sum(-1)
    return 0.5 * product, product - gradient.amin(-1)


def _certified(gram: Tensor, c: Tensor, floor: Tensor, tolerance: float) -> Tensor:
    objective, gap = _objective_and_gap(gram, c)
    rounding = 64 * torch.finfo(gram.dtype).eps * gram.diagonal(dim1=-2, dim2=-1).amax(-1)
    return gap <= torch.maximum(tolerance * torch.maximum(objective, floor), rounding)


@functools.lru_cache(maxsize=32)  # cached, because copying it to the device would cost more than using it
def _all_faces(k: int, device: torch.device) -> Tensor:
    """Return the membership of the k vertices in every non-empty face: (2^k - 1, k), bool."""
    rows = [row for row in itertools.product((False, True), repeat=k) if any(row)]
    return torch.tensor(rows, device=device)


def _solve_faces(gram: Tensor, faces: Tensor) -> Tensor:
    """Return the feasible minimiser on each face: gram (B, k, k), faces (F, k) or (B, F, k) → (B, F, k).

    On Σ c = 1 the minimiser does not change if a constant is added to every entry of the Gram matrix. The
    shifted matrix is positive definite on each affinely independent face, and its minimiser is proportional
    to the solution of M c = 1. Dependent faces (identical points) may fail, but then a smaller face has the same
    optimum (Carathéodory).
    """
    shift = gram.diagonal(dim1=-2, dim2=-1).mean(-1)[:, None, None]
    shift = torch.where(shift > 0, shift, 1.0)
    inside = faces.to(gram.dtype)
    pairs = inside.unsqueeze(-1) * inside.unsqueeze(-2)
    outside = torch.diag_embed(1 - inside)  # rows of absent vertices become the equation c_j = 0
    matrices = ((gram + shift) / shift).unsqueeze(-3) * pairs + outside
    c = torch.linalg.solve_ex(matrices, inside.expand(matrices.shape[:-1]))[0]
    c = torch.where(torch.isfinite(c), c, 0.0).clamp_min(0)
    total = c.sum(-1, keepdim=True)
    uniform = inside / inside.sum(-1, keepdim=True).clamp_min(1)
    return torch.where(total > 0, c / total, uniform)


def _best(gram: Tensor, c: Tensor, candidates: Tensor) -> Tensor:
    """Return the candidate (B, F, k) with the smallest gap, or c (B, k) if none is better beyond rounding.

    The gap is compared instead of the objective, because near an optimum of 0 rounding swamps the objective but not
    the gap.
    """
    _, gaps = _objective_and_gap(gram.unsqueeze(1), torch.cat([c.unsqueeze(1), candidates], dim=1))
    least, index = gaps[:, 1:].min(-1)
    chosen = candidates.gather(1, index[:, None, None].expand(-1, 1, c.shape[-1])).squeeze(1)
    rounding = 4 * torch.finfo(gram.dtype).eps * gram.diagonal(dim1=-2, dim2=-1).amax(-1)
    return torch.where((least < gaps[:, 0] - rounding).unsqueeze(-1), chosen, c)


def _descend(gram: Tensor, c: Tensor, floor: Tensor, tolerance: float, max_iterations: int) -> Tensor:
    """Minimise ½ cᵀGc by accelerated projected gradient with restarts, and refine on the face found."""
    lipschitz = torch.linalg.matrix_norm(gram, ord=float("inf"))[:, None]  # ≥ the largest eigenvalue
    lipschitz = torch.where(lipschitz > 0, lipschitz, 1.0)
    best, ahead, momentum = c, c, torch.ones_like(lipschitz)
    for iteration in range(1, max_iterations + 1):
        new = _project(ahead - (gram @ ahead.unsqueeze(-1)).squeeze(-1) / lipschitz)
        uphill = ((ahead - new) * (new - c)).sum(-1, keepdim=True) > 0
        momentum = torch.where(uphill, torch.ones_like(momentum), momentum)
        following = (1 + (1 + 4 * momentum.square()).sqrt()) / 2
        ahead = torch.where(uphill, new, new + (momentum - 1) / following * (new - c))
        c, momentum = new, following
        if iteration % CHECK_EVERY == 0 or iteration == max_iterations:
            polished = _solve_faces(gram, (c > 0).unsqueeze(1))
            best = _best(gram, best, torch.cat([c.unsqueeze(1), polished], dim=1))
            if _certified(gram, best, floor, tolerance).all():
                return best
    objective, gap = _objective_and_gap(gram, best)
    relative = (gap / torch.maximum(objective, floor)).max()
    unsolved = int((~_certified(gram, best, floor, tolerance)).sum())
    warnings.warn(
        f"simplex_least_squares: {unsolved} of {len(gram)} problems not solved to tolerance {tolerance:g} "
        f"after {max_iterations} iterations; largest relative gap {relative:.2g}",
        RuntimeWarning,
        stacklevel=3,
    )
    return best


def _round_to_exact_sum(c: Tensor, dtype: torch.dtype) -> Tensor:
    """Round to multiples of half the machine epsilon; the largest entry absorbs the remainder to one.

    Multiples of eps/2 in [0, 1] and all their partial sums are exact in dtype, so the rows sum to one in any
    order. Where many entries in a short format were rounded up and the largest would become negative, all are rounded
    down, and the remainder goes to those that lost most, a step each.
    """
    step = torch.finfo(dtype).eps / 2
    steps = c / step
    c = steps.round() * step
    largest = c.argmax(-1, keepdim=True)
    rest = c.scatter(-1, largest, 0.0).sum(-1, keepdim=True)
    c = c.scatter(-1, largest, 1 - rest)
    if bool((rest > 1).any()):
        down = steps.floor()
        lost = (steps - down).argsort(-1, descending=True).argsort(-1)
        shared = down + (lost < 1 / step - down.sum(-1, keepdim=True))
        c = torch.where(rest > 1, shared * step, c)
    return c.to(dtype)


def _require_floats(name: str, tensor: Tensor) -> None:
    if not tensor.is_floating_point():
        raise TypeError(f"{name} has dtype {tensor.dtype}; a floating-point tensor is needed")


def _require_finite(name: str, tensor: Tensor, event_axes: int) -> None:
    finite = torch.isfinite(tensor)
    if not finite.all():
        index = tuple(int(i) for i in (~finite).nonzero()[0])
        problem = index[: tensor.ndim - event_axes]
        where = f"problem {problem[0] if len(problem) == 1 else problem}" if problem else "the only problem"
        raise ValueError(
            f"{name} of {where} holds {float(tensor[index])} at {index}; finite values are needed"
        )
