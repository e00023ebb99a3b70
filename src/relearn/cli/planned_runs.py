"""Planned runs that have no numbers yet, in the form that the report reads.

A claim or a figure is evaluated on them, and they record which of them were read. It is evaluated twice: once with no
numbers, once with every number equal to 1, because some read further runs only if numbers exist.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from relearn.report.quantities import Evidence
from relearn.report.runs import Run
from relearn.report.views.names import plural
from relearn.runs.run_store import is_store
from relearn.studies import STUDIES
from relearn.studies.study import load

if TYPE_CHECKING:
    from relearn.report.claims import Section
    from relearn.report.designs import Design
    from relearn.studies.family import Family
    from relearn.studies.study import Study


UNPLANNED = "that the parameters no longer plan"


def section_of(study: Study, scale: str, planned: Mapping[str, Design]) -> Section:
    """How the claims of a study are judged at a scale, given its designs by claim."""
    from relearn.report import claims, designs

    part = study.part("claims")
    return claims.Section(part.PREDICATES, part.power, designs.looks(planned, scale))


class PlannedRun(Run):
    """One planned run: it has labels and settings; every number of it equals ``value``, or is absent if that is None."""

    def __init__(self, family: Family, cell: Mapping[str, str]) -> None:
        labels = {name: value for name, value in cell.items() if name != "seed"}
        self.path = family.files["record"].format(**cell)
        self.asked = False
        self.value: float | None = None
        known = {
            "study": family.study,
            "step": family.step,
            "labels": family.labels_of(**labels),
            "seed": cell.get("seed", 0),
            "path": str(Path(self.path).parent),
        }
        super().__init__(_Record(self, known), self.path.removesuffix("/record.json"))
        self._settings: Callable[[], Mapping[str, Any]] = lambda: family.settings_of(**labels)

    @property
    def settings(self) -> Mapping[str, Any]:
        return self._settings()

    @property
    def metrics(self) -> Mapping[str, float | None]:
        self.asked = True
        return _Any(self.value)

    @property
    def outcome(self) -> str:
        self.asked = True
        return "done"

    @cached_property
    def machine(self) -> str:
        return ""

    @property
    def trials(self) -> list[dict[str, Any]]:
        return self.rows("trials.csv")

    def rows(self, name: str) -> list[dict[str, Any]]:
        self.asked = True
        return [] if self.value is None else [_Any(self.value)]


class _Record(dict[str, Any]):
    """The fields of a run known before it is made; other fields default to those of a run without events."""

    def __init__(self, run: PlannedRun, known: Mapping[str, Any]) -> None:
        super().__init__(known)
        self.run = run

    def __missing__(self, key: str) -> Any:
        self.run.asked = True
        made: dict[str, Any] = {"outcome": "done", "notes": [], "metrics": self.run.metrics}
        return made.get(key, {"knowledge": "black_box"})


class _Any(dict[str, Any]):
    """A mapping that has the same value under every name."""

    def __init__(self, value: float | None) -> None:
        super().__init__()
        self.value = value

    def __missing__(self, name: str) -> float | None:
        return self.value

    def get(self, name: str, default: Any = None) -> Any:
        return default if self.value is None else self.value


def planned(families: Iterable[Family]) -> list[PlannedRun]:
    """Every run of these families."""
    return [PlannedRun(family, cell) for family in families for cell in family.runs]


def asked_by(call: Callable[[Evidence], Any], runs: list[PlannedRun]) -> tuple[list[PlannedRun], bool]:
    """The runs whose numbers ``call`` reads, and whether this is known run by run.

    If ``call`` fails both times, all runs of the steps that it read count, or all runs if it read none.
    """
    failures = 0
    for value in (None, 1.0):
        for run in runs:
            run.value = value
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the mean of nothing
                call(Evidence(runs))
        except Exception:
            failures += 1
    asked = {run.path for run in runs if run.asked}
    steps = {run.step for run in runs if run.asked}
    for run in runs:
        run.asked = False
    if failures < 2:
        return [run for run in runs if run.path in asked], True
    return [run for run in runs if run.step in steps or not steps], False


def still_planned(runs: Sequence[Run], values: Mapping[str, Any], source: Path) -> tuple[list[Run], str]:
    """The runs below ``source`` that the parameters plan, and a line about the others, such as those of a seed that was taken out.

    Runs of other parameters would count in every mean. A published set keeps its runs, since it does not change with params.yaml.
    """
    if is_store(source):
        return [*runs], ""
    planned = planned_settings(values)
    others = [run.folder for run in runs if planned(run.folder) is None]
    line = f"{plural(len(others), 'run')} {UNPLANNED}, such as {others[0]}" if others else ""
    return [run for run in runs if planned(run.folder) is not None], line


def planned_settings(
    values: Mapping[str, Any], any_seed: bool = False
) -> Callable[[str], Mapping[str, Any] | None]:
    """For these parameters: maps the folder of a run, below the results root, to the settings it would have now; None if unplanned.

    With ``any_seed`` a run is known whatever its seed, since settings do not depend on it.
    """

    def named(folder: str) -> str:
        return re.sub(r"/seed\d+$", "", folder) if any_seed else folder

    known = {
        named(
            f"runs/{family.files['record'].format(**cell).partition('/runs/')[2].removesuffix('/record.json')}"
        ): (family, cell)
        for study in STUDIES
        for family in load(study).part("plan").plan(values, values["scale"]).values()
        for cell in family.runs
    }

    def settings(folder: str) -> Mapping[str, Any] | None:
        if named(folder) not in known:
            return None
        family, cell = known[named(folder)]
        return family.settings_of(**{name: value for name, value in cell.items() if name != "seed"})

    return settings
