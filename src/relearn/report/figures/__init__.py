"""One module per figure: ``points`` collects the data, ``draw`` plots nothing else; the points are also written as CSV.

A point's ``pictures`` are drawn but not written to the CSV. Figures are byte-stable: equal points give
equal files. A module's ``BARS`` says what its bars and bands are, and its ``NOTE`` what else a
reader must know; the line below the figure shows both. Either is a text, or a function of the artefact and the points that gives one.
"""

from __future__ import annotations

import csv
import importlib
import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from relearn.report.artefacts import Artefact
from relearn.report.coverage import cover
from relearn.report.figures import foot, panels
from relearn.report.quantities import Evidence

if TYPE_CHECKING:
    from PIL.Image import Image as Drawing

Line = Mapping[str, str]
PLACED = ("plot_left", "plot_top", "plot_says")
"""Columns of a figure's CSV file that :mod:`relearn.report.figures.picture` explains."""
COLOURS = (16, 24, 32, 48, 64, 96, 128, 256)
"""Sizes of a drawing's palette, tried in turn."""
NEAR = {0.0005: 14, 0.005: 5}
"""Share of the drawing that a colour covers at least, to the largest change of a channel; a band needs its hue more than an edge does."""
PHOTOGRAPH = 2**14
"""Colours of a picture from which on it is a photograph: lines with smooth edges have a few thousand."""


class Prepared(NamedTuple):
    """A figure before it is drawn."""

    artefact: Artefact
    module: Any
    points: Sequence[dict[str, Any]]
    text: str
    """The line below the figure."""


def prepare(artefact: Artefact, evidence: Evidence, renderers: Mapping[str, str]) -> Prepared:
    """Collect the points of a figure and its line of text.

    Args:
        renderers: maps a name to a module, for the figure's study.

    Raises:
        ValueError: an unknown renderer.
    """
    if artefact.renderer is None or artefact.renderer not in renderers:
        allowed = ", ".join(renderers)
        raise ValueError(f"{artefact.id}: found renderer {artefact.renderer}, allowed: {allowed}")
    module = importlib.import_module(renderers[artefact.renderer])
    points = module.points(artefact, evidence)
    sizes = foot.sizes(points, evidence) if getattr(module, "NAMES_NETWORKS", False) else ""
    bars, note = (_said(getattr(module, name, ""), artefact, points) for name in ("BARS", "NOTE"))
    text = foot.words(artefact, points, bars, sizes, missing(artefact, points, evidence), note)
    return Prepared(artefact, module, points, text)


def _said(words: Any, artefact: Artefact, points: Sequence[Mapping[str, Any]]) -> str:
    return str(words(artefact, points) if callable(words) else words)


def missing(artefact: Artefact, points: Sequence[Mapping[str, Any]], evidence: Evidence) -> list[str]:
    """The titles of the rows and panels that were not run: the published ones, and own rows that the caption names.

    Then the columns that only some rows lack, with the titles of these rows, if each row has a panel.
    """
    ours = [p for p in points if not foot.from_paper(p) and p.get("status") != "not_run"]
    drawn = {value for point in ours for value in point.values() if isinstance(value, str)}
    gone = cover(artefact, evidence).missing
    # a row whose published victims were not run can have points of others
    rows = [row for row in artefact.rows if (row.title in gone or row.in_caption) and row.id not in drawn]
    drawn_in = {point.get("row", point.get("panel")) for point in ours}
    there = {column.title for column in artefact.columns if column.id in drawn_in}
    by_column = bool(drawn_in) and drawn_in <= {column.id for column in artefact.columns}
    columns = [column for column in artefact.columns if by_column and column.title not in there]
    partly = [] if by_column else _partly(artefact, evidence)
    return list(dict.fromkeys([row.title for row in rows] + [column.title for column in columns] + partly))


def _partly(artefact: Artefact, evidence: Evidence) -> list[str]:
    """``2, 4 layers (DP, L2)``: columns without a run in published rows that have runs in others."""
    lacking: dict[tuple[str, ...], list[str]] = {}
    rows = [row for row in artefact.rows if row.in_grid] if artefact.grid else []
    for row in rows:
        cells = {
            column.title: panels.runs_of(
                artefact, row, column, evidence, column.quantity.removeprefix("file:")
            )
            for column in artefact.columns
            if row.applies(column.id) and column.quantity.startswith("file:") and "#" not in column.quantity
        }
        if any(cells.values()) and (gone := tuple(title for title, runs in cells.items() if not runs)):
            lacking.setdefault(gone, []).append(row.title)
    return [f"{_together(titles)} ({', '.join(of)})" for titles, of in lacking.items()]


def _together(titles: Sequence[str]) -> str:
    """``1 layer``, ``2 layers`` and ``4 layers`` as ``1, 2, 4 layers``; titles of another form with commas between them."""
    units = {title.partition(" ")[2].rstrip("s") for title in titles}
    if len(units) > 1 or not all(title.partition(" ")[0].isdigit() for title in titles):
        return ", ".join(titles)
    return ", ".join([*(title.partition(" ")[0] for title in titles[:-1]), titles[-1]])


def draw(prepared: Prepared, folder: Path) -> list[Path]:
    """Write ``<id>.csv``, ``<id>.png`` and ``<id>.pdf`` of one figure."""
    artefact, module, points, text = prepared
    figure = module.draw(artefact, points)
    foot.write(figure, text)
    return write(figure, points, module.FIELDS, folder / artefact.id)


def write(figure: Any, points: Sequence[dict[str, Any]], fields: Sequence[str], stem: Path) -> list[Path]:
    """Write ``<stem>.csv``, ``.png`` and ``.pdf``; the CSV also gives the position of each marked point in the picture."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    pictures = save(figure, stem)
    if places := figure.places():
        at = {id(point): place for point, place in places}
        points = [{**point, **at.get(id(point), {})} for point in points]
        fields = [*fields, *PLACED]
    return [write_points(points, fields, stem.with_name(f"{stem.name}.csv")), *pictures]


def save(figure: Any, stem: Path) -> list[Path]:
    """Write PNG and PDF without dates or versions inside; the PNG uses a palette unless it contains photographs.

    The layout is computed for the PNG and reused for the PDF. Figure.savefig would draw twice and lay out each file anew.
    """
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.backends.backend_pdf import FigureCanvasPdf
    from PIL import Image

    png, pdf = (stem.with_name(f"{stem.name}.{kind}") for kind in ("png", "pdf"))
    drawn = io.BytesIO()
    with matplotlib.rc_context({"pdf.fonttype": 42, "svg.hashsalt": stem.name}):
        figure.dpi = 100
        canvas = FigureCanvasAgg(figure)
        if layout := figure.get_layout_engine():
            layout.execute(
                figure
            )  # drawing runs the layout again: the second pass uses the sizes from the first
        canvas.print_png(drawn)
        figure.set_layout_engine("none")
        FigureCanvasPdf(figure).print_pdf(
            pdf, metadata={"CreationDate": None, "Creator": None, "Producer": None}
        )
    image = Image.open(drawn).convert("RGB")
    if image.getcolors(PHOTOGRAPH) is not None:
        image = palette(image)
    image.save(png, optimize=True)
    return [png, pdf]


def palette(image: Drawing) -> Drawing:
    """The drawing with the fewest of COLOURS that change no frequent colour by more than NEAR allows: a light band keeps its hue."""
    import numpy as np
    from PIL import Image

    drawn = np.asarray(image).reshape(-1, 3)
    packed = drawn.astype(np.int32) @ np.array([1 << 16, 1 << 8, 1], np.int32)
    _, first, counts = np.unique(packed, return_index=True, return_counts=True)
    # one pixel of each frequent colour: pixels of one colour change equally
    shares = counts / counts.sum()
    frequent, shares = first[shares >= min(NEAR)], shares[shares >= min(NEAR)]
    near = np.min([np.where(shares >= share, most, 255) for share, most in NEAR.items()], axis=0)
    wanted = drawn[frequent].astype(int)
    for colours in COLOURS:
        found = image.quantize(colours, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
        given = np.asarray(found.convert("RGB")).reshape(-1, 3)[frequent].astype(int)
        if (np.abs(given - wanted).max(axis=1) <= near).all():
            break
    return found


def write_points(points: Sequence[dict[str, Any]], fields: Sequence[str], path: Path) -> Path:
    """Write the plotted points as CSV: one line per point, an empty cell for None."""
    with path.open("w", encoding="utf-8", newline="") as file:
        shown = [name for name in fields if name != "pictures"]
        table = csv.DictWriter(file, shown, lineterminator="\n", extrasaction="ignore")
        table.writeheader()
        table.writerows({name: "" if value is None else value for name, value in p.items()} for p in points)
    return path


def placed(content: bytes, link: Callable[[Line], str]) -> list[dict[str, str]]:
    """The points in a figure's CSV file that have a position in its picture.

    Args:
        content: the file; points with a position have the columns ``plot_left``, ``plot_top`` and ``plot_says``.
        link: maps a row to the link of its point, "" for none.

    Returns:
        For each point ``left`` and ``top`` in percent of the picture, ``says`` and ``href``.
    """
    rows = csv.DictReader(io.StringIO(content.decode("utf-8"), newline=""))
    return [
        {
            "left": f"{100 * float(row['plot_left']):.4g}",
            "top": f"{100 * float(row['plot_top']):.4g}",
            "says": row["plot_says"] + _run_note(row),
            "href": link(row),
        }
        for row in rows
        if row.get("plot_left")
    ]


def has_runs(content: bytes) -> bool:
    """Whether a figure's CSV file has a point of a run in a series."""
    rows = csv.DictReader(io.StringIO(content.decode("utf-8"), newline=""))
    return any(row.get("runs") and row.get("series") for row in rows)


def first_run(row: Line) -> str:
    """The folder of the first run behind a point, "" if there is none."""
    return next(iter(row.get("runs", "").split()), "")


def _run_note(row: Line) -> str:
    """The first run behind a point, below the folder of its study, which the page names."""
    runs = row.get("runs", "").split()
    more = f" and {len(runs) - 1} more" if len(runs) > 1 else ""
    return f". Run: {runs[0].split('/', 2)[-1]}{more}" if runs else ""
