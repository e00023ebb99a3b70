"""What all figures of the report are tested for: points of all fields, panels, counted cells, equal bytes, nothing covered."""

import importlib
from pathlib import Path
from types import ModuleType
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text

from relearn.report import coverage, figures
from relearn.report.artefacts import Artefact
from relearn.report.quantities import Evidence

from .conftest import RENDERERS, every_artefact


def points_of(name: str, evidence: Evidence) -> list[dict[str, Any]]:
    """The points of this figure, from the runs of its own study."""
    artefact = every_artefact()[name]
    own = Evidence(run for run in evidence.runs if run.study == artefact.study)
    return list(module_of(name).points(artefact, own))


def drawn_of(name: str, evidence: Evidence) -> Figure:
    drawn: Figure = module_of(name).draw(every_artefact()[name], points_of(name, evidence))
    return drawn


def module_of(name: str) -> ModuleType:
    """The renderer of this figure."""
    return importlib.import_module(RENDERERS[every_artefact()[name].renderer])


def rendered(artefact: Artefact, evidence: Evidence, folder: Path) -> list[Path]:
    """The files of one figure, with the renderer that its study has for it."""
    return figures.draw(figures.prepare(artefact, evidence, RENDERERS), folder)


def words(drawn: Figure) -> list[str]:
    return [text.get_text() for text in drawn.findobj(lambda item: hasattr(item, "get_text"))]


def labels(drawn: Figure) -> list[str]:
    return [text.get_text() for legend in drawn.legends for text in legend.get_texts()]


def check_panels(name: str, evidence: Evidence, panels: int, *, gaps: int) -> None:
    """So many panels, and so many of them say that nothing was run; the points have the renderer's fields."""
    assert all(set(point) == set(module_of(name).FIELDS) for point in points_of(name, evidence))
    drawn = drawn_of(name, evidence)
    assert len([axes for axes in drawn.axes if axes.get_visible()]) == panels
    assert words(drawn).count("not run") == gaps


def check_nothing_is_covered(drawn: Figure) -> None:
    """Legends and titles cover no panel and no other one, and stay on the page."""
    FigureCanvasAgg(drawn).draw()
    areas = [axes.get_window_extent() for axes in drawn.axes]
    outside = [legend.get_window_extent() for legend in drawn.legends]
    for axes in drawn.axes:
        title = axes.get_title(loc="left")
        outside += [t.get_window_extent() for t in axes.findobj(Text) if title and t.get_text() == title]
        outside += [axes.get_legend().get_window_extent()] if axes.get_legend() else []
    for at, box in enumerate(outside):
        assert not any(box.overlaps(area) for area in areas)
        assert not any(box.overlaps(other) for other in outside[at + 1 :])
        assert box.x0 >= 0 and box.x1 <= drawn.bbox.width and box.y0 >= 0


def check_cells(name: str, whole: Evidence, nothing: Evidence, measured: int, defined: int) -> None:
    """So many cells are measured, of so many; without runs none is."""
    found = coverage.cover(every_artefact()[name], whole)
    assert (found.measured, found.defined) == (measured, defined)
    assert coverage.cover(every_artefact()[name], nothing).measured == 0


def check_figure(
    name: str, whole: Evidence, nothing: Evidence, sizes: tuple[int, int], cells: tuple[int, int]
) -> None:
    """Panels without runs and with them, cells measured and defined; each panel says where nothing was run."""
    check_panels(name, nothing, sizes[0], gaps=sizes[0])
    check_panels(name, whole, sizes[1], gaps=0)
    check_nothing_is_covered(drawn_of(name, whole))
    check_cells(name, whole, nothing, *cells)


def check_equal_files(name: str, evidence: Evidence, folder: Path) -> None:
    """Equal records give files of equal bytes. All figures are saved alike, so one of each study is enough."""
    one, other = (rendered(every_artefact()[name], evidence, folder / again) for again in ("a", "b"))
    assert [path.suffix for path in one] == [".csv", ".png", ".pdf"]
    for first, second in zip(one, other, strict=True):
        assert first.read_bytes() == second.read_bytes() and first.stat().st_size > 300
