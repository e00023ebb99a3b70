"""Where the report's files lie: what the page shows as a picture, and what it links."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from pathlib import Path

from relearn.report.artefacts import Artefact


@dataclass(frozen=True)
class Layout:
    """One of two folders: that of a pipeline with its runs, or a published set, in which Parquet files hold the runs.

    Attributes:
        published: the tables lie in one file of each kind, and no folder of a run can be linked.
        embedded: the page holds its figures itself, so that it can be sent as one file.
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
        """What the page links below an artefact: its raw numbers, and its other formats."""
        if self.published:
            table = artefact.kind == "table"
            return [f"tables.md#{artefact.id}", "tables.parquet"] if table else ["figures.parquet"]
        if artefact.kind == "table":
            return [f"tables/{artefact.id}{kind}" for kind in (".csv", f".{artefact.over}s.csv", ".tex")]
        return [f"figures/{artefact.id}{kind}" for kind in (".csv", ".pdf")]

    def run(self, folder: str) -> str:
        """The link to a run's record, empty where there is none to link."""
        return "" if self.published else f"{folder}/record.json"


PIPELINE = Layout()
"""What `relearn render` writes into ``results/<scale>``."""
