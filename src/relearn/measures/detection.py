"""Result of a defence: fraction of poisons removed, of clean points removed, and the Matthews correlation.

Zhu 2022, section 2.3.5 (figure 2.11). The dissertation's definition of MCC is on pages missing from our text; we use the
standard one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True)
class Detection:
    """Counts for one filtered set; a poison is a positive, and dropping it means detecting it.

    ``poisons_removed`` = TP, ``poisons_kept`` = FN, ``clean_removed`` = FP, ``clean_kept`` = TN.
    """

    poisons_removed: int
    poisons_kept: int
    clean_removed: int
    clean_kept: int

    @property
    def poisons(self) -> int:
        return self.poisons_removed + self.poisons_kept

    @property
    def clean(self) -> int:
        return self.clean_removed + self.clean_kept

    @property
    def poisons_removed_frac(self) -> float:
        """TP / (TP + FN); NaN if there is no poison."""
        return self.poisons_removed / self.poisons if self.poisons else math.nan

    @property
    def clean_removed_frac(self) -> float:
        """FP / (FP + TN), relative to the clean points, not to the whole set; NaN if there is no clean point."""
        return self.clean_removed / self.clean if self.clean else math.nan

    @property
    def mcc(self) -> float:
        return mcc(self.poisons_removed, self.clean_kept, self.clean_removed, self.poisons_kept)


def detection(dropped: ArrayLike, is_poison: ArrayLike) -> Detection:
    """Count poisons and clean points that a defence dropped or kept.

    Args:
        dropped: bool (n,), True = dropped (``fit_predict(X, y) == -1``).
        is_poison: bool (n,), True = poison.

    Raises:
        ValueError: the two have different shapes or are not bool (1 and -1 are both truthy, so numbers are
        rejected).
    """
    drop, poison = _bools(dropped, "dropped"), _bools(is_poison, "is_poison")
    if drop.shape != poison.shape or drop.ndim != 1:
        raise ValueError(f"dropped has shape {drop.shape}, is_poison {poison.shape}; allowed: (n,) for both")
    return Detection(
        poisons_removed=int((drop & poison).sum()),
        poisons_kept=int((~drop & poison).sum()),
        clean_removed=int((drop & ~poison).sum()),
        clean_kept=int((~drop & ~poison).sum()),
    )


def mcc(tp: int, tn: int, fp: int, fn: int) -> float:
    r"""Matthews correlation coefficient, in [-1, 1].

    .. math:: \frac{TP \cdot TN - FP \cdot FN}{\sqrt{(TP + FP)(TP + FN)(TN + FP)(TN + FN)}}

    0 if a factor of the denominator is 0 (no poison, no clean point, nothing dropped, everything dropped):
    the numerator is then 0 too, and the correlation is undefined.
    """
    tp, tn, fp, fn = int(tp), int(tn), int(fp), int(fn)  # Python integers, because numpy's would overflow
    square = (tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)
    return (tp * tn - fp * fn) / math.sqrt(square) if square else 0.0


def defence_success(succeeded: ArrayLike, *, among: ArrayLike | None = None) -> float:
    """Fraction of attacks that fail after filtering and retraining; NaN if there is no attack.

    Args:
        succeeded: bool (attacks,), whether the attack still succeeds.
        among: bool (attacks,), the attacks to count; the published code counts those that succeed
        without a defence.

    Raises:
        ValueError: shapes that differ, or values that are not bool.
    """
    attacks = _bools(succeeded, "succeeded")
    if among is not None:
        counted = _bools(among, "among")
        if counted.shape != attacks.shape:
            raise ValueError(f"among has shape {counted.shape}; allowed: {attacks.shape}, as succeeded")
        attacks = attacks[counted]
    return float(1 - attacks.mean()) if attacks.size else math.nan


def _bools(values: ArrayLike, name: str) -> NDArray[Any]:
    array = np.asarray(values)
    if array.dtype != np.bool_ and array.size:
        raise ValueError(f"{name} holds {array.dtype}; allowed: bool")
    return array.astype(np.bool_)
