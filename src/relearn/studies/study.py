"""What a study is to the rest of the house: its paper, its steps, and where its parameters, plan, claims and published numbers lie."""

from __future__ import annotations

from collections.abc import Mapping
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
        name: its key in STUDIES, its section of params.yaml, and its folder below ``runs/``.
        paper: key of the publication.
        title: what the study is about, for headings.
        chapter: where in the publication it stands; "" for the whole.
        steps: command to module: ``relearn <study> <command>`` calls the module's ``run``.
        figures: renderer named in ``reported/figures.yaml`` to module.
    """

    name: str
    paper: str
    title: str
    chapter: str
    steps: Mapping[str, str]
    figures: Mapping[str, str] = field(default_factory=dict)

    @property
    def source(self) -> str:
        """The publication, with the chapter where there is one."""
        return f"{self.paper}, {self.chapter}" if self.chapter else self.paper

    @property
    def reported(self) -> Path:
        """The folder of the published numbers and of what is rendered beside them."""
        return SHARED / self.name / "reported"

    def part(self, name: str) -> ModuleType:
        """One of the study's modules: ``params``, ``plan`` or ``claims``."""
        return import_module(f"relearn.studies.{self.name}.{name}")


@cache
def load(name: str) -> Study:
    """The study of this name.

    Raises:
        ValueError: no such study.
    """
    if name not in STUDIES:
        raise ValueError(f"study: found {name}, allowed: {', '.join(STUDIES)}")
    module, _, variable = STUDIES[name].partition(":")
    study: Study = getattr(import_module(module), variable)
    return study


def all_studies() -> list[Study]:
    """Every study, in the order of STUDIES."""
    return [load(name) for name in STUDIES]
