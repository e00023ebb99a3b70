"""Hand-written explanations of verdicts, shown with them: why a claim was not reproduced at a scale, or how far a reproduced one goes.

The texts are in ``analysis.yaml`` of each study's ``reported`` folder, keyed by claim and scale. Each gives its date, the commit
of the runs it refers to and the verdict it explains; if the verdict has changed since, the text is shown as out of date.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from relearn.report import yaml_file
from relearn.report.claims import Claim

CAUSES = {
    "scale": "the runs are too small",
    "seed": "too few seeds or targets",
    "paper": "the text of the paper",
    "method": "the method itself",
    "rate": "the learning rates that the search has chosen",
    "start": "the initialisation of the weights",
    "setting": "a published setting that does not suit networks of this size",
    "open": "unknown",
    "none": "",  # of a reproduced claim
}
REQUIRED = {"date", "commit", "verdict", "cause", "text"}
KEYS = REQUIRED | {"experiment"}
NONE_WRITTEN = "No analysis is written for this scale."


@dataclass(frozen=True)
class Analysis:
    """One text: ``cause`` is the suspected reason, ``experiment`` the experiment that would test it or has tested it."""

    date: str
    commit: str
    verdict: str
    cause: str
    text: str
    experiment: str = ""


@dataclass(frozen=True)
class Explained:
    """A judged claim with its analysis, if there is one. ``stale``: written for another verdict."""

    claim: Claim
    analysis: Analysis | None

    @property
    def cause(self) -> str:
        """The suspected cause in words; empty without an analysis, and for a reproduced claim."""
        return CAUSES[self.analysis.cause] if self.analysis else ""

    @property
    def origin(self) -> str:
        """Suspected cause, date and commit."""
        if self.analysis is None:
            return ""
        said = f"Suspected cause: {self.cause}; " if self.cause else "Written "
        return f"{said}{self.analysis.date}, commit {self.analysis.commit}"

    @property
    def stale(self) -> bool:
        return self.analysis is not None and self.analysis.verdict != self.claim.verdict


def load(folders: Mapping[str, Path]) -> dict[tuple[str, str, str], Analysis]:
    """All texts of every study's ``analysis.yaml`` by (study, claim, scale): two studies may have a claim of the same name.

    Raises:
        ValueError: naming file, claim and scale, for a missing or unknown key or an unknown cause.
    """
    return {
        (study, *of): text
        for study, folder in folders.items()
        if (folder / "analysis.yaml").is_file()
        for of, text in _texts(folder / "analysis.yaml").items()
    }


def _texts(path: Path) -> dict[tuple[str, str], Analysis]:
    found = {}
    for claim, scales in (yaml_file.read(path) or {}).items():
        for scale, entry in scales.items():
            at = f"{path}: {claim}.{scale}"
            if not REQUIRED <= set(entry) <= KEYS:
                allowed = f"{', '.join(sorted(REQUIRED))}, and experiment"
                raise ValueError(f"{at}: found {', '.join(sorted(entry))}, allowed: {allowed}")
            if entry["cause"] not in CAUSES:
                raise ValueError(f"{at}.cause: found {entry['cause']}, allowed: {', '.join(CAUSES)}")
            found[str(claim), str(scale)] = Analysis(
                **{key: str(value).strip() for key, value in entry.items()}
            )
    return found


def explain(
    claims: Sequence[Claim], texts: Mapping[tuple[str, str, str], Analysis], scale: str
) -> list[Explained]:
    """All claims that were judged and not reproduced, and reproduced ones with a text, in the given order."""
    return [
        Explained(claim, text)
        for claim in claims
        for text in [texts.get((claim.section, claim.id, scale))]
        if claim.parts and (claim.verdict != "reproduced" or text)
    ]


def paragraphs(explained: Sequence[Explained]) -> dict[tuple[str, str], list[str]]:
    """The paragraphs of each analysis by section and id of its claim."""
    return {(one.claim.section, one.claim.id): _paragraphs(one) for one in explained}


def _paragraphs(one: Explained) -> list[str]:
    if one.analysis is None:
        return [NONE_WRITTEN]
    found = [f"Out of date: written for the verdict {one.analysis.verdict}."] if one.stale else []
    found.append(f"Analysis: {one.analysis.text}")
    if one.analysis.experiment:
        found.append(f"Experiment: {one.analysis.experiment}")
    return [*found, f"{one.origin}."]
