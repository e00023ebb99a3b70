r"""Check whether dropout is a contraction. kim2020, appendix H, assumes masks of 0 and 1; frameworks rescale (erratum K7).

For a fixed mask dropout is a diagonal map, so its operator norm is its largest factor for every p:

=========  ======================================  =================================  ================
form       training, keep probability k            evaluation                         the paper claims
=========  ======================================  =================================  ================
binary     0 or 1: norm 1                          times k: norm k                    at most 1; k
inverted   0 or 1/k: norm 1/k                      identity: norm 1                   at most 1; k
=========  ======================================  =================================  ================

Appendix H describes the binary form; torch (and TensorFlow, which the paper used) computes the inverted one. A branch with constant
L < 1 followed by inverted dropout has the constant L/k in training: with k = 0.75 it is not a contraction for L above 0.75.

Columns: form, mode (train | eval), keep, length, dim, p (inf | two), norm (exact, of the whole Jacobian for one mask), exact (the
table), printed (the claim), holds (norm = exact to 1e-12), printed_holds (train: norm at most 1; eval: norm = k).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from relearn.measures.lipschitz.jacobian import jacobian_norm

COLUMNS = ("form", "mode", "keep", "length", "dim", "p", "norm", "exact", "printed", "holds", "printed_holds")
ROUNDING = 1e-12


def cases(*, keep: float, lengths: Sequence[int], dims: Sequence[int], seed: int = 0) -> list[dict[str, Any]]:
    """Return one row (:data:`COLUMNS`) for every form, mode, size and p; masks that drop everything are redrawn.

    Raises:
        ValueError: a keep probability outside (0, 1).
    """
    if not 0 < keep < 1:
        raise ValueError(f"keep: {keep} (allowed: 0 < keep < 1)")
    return [
        _case(form, mode, keep, length, dim, p, seed)
        for form in ("binary", "inverted")
        for mode in ("train", "eval")
        for length in lengths
        for dim in dims
        for p in ("inf", "two")
    ]


def draw(
    form: str, mode: str, keep: float, length: int, dim: int, seed: int = 0
) -> Callable[[Tensor], Tensor]:
    """Return dropout with a fixed mask as a linear map of inputs (length, dim); a training mask keeps at least one entry."""
    if form == "binary" and mode == "eval":
        return lambda x: keep * x
    if form == "binary":
        kept = _kept(keep, length, dim, seed)
        return lambda x: kept * x
    module = nn.Dropout(1 - keep)
    if mode == "eval":
        return module.eval()

    def same(x: Tensor, again: int) -> Tensor:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(again)  # the same mask at every call
            found: Tensor = module(x)
        return found

    while not bool(same(torch.ones(length, dim, dtype=torch.float64), seed).any()):
        seed += 1
    return lambda x: same(x, seed)


def _kept(keep: float, length: int, dim: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    while True:
        kept = torch.rand(length, dim, generator=generator) < keep
        if bool(kept.any()):
            return kept.double()


def _case(form: str, mode: str, keep: float, length: int, dim: int, p: str, seed: int) -> dict[str, Any]:
    x = torch.randn(length, dim, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    norm = jacobian_norm(draw(form, mode, keep, length, dim, seed), x, p, method="exact").value
    exact = {
        ("binary", "train"): 1.0,
        ("binary", "eval"): keep,
        ("inverted", "train"): 1 / keep,
        ("inverted", "eval"): 1.0,
    }
    printed = 1.0 if mode == "train" else keep
    row = {
        "form": form,
        "mode": mode,
        "keep": keep,
        "length": length,
        "dim": dim,
        "p": p,
        "norm": norm,
        "exact": exact[form, mode],
        "printed": printed,
        "holds": abs(norm - exact[form, mode]) <= ROUNDING,
        "printed_holds": norm <= printed + ROUNDING if mode == "train" else abs(norm - printed) <= ROUNDING,
    }
    return {column: row[column] for column in COLUMNS}
