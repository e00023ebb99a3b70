"""The files of one published scale: claims, tables, coverage, deviations, figures and runs."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from relearn.report import claims_file, figures, published_set, runs
from relearn.report.deviations import AS_ABOVE
from relearn.report.runs import Run

SPLIT = re.compile(r"(?<!\\)\|")


@dataclass(frozen=True)
class Table:
    """A table of ``tables/<id>.md``: title, header, rows as text and caption."""

    title: str
    header: list[str]
    lines: list[list[str]]
    caption: str


@dataclass(frozen=True)
class Published:
    """A folder ``results/published/<scale>``; anything missing in it is empty here."""

    scale: str
    folder: Path
    runs: tuple[Run, ...] = field(default=())

    @cached_property
    def content(self) -> dict[str, Any]:
        """The content of claims.json.

        Raises:
            RecordError: it is damaged; one line.
        """
        path = self.folder / "claims.json"
        return claims_file.read(path) if path.is_file() else {"claims": []}

    @property
    def claims(self) -> dict[tuple[str, str], dict[str, Any]]:
        """The entries of claims.json by study and id."""
        return {(one["section"], one["id"]): one for one in self.content["claims"]}

    @cached_property
    def coverage(self) -> dict[str, tuple[int, int]]:
        """By artefact, the numbers of measured and defined cells."""
        path = self.folder / "coverage.csv"
        if not path.is_file():
            return {}
        with path.open(encoding="utf-8", newline="") as file:
            return {
                row["artefact"]: (int(row["cells_measured"]), int(row["cells_defined"]))
                for row in csv.DictReader(file)
            }

    @cached_property
    def tables(self) -> dict[str, Table]:
        """The tables by artefact, from separate files or from ``tables.md``."""
        texts = [path.read_text(encoding="utf-8") for path in sorted(self.folder.glob("tables/*.md"))]
        together = self.folder / "tables.md"
        if together.is_file():
            texts += re.split(r"\n(?=#+ [\w.]+: )|\n<a id=.*\n", together.read_text(encoding="utf-8"))
        return dict(filter(None, map(table, texts)))

    @cached_property
    def deviations(self) -> list[tuple[str, ...]]:
        """Key, value here, published value and source of each row of deviations.md, whose headings begin the keys."""
        path = self.folder / "deviations.md"
        found: list[tuple[str, ...]] = []
        above = ""
        for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else []:
            if line.startswith("#"):
                above = line.removeprefix("### ")
            elif len(cells := _cells(line)) == 4 and cells[0] != "key" and set(cells[0]) != {"-"}:
                source = found[-1][-1] if cells[3] == AS_ABOVE else cells[3]
                key = cells[0] if cells[0] == above else f"{above}.{cells[0]}"
                found.append((key, cells[1], cells[2], source))
        return found

    @cached_property
    def plotted(self) -> dict[str, bytes]:
        """The CSV files of the figures, by name."""
        return published_set.csv_files(self.folder, "figures")

    def marks(self, figure: str, link: Callable[[figures.Line], str] = lambda _: "") -> list[dict[str, str]]:
        """The points of a figure, as from :func:`relearn.report.figures.placed`."""
        content = self.plotted.get(f"{figure}.csv")
        return figures.placed(content, link) if content else []

    def figure(self, artefact: str) -> Path | None:
        path = self.folder / "figures" / f"{artefact}.png"
        return path if path.is_file() else None


def load(folders: Iterable[tuple[str, Path]]) -> list[Published]:
    """The scales with their runs; records that cannot be used are left out (`relearn render` lists them)."""
    return [Published(scale, folder, tuple(runs.load(folder, scale)[0])) for scale, folder in folders]


def table(text: str) -> tuple[str, Table] | None:
    """Id and table of a page ``# id: title``; None if it holds no table."""
    head = re.match(r"\s*(?:<a [^>]*></a>\s*)?#+ ([\w.]+): (.*)", text)
    lines = [cells for line in text.splitlines() if (cells := _cells(line))]
    if not head or len(lines) < 2:
        return None
    after = text[text.rindex("|") + 1 :].strip()
    return head[1], Table(
        head[2].strip(), list(lines[0]), [list(line) for line in lines[2:]], " ".join(after.split())
    )


def _cells(line: str) -> tuple[str, ...]:
    if not line.startswith("|"):
        return ()
    return tuple(cell.strip().replace("\\|", "|") for cell in SPLIT.split(line.strip()[1:-1]))
