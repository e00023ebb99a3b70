"""Location of the report's files: how the page includes its pictures and which files it links."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from pathlib import Path

from relearn.report.artefacts import Artefact


@dataclass(frozen=True)
class Layout:
    """Layout of one of two kinds of folder: a pipeline's results with its runs, or a published set, which stores runs in Parquet.

    Attributes:
        published: all tables are in one file per format, and runs have no folders to link.
        embedded: the page contains its figures, so that it can be sent as a single file.
    """

    published: bool = False
    embedded: bool = False

    def picture(self, root: Path, figure: str) -> str:
        """The ``src`` of a figure: its PNG's path relative to ``root``, or its bytes as a data URI."""
        path = f"figures/{figure}.png"
        if not self.embedded:
            return path
        return f"data:image/png;base64,{base64.b64encode((root / path).read_bytes()).decode('ascii')}"

    def files(self, artefact: Artefact) -> list[str]:
        """The files linked below an artefact: its raw numbers and its other formats."""
        if self.published:
            table = artefact.kind == "table"
            return [f"tables.md#{artefact.id}", "tables.parquet"] if table else ["figures.parquet"]
        if artefact.kind == "table":
            return [f"tables/{artefact.id}{kind}" for kind in (".csv", f".{artefact.over}s.csv", ".tex")]
        return [f"figures/{artefact.id}{kind}" for kind in (".csv", ".pdf")]

    def instead(self, file: str) -> str:
        """The file, if the page links to it instead of repeating it: a published set has each list once."""
        return file if self.published else ""

    def run(self, folder: str) -> str:
        """The link to a run's record; empty if there is none."""
        return "" if self.published else f"{folder}/record.json"


PIPELINE = Layout()
"""What `relearn render` writes into ``results/<scale>``."""
