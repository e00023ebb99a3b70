"""How often a training with a given number of steps is evaluated."""

from __future__ import annotations

import math

ROWS = 60  # rows of the history, at most


def spacing(steps: int, evaluations: int) -> tuple[int, int]:
    """Return (steps per row of the history, rows from one evaluation to the next).

    There is an evaluation every ``ceil(steps / evaluations)`` steps, with further rows in between if that number has a
    suitable divisor; the history has at most :data:`ROWS` rows.
    """
    each = math.ceil(steps / evaluations)
    row = next(n for n in range(1, each + 1) if each % n == 0 and each // n <= max(1, ROWS // evaluations))
    return row, each // row
