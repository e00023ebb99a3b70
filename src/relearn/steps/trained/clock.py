"""How long a training takes without its evaluations."""

from __future__ import annotations

import statistics
import time
from typing import Any


class Clock:
    """Total time between ``start`` and ``stop``: CPU time of this process, or on a GPU wall time after synchronisation."""

    def __init__(self, device: str) -> None:
        self.cuda = device.startswith("cuda")
        self.spent, self.steps, self._since = 0.0, 0, 0.0

    def start(self) -> None:
        self._since = self._now()

    def stop(self) -> None:
        self.spent += self._now() - self._since

    def counting(self, progress: Any) -> Any:
        """Return ``progress`` with a count of the steps added."""

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


class EpochClock:
    """Time of each epoch without its evaluation: CPU time of this process, or wall time on a GPU.

    After a restart it holds the epochs of the new process only.
    """

    def __init__(self, device: str) -> None:
        self._now = time.perf_counter if device.startswith("cuda") else time.process_time
        self.spent: list[float] = []
        self.start()

    def start(self) -> None:
        self._since = self._now()

    def stop(self) -> None:
        self.spent.append(self._now() - self._since)

    def mean(self) -> float | None:
        return statistics.fmean(self.spent) if self.spent else None
