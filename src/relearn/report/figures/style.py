"""What all figures share: colours that colour-blind readers tell apart, readable sizes, no global state."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

#: one colour a method, the same in every figure (the colour-blind palette of seaborn)
COLOURS = {"feature_collision": "#0173B2", "convex_polytope": "#DE8F05"}
INK = "#222222"
MUTED = "#6b6b6b"
SHADE = "#e9e9e4"


@contextmanager
def styled() -> Iterator[None]:
    """Seaborn's quiet grid and fixed font sizes, for the figures made inside."""
    import matplotlib
    import seaborn as sns

    sizes: Any = {"font.size": 10, "axes.labelsize": 10, "axes.titlesize": 11, "legend.fontsize": 9.5}
    ticks: Any = {"xtick.labelsize": 9, "ytick.labelsize": 9, "axes.titlelocation": "left"}
    look: Any = {
        "text.color": INK,
        "axes.labelcolor": INK,
        "grid.color": "#e4e4e4",
        "axes.edgecolor": "#9a9a9a",
    }
    own = matplotlib.rc_context({**sizes, **ticks, **look, "font.family": "DejaVu Sans"})
    with sns.axes_style("whitegrid"), sns.plotting_context("paper"), own:
        yield


def empty_figure(width: float, height: float) -> Any:
    """A figure that no global list keeps, sizes in inches."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")
