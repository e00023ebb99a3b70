"""toy_example: run feature collision and convex polytope against a linear classifier in 2D.

No settings, no inputs. Output: trials.csv (panel, kind, x, y).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

NEEDS_TORCH = True


@dataclass(frozen=True)
class Settings:
    pass


def run(run, settings: Settings, inputs: dict[str, list[Path]], device: str, precision: str) -> None:
    import numpy as np

    from relearn.measures.toy_svm import on_the_right, panels

    rows = panels()
    taken = {}
    for panel in dict.fromkeys(row["panel"] for row in rows):
        points = {
            kind: np.array([[r["x"], r["y"]] for r in rows if (r["panel"], r["kind"]) == (panel, kind)])
            for kind in ("target", "boundary_after")
        }
        taken[f"{panel}_targets_taken_count"] = int(
            on_the_right(points["target"][0], points["boundary_after"])
        )
    run.finish(taken, trials=(list(rows[0]), [list(row.values()) for row in rows]))
