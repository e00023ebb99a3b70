"""hull_proposition: check that a target is separable from the poisons iff it is outside their convex hull.

The check uses random problems. Settings: dimension, poisons, problems. No inputs.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from relearn.runs.settings import plain

NEEDS_TORCH = True


@dataclass(frozen=True, kw_only=True)
class Settings:
    dimension: int
    poisons: int
    problems: int


def run(run, settings: Settings, inputs: dict[str, list[Path]], device: str, precision: str) -> None:
    from relearn.measures.hull import check_proposition

    run.finish(check_proposition(**plain(settings), seed=run.seed))
