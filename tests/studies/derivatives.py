"""What the tests of errata share: draws, norms and Jacobians in float64, which use nothing of ours."""

from collections.abc import Callable

import numpy as np
import torch
from hypothesis import strategies as st
from torch import Tensor

seeds = st.integers(0, 10_000)


def normal(seed: int, *shape: int) -> Tensor:
    return torch.from_numpy(np.random.default_rng(seed).normal(size=shape))


def norm(matrix: Tensor, p: float = 2) -> float:
    return float(torch.linalg.matrix_norm(matrix, ord=p))


def jacobian(f: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    return torch.func.jacrev(f)(x).reshape(-1, x.numel())
