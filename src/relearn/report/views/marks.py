"""The points of a figure as a page shows them: their places in the picture, what each says, and the run behind it."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping

Row = Mapping[str, str]


def read(content: bytes, link: Callable[[Row], str]) -> list[dict[str, str]]:
    """The points of a figure's CSV file that its picture shows.

    Args:
        content: the file, with the columns ``plot_left``, ``plot_top`` and ``plot_says`` where it has such points.
        link: from a row to where its point leads, "" for nowhere.

    Returns:
        For each point ``left`` and ``top`` in percent of the picture, ``says`` and ``href``.
    """
    rows = csv.DictReader(io.StringIO(content.decode("utf-8"), newline=""))
    return [
        {
            "left": f"{100 * float(row['plot_left']):.4g}",
            "top": f"{100 * float(row['plot_top']):.4g}",
            "says": row["plot_says"] + _behind(row),
            "href": link(row),
        }
        for row in rows
        if row.get("plot_left")
    ]


def first_run(row: Row) -> str:
    """The folder of the first run behind a point, "" where none is."""
    return next(iter(row.get("runs", "").split()), "")


def _behind(row: Row) -> str:
    runs = row.get("runs", "").split()
    more = f" and {len(runs) - 1} more" if len(runs) > 1 else ""
    return f". Run: {runs[0]}{more}" if runs else ""
