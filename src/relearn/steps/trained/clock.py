"""Measure the time of a training without its evaluations."""

from __future__ import annotations

import time
from collections.abc import Callable
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

    def excluding(self, call: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Return a version of ``call`` whose time is not counted."""

        def uncounted(given: Any) -> Any:
            self.stop()
            found = call(given)
            self.start()
            return found

        return uncounted

    def counting(self, progress: Any) -> Any:
        """Return a version of ``progress`` that also counts the steps."""

        def counted(done: int, total: int) -> None:
            self.steps += 1
            progress(done, total)

        return counted

    def per_step(self) -> dict[str, float]:
        """``step_s``, the mean time of a step; nothing if the training had already finished before a restart."""
        return {"step_s": self.spent / self.steps} if self.steps else {}

    def _now(self) -> float:
        if not self.cuda:
            return time.process_time()
        import torch

        torch.cuda.synchronize()
        return time.perf_counter()
