r"""Fits the deviation of real steps from the calibrated rates: five factors, one for each term of the machine's model.

.. math:: \min_e \sum_i \rho\bigl(\log \textstyle\sum_k e_k t_{ik} - \log y_i\bigr)

over the runs i, with the terms :math:`t_{ik}` of :meth:`relearn.forecast.machine.Machine.terms`, the measured CPU seconds
:math:`y_i` and SciPy's ``soft_l1`` for :math:`\rho`, which limits the influence of disturbed runs.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from relearn.forecast.evidence import Row
from relearn.forecast.machine import Machine

LIMITS = (0.01, 50.0)
SHORTEST_S = 0.02
"""Shorter runs measure the clock."""


def efficiencies(rows: Sequence[Row], machine: Machine) -> tuple[float, ...]:
    """The five factors that fit the rows best.

    Raises:
        ValueError: fewer rows with a known amount of work than factors.
    """
    from scipy.optimize import least_squares

    known = [row for row in rows if row.amount is not None and row.cpu_s > SHORTEST_S]
    if len(known) < 5:
        raise ValueError(f"records: found {len(known)} with a known amount of work, allowed: at least 5")
    terms = np.array([machine.terms(row.amount) for row in known if row.amount is not None])
    measured = np.log([row.cpu_s for row in known])

    def residuals(logs: np.ndarray) -> np.ndarray:
        return np.asarray(np.log(terms @ np.exp(logs)) - measured)

    found = least_squares(residuals, np.zeros(5), loss="soft_l1", bounds=tuple(np.log(LIMITS)))
    return tuple(float(one) for one in np.exp(found.x))
