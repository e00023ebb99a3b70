"""The public description of a study: its paper and steps, and where to find its parameters, plan, claims and published numbers."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType

from relearn.studies import STUDIES

SHARED = Path(__file__).parent  # the folder that holds the studies


@dataclass(frozen=True)
class Study:
    """One study.

    Args:
        name: its key in STUDIES, the name of its section of params.yaml, and its folder below ``runs/``.
        paper: key of the publication.
        title: topic of the study, for headings.
        chapter: chapter of the publication; "" for the whole publication.
        steps: command to module; ``relearn <study> <command>`` calls the module's ``run``.
        figures: name of the renderer in ``reported/figures.yaml`` to module.
        unpublished: step to files of its runs that no table, figure or claim reads; ``relearn publish`` leaves them out, like weights.
            Each is a name or the end of a path, with ``*`` for any part.
    """

    name: str
    paper: str
    title: str
    chapter: str
    steps: Mapping[str, str]
    figures: Mapping[str, str] = field(default_factory=dict)
    unpublished: Mapping[str, Collection[str]] = field(default_factory=dict)

    @property
    def source(self) -> str:
        """The key of the publication, with the chapter if there is one."""
        return f"{self.paper}, {self.chapter}" if self.chapter else self.paper

    @property
    def reported(self) -> Path:
        """The folder of the published numbers and of the definitions of tables, figures and claims."""
        return SHARED / self.name / "reported"

    def part(self, name: str) -> ModuleType:
        """Import one of the study's modules, e.g. ``params``, ``plan`` or ``claims``."""
        return import_module(f"relearn.studies.{self.name}.{name}")


def steps_of(study: str, *names: str) -> dict[str, str]:
    """The module of each command: the study's own step of this name, otherwise the one that studies share."""
    own = {path.stem for path in (SHARED / study / "steps").glob("*.py")}
    return {
        name: f"relearn.studies.{study}.steps.{name}" if name in own else f"relearn.steps.{name}"
        for name in names
    }


def figures_of(study: str, *names: str) -> dict[str, str]:
    """The module of each renderer of the study."""
    return {name: f"relearn.studies.{study}.figures.{name}" for name in names}


@cache
def load(name: str) -> Study:
    """The study with this name.

    Raises:
        ValueError: there is no such study.
    """
    if name not in STUDIES:
        raise ValueError(f"study: found {name}, allowed: {', '.join(STUDIES)}")
    module, _, variable = STUDIES[name].partition(":")
    study: Study = getattr(import_module(module), variable)
    return study


def all_studies() -> list[Study]:
    """Every study, in the order of STUDIES."""
    return [load(name) for name in STUDIES]
