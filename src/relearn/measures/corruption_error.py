r"""Mean accuracy under common corruptions, and mCE relative to a reference network.

Hendrycks & Dietterich 2019 (arXiv 1903.12261, section 4), with :math:`E_{c,s}` the error (fraction) under corruption c at severity s:

.. math::
    \overline{E} = \frac1{|C|} \sum_c \frac15 \sum_s E_{c,s}, \qquad
    \mathrm{mCE} = \frac1{|C|} \sum_c \frac{\sum_s E_{c,s}}{\sum_s E^{\mathrm{ref}}_{c,s}}, \qquad
    \mathrm{relative\ mCE} = \frac1{|C|} \sum_c
        \frac{\sum_s (E_{c,s} - E_{\mathrm{clean}})}{\sum_s (E^{\mathrm{ref}}_{c,s} - E^{\mathrm{ref}}_{\mathrm{clean}})}

mCE is meaningless without its reference (AlexNet for ImageNet-C), and CIFAR-10-C has no agreed reference. Therefore the caller must
pass the reference's errors; there is no default.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

Errors = Mapping[str, Sequence[float]]
"""Error (fraction) of each corruption, by severity."""


def mean_corruption_accuracy(accuracies: Errors) -> float:
    """Mean over corruptions of the mean over severities; all corruptions have equal weight.

    Raises:
        ValueError: no corruptions, a corruption without severities, a value outside [0, 1].
    """
    _check(accuracies)
    return math.fsum(math.fsum(row) / len(row) for row in accuracies.values()) / len(accuracies)


def mean_corruption_error(
    errors: Errors,
    reference: Errors,
    *,
    clean: float | None = None,
    reference_clean: float | None = None,
) -> float:
    """mCE relative to ``reference``, as a fraction (1 = as bad as the reference); with both clean errors, the relative mCE.

    Raises:
        ValueError: corruptions or severities that differ from the reference's, one clean error without the other, or a denominator that
        is not positive (the reference makes no errors, or no more than on clean images).
    """
    _check(errors)
    _check(reference)
    if set(errors) != set(reference):
        odd = ", ".join(sorted(set(errors) ^ set(reference)))
        raise ValueError(f"only one of network and reference has {odd}; both need the same corruptions")
    if (clean is None) != (reference_clean is None):
        raise ValueError("clean and reference_clean: one is given; give both (relative mCE) or none (mCE)")
    ratios = []
    for name, row in errors.items():
        other = reference[name]
        if len(row) != len(other):
            raise ValueError(
                f"{name}: {len(row)} severities, the reference has {len(other)}; allowed: the same"
            )
        above = math.fsum(row) - len(row) * (clean or 0.0)
        below = math.fsum(other) - len(other) * (reference_clean or 0.0)
        if below <= 0:
            raise ValueError(f"{name}: the reference's summed error is {below:.4g}; a positive one is needed")
        ratios.append(above / below)
    return math.fsum(ratios) / len(ratios)


def _check(rows: Errors) -> None:
    if not rows:
        raise ValueError("there are no corruptions; at least one is needed")
    for name, row in rows.items():
        if not len(row):
            raise ValueError(f"{name}: no severities; at least one is needed")
        for value in row:
            if not 0 <= value <= 1:
                raise ValueError(f"{name}: {value} (allowed: fractions 0 to 1)")
