"""One file a figure: ``points`` gathers what is plotted, ``draw`` plots nothing else; the points stay as CSV.

What a point holds under ``pictures`` is drawn and not written. Figures are byte-stable: equal points give
equal files. ``BARS`` of a file says what its bars and bands are; the line below the figure shows it.
"""

from __future__ import annotations

import importlib
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from relearn.report.artefacts import Artefact
from relearn.report.figures import foot
from relearn.report.quantities import Evidence

PHOTOGRAPH = 2**14
"""Colours of a picture from which on it is a photograph: lines with smooth edges have a few thousand."""


def render(artefact: Artefact, evidence: Evidence, renderers: Mapping[str, str], folder: Path) -> list[Path]:
    """Write ``<id>.csv``, ``<id>.png`` and ``<id>.pdf`` of one figure.

    Args:
        renderers: name to module, of the figure's study.

    Raises:
        ValueError: a renderer that does not exist.
    """
    if artefact.renderer is None or artefact.renderer not in renderers:
        allowed = ", ".join(renderers)
        raise ValueError(f"{artefact.id}: found renderer {artefact.renderer}, allowed: {allowed}")
    module = importlib.import_module(renderers[artefact.renderer])
    points = module.points(artefact, evidence)
    figure = module.draw(artefact, points)
    foot.write(figure, foot.words(artefact, points, getattr(module, "BARS", "")))
    folder.mkdir(parents=True, exist_ok=True)
    return [
        write_points(points, module.FIELDS, folder / f"{artefact.id}.csv"),
        *save(figure, folder / artefact.id),
    ]


def save(figure: Any, stem: Path) -> list[Path]:
    """PNG and PDF without dates and versions inside; the PNG has a palette, unless it shows photographs."""
    import matplotlib
    from PIL import Image

    png, pdf = (stem.with_name(f"{stem.name}.{kind}") for kind in ("png", "pdf"))
    drawn = io.BytesIO()
    with matplotlib.rc_context({"pdf.fonttype": 42, "svg.hashsalt": stem.name}):
        figure.savefig(drawn, format="png", dpi=160)
        figure.savefig(pdf, metadata={"CreationDate": None, "Creator": None, "Producer": None})
    image = Image.open(drawn).convert("RGB")
    if image.getcolors(PHOTOGRAPH) is not None:
        image = image.quantize(256, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
    image.save(png, optimize=True)
    return [png, pdf]


def write_points(points: Sequence[dict[str, Any]], fields: Sequence[str], path: Path) -> Path:
    """What is plotted as CSV: a line a point, nothing for None."""
    import csv

    with path.open("w", encoding="utf-8", newline="") as file:
        shown = [name for name in fields if name != "pictures"]
        table = csv.DictWriter(file, shown, lineterminator="\n", extrasaction="ignore")
        table.writeheader()
        table.writerows({name: "" if value is None else value for name, value in p.items()} for p in points)
    return path
