"""The settings and inputs of a step; a wrong setting or a missing input raises an error of one line.

Standard library only.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from relearn.runs.settings import read


class Missing(KeyError):
    """A step needs an input that is not on the command line."""

    def __str__(self) -> str:
        return str(self.args[0])  # without the quotes that KeyError adds


class Inputs(dict[str, list[Path]]):
    """The input files of a step by name; looking up a missing name raises `Missing`."""

    def __init__(self, values: Mapping[str, list[Path]], step: str) -> None:
        super().__init__(values)
        self._step = step

    def __missing__(self, name: str) -> list[Path]:
        found = ", ".join(self) or "none"
        raise Missing(f"--input {name} FILE is missing; found: {found}; {_allowed(self._step)}")


def settings_of(step: ModuleType, values: Mapping[str, Any], words: str) -> Any:
    """Return the settings of a step as its dataclass, ``step.Settings``.

    Raises:
        ValueError: a key is missing or unknown, or a value has another type; see :func:`relearn.runs.settings.read`.
    """
    try:
        return read(step.Settings, values)
    except ValueError as error:
        raise ValueError(f"--settings: {error}; {_allowed(words)}") from None


def _allowed(step: str) -> str:
    return f"`relearn {step} --help` names what is allowed"
