"""The input of the site, collected once: studies, published scales, claims, definitions of tables and figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from relearn.report.analysis import Analysis
from relearn.report.artefacts import Artefact
from relearn.report.scoreboard import Row
from relearn.report.site.published import Published
from relearn.report.views.studies import About


@dataclass(frozen=True)
class Site:
    """Everything that the pages show.

    Args:
        root: the repository.
        about: the studies in their order.
        folders: maps a study to its folder.
        drawn_by: maps a study to its renderers, name to module.
        errata: maps a study to its entries by id.
        analyses: by study, claim and scale, why the claim was not reproduced, or how far it was.
        guides: maps files of the repository (docs/ and others) to pages of the site.
    """

    root: Path
    about: Sequence[About]
    folders: Mapping[str, Path]
    drawn_by: Mapping[str, Mapping[str, str]]
    artefacts: Mapping[str, Artefact]
    rows: Sequence[Row]
    scales: Sequence[Published]
    errata: Mapping[str, Mapping[str, Any]]
    analyses: Mapping[tuple[str, str, str], Analysis]
    guides: Mapping[Path, str]

    def of(self, study: str) -> list[Row]:
        return [row for row in self.rows if row.study == study]


def study_page(study: str) -> str:
    return f"studies/{study}/index.md"


def scale_page(study: str, scale: str) -> str:
    return f"studies/{study}/{scale}.md"


def claim_page(row: Row) -> str:
    return f"claims/{row.study}.{row.claim}.md"
