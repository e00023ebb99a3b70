"""The polytope's coefficients: 900 problems (50 targets × 18 substitutes, k = 5, d = 2048) in one call.

Baselines in the same run: the inner loop as stated in algorithm 1 (projected gradient with step 1/‖AᵀA‖₂
on the tall matrix, one problem after another, stopped when the coefficients move by less than 1e-6 of their
norm), and scipy's non-negative least squares with a heavy row for the sum. The column gap measures quality:
(objective - optimum) / max(optimum, 1e-6 · ½‖t‖²), with the optimum from float64 features, certified by its gap.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
import scipy.optimize
import torch
from timing import compare, report
from torch import Tensor

from relearn.maths.simplex import TARGET_FLOOR, project_simplex, simplex_gap, simplex_least_squares

COUNT, K, D = 900, 5, 2048


def problems() -> tuple[Tensor, Tensor]:
    """Features after a ReLU, as in networks; a third of the targets each inside, near and far from the hull."""
    generator = torch.Generator().manual_seed(0)
    centre = torch.randn(COUNT, 1, D, generator=generator)
    features = torch.relu(centre + 0.5 * torch.randn(COUNT, K, D, generator=generator))
    inside = torch.einsum("bk,bkd->bd", torch.randn(COUNT, K, generator=generator).softmax(-1), features)
    away = torch.tensor([0.0, 0.01, 0.5]).repeat_interleave(COUNT // 3)[:, None]
    return features, torch.relu(inside + away * torch.randn(COUNT, D, generator=generator))


def projected_gradient(a: Tensor, t: Tensor, cap: int = 10_000) -> Tensor:
    """Algorithm 1's inner loop for one problem: a (k, d), t (d,)."""
    c = a.new_full((len(a),), 1 / len(a))
    step = 1 / torch.linalg.matrix_norm(a @ a.T, 2)
    for _ in range(cap):
        new = project_simplex(c - step * (a @ (a.T @ c - t)))
        if (new - c).norm() < 1e-6 * c.norm():
            break
        c = new
    return c


def non_negative(a: Tensor, t: Tensor) -> Tensor:
    """scipy.optimize.nnls in float64 with a row that makes the coefficients sum to one."""
    heavy = 1e4 * float(a.norm())
    matrix = np.vstack([a.double().T.numpy(), np.full(len(a), heavy)])
    c = scipy.optimize.nnls(matrix, np.append(t.double().numpy(), heavy))[0]
    return torch.from_numpy(c / c.sum())


def quality(features: Tensor, target: Tensor, c: Tensor) -> float:
    """Largest relative distance to the certified optimum."""
    exact = simplex_least_squares(features.double(), target.double())
    optimum, gap = simplex_gap(features, target, exact)
    scale = torch.maximum(optimum, TARGET_FLOOR * 0.5 * target.double().square().sum(-1))
    assert (gap / scale).max() < 1e-7, "the reference itself is not certified"
    residual = target.double() - torch.einsum("bk,bkd->bd", c.double(), features.double())
    return float(((0.5 * residual.square().sum(-1) - optimum) / scale).abs().max())


def main() -> None:
    parser = argparse.ArgumentParser(description="simplex least squares: quality and CPU time")
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    features, target = problems()
    rows: list[dict[str, Any]] = []

    # 50 problems, including every kind, suffice for the slow baseline
    for name, solve, every in (
        ("projected gradient, as algorithm 1", projected_gradient, 18),
        ("scipy nnls", non_negative, 1),
    ):
        a, t = features[::every].contiguous(), target[::every].contiguous()

        def reference(a: Tensor = a, t: Tensor = t, solve: Any = solve) -> Tensor:
            return torch.stack([solve(points, goal) for points, goal in zip(a, t)])

        rows.append(
            {
                "reference": name,
                "problems": len(a),
                "gap": quality(a, t, simplex_least_squares(a, t)),
                "reference_gap": quality(a, t, reference()),
                **compare(lambda a=a, t=t: simplex_least_squares(a, t), reference, arguments.pairs),
            }
        )
    report("coefficients", rows, problems=COUNT, k=K, d=D, wanted_gap=1e-6)


if __name__ == "__main__":
    main()
