"""The best network of a training so far, stored in the run's work folder, where it survives a kill like the checkpoint."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from relearn.runs.atomic_files import write


class Best:
    """Stores the network with the highest score.

    Args:
        work: the run's work folder.
        save: ``save(net, path)`` writes a network.
        least: the first network must score above it.
    """

    def __init__(self, work: Path, save: Callable[[Any, Path], None], least: float = -math.inf) -> None:
        self.file, self._score = work / "best.safetensors", work / "best.json"
        self._save, self._least = save, least

    @property
    def score(self) -> float:
        """The highest score so far."""
        return float(json.loads(self._score.read_bytes())) if self._score.exists() else self._least

    def offer(self, net: Any, score: float) -> None:
        """Store ``net`` if its score is higher than all previous ones."""
        if score > self.score:
            self.keep(net, score)

    def keep(self, net: Any, score: float) -> None:
        """Store ``net``, whatever its score."""
        partial = self.file.with_suffix(".part")
        self._save(net, partial)
        partial.replace(self.file)
        write(self._score, json.dumps(score).encode())

    def copy_to(self, path: Path) -> None:
        """Copy the stored network to an output of the run."""
        shutil.copyfile(self.file, path)
