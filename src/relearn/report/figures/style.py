"""Shared figure style: one width, one set of font sizes, colours for colour-blind readers, no global state.

All figures have the same width, so their fonts have equal size wherever a page or a paper scales them to its column.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

#: one colour per method, the same in every figure (seaborn's colour-blind palette; shades for variants of a method)
COLOURS = {
    "feature_collision": "#0173B2",
    "convex_polytope": "#DE8F05",
    "multi_layer": "#B3440B",
    "multi_layer_as_released": "#CA9161",
    "bullseye_polytope": "#029E73",
    "gradient_matching": "#CC78BC",
    "adaptive_polytope": "#56B4E9",
    "overlap_half": "#F3C77B",
    "overlap_full": "#DE8F05",
    "overlap_disjoint": "#8A5703",
    "start": "#0173B2",
    "gradinit": "#DE8F05",
}
HATCH = "/////"
"""The bands of dashed lines: a solid and a dashed line of one colour have bands that can be told apart."""
WIDTH = 8.0
"""Inches. A figure is as wide as a column: letters of 10 pt come out at 8 pt in a column of 6.5 inches."""
SMALL = 8.5
"""The smallest letters, in points: notes inside a panel and the line below a figure."""
INK = "#222222"
MUTED = "#6b6b6b"
SHADE = "#e9e9e4"


@contextmanager
def apply_style() -> Iterator[None]:
    """Context with seaborn's white grid and fixed font sizes for the figures made in it."""
    import matplotlib
    import seaborn as sns

    sizes: Any = {"font.size": 10, "axes.labelsize": 10, "axes.titlesize": 10, "legend.fontsize": 9}
    ticks: Any = {"xtick.labelsize": 9, "ytick.labelsize": 9, "axes.titlelocation": "left"}
    look: Any = {
        "text.color": INK,
        "axes.labelcolor": INK,
        "grid.color": "#e4e4e4",
        "axes.edgecolor": "#9a9a9a",
        "hatch.linewidth": 0.7,
    }
    own = matplotlib.rc_context({**sizes, **ticks, **look, "font.family": "DejaVu Sans"})
    with sns.axes_style("whitegrid"), sns.plotting_context("paper"), own:
        yield


def empty_figure(height: float, width: float = WIDTH) -> Any:
    """An empty :class:`relearn.report.figures.picture.Picture`, not registered with pyplot; sizes in inches."""
    from relearn.report.figures.picture import Picture

    return Picture(figsize=(width, height), layout="constrained")


def not_run(axes: Any) -> None:
    """Write "not run" inside an empty panel."""
    look: Any = {"ha": "center", "va": "center", "color": MUTED, "backgroundcolor": "white"}
    axes.text(0.5, 0.5, "not run", transform=axes.transAxes, **look)


def chance_line(axes: Any, points: Iterable[Mapping[str, Any]], *, reach: bool = True, x: int = 1) -> None:
    """A thin dotted line at chance accuracy, ``chance`` of the points, with its name below, where data are rare.

    Args:
        reach: extend the axis down to the line; otherwise the line is drawn only if it is within the axis limits.
        x: 0 for the name at the left end, 1 at the right.
    """
    for level in sorted({point["chance"] for point in points if point.get("chance") is not None}):
        low, high = axes.get_ylim()
        if not reach and level < low:
            continue
        if level < low + 0.09 * (high - low):  # the height of the name
            axes.set_ylim(level - 0.1 * (high - level), high)
        axes.axhline(level, color=MUTED, lw=1, ls=(0, (1, 2)), zorder=1)
        place = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points"}
        look: Any = {"ha": ("left", "right")[x], "va": "top", "color": MUTED, "fontsize": SMALL}
        axes.annotate("chance", (x, level), (3 - 3 * x, -2), **place, **look)


def band(
    axes: Any,
    points: Sequence[Mapping[str, Any]],
    x: str,
    colour: Any,
    alpha: float = 0.15,
    zorder: int = 2,
    hatch: str = "",
) -> None:
    """The range from ``low`` to ``high`` of the points over their ``x``, if one of them has several seeds."""
    if max((point["seeds"] for point in points), default=0) > 1:
        between(axes, points, x, colour, alpha, zorder, hatch)


def between(
    axes: Any,
    points: Sequence[Mapping[str, Any]],
    x: str,
    colour: Any,
    alpha: float = 0.15,
    zorder: int = 1,
    hatch: str = "",
) -> None:
    """Fill from ``low`` to ``high``; with ``hatch`` by thin lines, which tell it from a filled band of the same colour."""
    from matplotlib.colors import to_rgba

    xs, low, high = ([point[name] for point in points] for name in (x, "low", "high"))
    if axes.get_yscale() == "log":
        low = [max(value, axes.get_ylim()[0]) for value in low]
    inside, lines = (alpha / 3, 3 * alpha) if hatch else (alpha, 0.0)
    look: dict[str, Any] = {"facecolor": to_rgba(colour, inside), "edgecolor": to_rgba(colour, lines)}
    axes.fill_between(xs, low, high, lw=0, zorder=zorder, hatch=hatch or None, **look)


def sequential(names: Sequence[Any]) -> dict[Any, Any]:
    """One colour per name, from light to dark in the given order."""
    from seaborn import color_palette

    return dict(zip(names, color_palette("flare", len(names))))


def in_percent(axis: Any) -> None:
    """Label an axis of fractions in percent, with three significant digits."""
    axis.set_major_formatter(lambda value, _: f"{100 * value:.3g}%")


def few_numbers(axis: Any) -> None:
    """Label a log axis sparsely: powers of ten, or 1, 2 and 5 times powers of ten if it spans few of them; all in one notation."""
    import math

    from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

    low, high = axis.get_view_interval()
    decades = math.log10(high / low)
    if decades < 0.7:  # nearly linear
        axis.set_major_locator(MaxNLocator(4))
        axis.set_minor_locator(MaxNLocator(1))
    else:
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if decades < 2 else (1.0,), numticks=6))
        axis.set_minor_locator(LogLocator(subs=(1.0,), numticks=20))
    axis.set_major_formatter(lambda value, _: f"{value:g}" if _plain(axis) else _power(value))
    axis.set_minor_formatter(NullFormatter())


def _plain(axis: Any) -> bool:
    """Whether all labels in view are short without a power of ten."""
    low, high = sorted(axis.get_view_interval())
    shown = [value for value in axis.get_majorticklocs() if 0.999 * low <= value <= 1.001 * high]
    return all(9e-4 < value < 1e5 for value in shown)


def short(value: float) -> str:
    """``0.25``, ``1e6``: a number in the format of axis labels."""
    if value == 0 or 9e-4 < abs(value) < 1e4:
        return f"{value:g}"
    return _power(value)


def _power(value: float) -> str:
    """``1e6``, ``2.5e-4``."""
    mantissa, _, exponent = f"{value:.3e}".partition("e")
    return f"{float(mantissa):g}e{int(exponent)}"


def two_lines(victim: str) -> str:
    """A long architecture name, broken at its first hyphen."""
    return victim.replace("-", "\n", 1)


def number(
    value: float, low: float | None = None, high: float | None = None, *, percent: bool = False
) -> str:
    """``20% [8.1%, 41.6%]``: a value with its interval or range, if it has one."""
    if low is None or high is None or low == high:
        return _short(value, percent)
    return f"{_short(value, percent)} [{_short(low, percent)}, {_short(high, percent)}]"


def _short(value: float, percent: bool) -> str:
    if percent:
        return f"{100 * value:.3g}%"
    return f"{value:,.0f}" if 999.5 <= abs(value) < 1e7 else f"{value:.3g}"
