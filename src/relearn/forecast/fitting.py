r"""Fits the deviation of real steps from the calibrated rates: a factor for each term of the machine's model.

.. math:: \min_e \sum_i \rho\bigl(\log \textstyle\sum_k e_k t_{ik} - \log y_i\bigr)

over the runs i, with the terms :math:`t_{ik}` of :meth:`relearn.forecast.machine.Machine.terms`, the measured CPU seconds
:math:`y_i` and SciPy's ``soft_l1`` for :math:`\rho`, which limits the influence of disturbed runs. Convolutions and products in
bfloat16 have a further common factor, because small networks gain less from it than the benchmark does.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from relearn.forecast.evidence import Row, made_on

FACTORS = 6
LIMITS = (0.01, 50.0)
SHORTEST_S = 0.02
"""Shorter runs measure the clock."""


def efficiencies(rows: Sequence[Row]) -> tuple[float, ...]:
    """The factors that fit the rows best: those of the five terms, and that of bfloat16 (1 without such rows).

    Raises:
        ValueError: fewer rows with a known amount of work than factors.
    """
    from scipy.optimize import least_squares

    known = [row for row in rows if row.amount is not None and row.cpu_s > SHORTEST_S]
    if len(known) < FACTORS:
        raise ValueError(
            f"records: found {len(known)} with a known amount of work, allowed: at least {FACTORS}"
        )
    half = np.array([row.precision == "bf16" for row in known])
    terms = np.array([made_on(row).terms(row.amount) for row in known if row.amount is not None])
    measured = np.log([row.cpu_s for row in known])

    def residuals(logs: np.ndarray) -> np.ndarray:
        factors = np.tile(np.exp(logs[:-1]), (len(known), 1))
        factors[half, :2] *= np.exp(logs[-1])
        return np.asarray(np.log((terms * factors).sum(1)) - measured)

    found = least_squares(residuals, np.zeros(FACTORS), loss="soft_l1", bounds=tuple(np.log(LIMITS)))
    return tuple(float(one) for one in np.exp(found.x))
