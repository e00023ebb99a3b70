"""A run in those of several processes that do not make the record: it accepts all that a step writes, and keeps nothing."""

from __future__ import annotations

import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any

from relearn.runs import interrupt


class Follower:
    """Stands in for :class:`relearn.runs.record.Run` in a process other than the first.

    Args:
        labels, seed, settings: those of the run.
        processes: the operations between processes, :mod:`relearn.methods.parallel`.
    """

    done = None

    def __init__(
        self, *, labels: dict[str, str], seed: int, settings: dict[str, Any], processes: Any
    ) -> None:
        self.labels, self.seed, self.settings, self.processes = labels, seed, settings, processes
        self._place = tempfile.TemporaryDirectory(prefix="relearn-follower-")

    def __enter__(self) -> Follower:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._place.cleanup()

    @property
    def work(self) -> Path:
        return Path(self._place.name)

    def output(self, name: str) -> Path:
        return self.work / name

    def log(self, step: int, **metrics: float) -> None:
        interrupt.check()

    def finish(self, metrics: dict[str, float], **more: Any) -> None:
        """Nothing to write: the first process does."""
