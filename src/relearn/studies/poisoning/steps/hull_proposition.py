"""hull_proposition: check that a target is separable from the poisons iff it is outside their convex hull.

The check uses random problems. Settings: dimension, poisons, problems. No inputs.
"""

from __future__ import annotations

from pathlib import Path

NEEDS_TORCH = True


def run(run, settings: dict, inputs: dict[str, list[Path]], device: str, precision: str) -> None:
    from relearn.measures.hull import check_proposition

    found = check_proposition(
        dimension=settings["dimension"],
        poisons=settings["poisons"],
        problems=settings["problems"],
        seed=run.seed,
    )
    run.finish(found)
