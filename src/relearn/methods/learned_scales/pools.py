"""Split batches (a tensor, or nested tuples of tensors) along the samples."""

from __future__ import annotations

import math
from collections.abc import Sequence, Sized
from typing import Any

from torch import Tensor

Batch = Sequence[Any]


def samples(value: Any) -> int:
    """Number of samples (length of the first dimension of the first tensor) of a batch or of a part of it.

    Raises:
        TypeError: there is no tensor.
    """
    found = _first_tensor(value)
    if found is None:
        raise TypeError(f"batches: no tensor in a batch of type {type(value).__name__}")
    return len(found)


def halves(pool: Batch, overlap: float) -> tuple[list[Any], list[Any]]:
    r"""S and S̃, the first and the last m samples of a pool of n: :math:`m = \lfloor n / (2 - r) \rfloor`.

    They share 2m - n samples, which is the fraction r = |S ∩ S̃| / |S| (zhu2022, section 4.2.3): n = 192 and r = 1/2 give m = 128
    and 64 shared samples.

    Raises:
        TypeError: the batch holds a dict, an array or the like, whose samples cannot be told.
        ValueError: the pool is too small for the overlap: no sample would be shared although r > 0, or all samples although r < 1.
    """
    count = samples(pool)
    # A pool of exactly the right size, n = (2 - r) m, must not lose a sample to rounding.
    size = math.floor(count / (2.0 - overlap) + 1e-9)
    shared, fresh = 2 * size - count, count - size
    if size < 1 or (overlap > 0 and shared < 1) or (overlap < 1 and fresh < 1):
        raise ValueError(
            f"batches: a pool of {count} samples is too small for overlap {overlap:g}: "
            f"it gives halves of {size} that share {max(shared, 0)}; allowed: at least one shared and one unshared sample"
        )
    return _cut(list(pool), slice(0, size)), _cut(list(pool), slice(count - size, count))


def retyped(like: Any, parts: Sequence[Any]) -> Any:
    """``parts`` as a sequence of the type of ``like``; a NamedTuple takes them one by one."""
    return type(like)(*parts) if hasattr(like, "_fields") else type(like)(parts)


def _first_tensor(value: Any) -> Tensor | None:
    if isinstance(value, Tensor):
        return value
    if isinstance(value, (tuple, list)):
        return next((found for found in map(_first_tensor, value) if found is not None), None)
    return None


def _cut(value: Any, part: slice) -> Any:
    if isinstance(value, Tensor):
        return value[part]
    if isinstance(value, (tuple, list)):
        return retyped(value, [_cut(one, part) for one in value])
    if isinstance(value, Sized) and not isinstance(value, (str, bytes)):
        raise TypeError(
            f"batches: found a {type(value).__name__} in a batch (allowed: tensors, and tuples or lists of tensors)"
        )
    return value
