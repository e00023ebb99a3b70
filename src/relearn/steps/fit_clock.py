"""When a training is evaluated, and how long its steps take without the evaluations."""

from __future__ import annotations

import math
import time
from typing import Any

ROWS = 60  # rows of the history, at most


def spacing(steps: int, evaluations: int) -> tuple[int, int]:
    """(steps a row of the history, rows from one evaluation to the next): so many evaluations, and at most ``ROWS`` rows.

    Every ``ceil(steps / evaluations)`` steps there is an evaluation; rows lie between them where that number has a divisor for it.
    """
    each = math.ceil(steps / evaluations)
    row = next(n for n in range(1, each + 1) if each % n == 0 and each // n <= max(1, ROWS // evaluations))
    return row, each // row


class Clock:
    """Time between ``start`` and ``stop``, added up: CPU time of this process, or on a GPU wall time when it has caught up."""

    def __init__(self, device: str) -> None:
        self.cuda = device.startswith("cuda")
        self.spent, self.steps, self._since = 0.0, 0, 0.0

    def start(self) -> None:
        self._since = self._now()

    def stop(self) -> None:
        self.spent += self._now() - self._since

    def counting(self, progress: Any) -> Any:
        """``progress``, which counts the steps too."""

        def counted(done: int, total: int) -> None:
            self.steps += 1
            progress(done, total)

        return counted

    def _now(self) -> float:
        if not self.cuda:
            return time.process_time()
        import torch

        torch.cuda.synchronize()
        return time.perf_counter()
