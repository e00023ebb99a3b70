"""The settings and inputs of a step; accessing a missing name raises an error of one line.

Standard library only.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any


class Missing(KeyError):
    """A step needs a setting or an input that is not on the command line."""

    def __str__(self) -> str:
        return str(self.args[0])  # without the quotes that KeyError adds


class Settings(dict[str, Any]):
    """The settings of a step, at every depth; looking up a missing key raises `Missing` with the key's path."""

    def __init__(self, values: Mapping[str, Any], step: str, above: str = "") -> None:
        super().__init__({key: _settings(value, step, f"{above}{key}") for key, value in values.items()})
        self._step, self._above = step, above

    def __missing__(self, key: str) -> Any:
        found = ", ".join(self) or "none"
        place = f" in {self._above.rstrip('.')}" if self._above else ""
        raise Missing(
            f"--settings: the key {self._above}{key} is missing; found{place}: {found}; {_allowed(self._step)}"
        )


class Inputs(dict[str, list[Path]]):
    """The input files of a step by name; looking up a missing name raises `Missing`."""

    def __init__(self, values: Mapping[str, list[Path]], step: str) -> None:
        super().__init__(values)
        self._step = step

    def __missing__(self, name: str) -> list[Path]:
        found = ", ".join(self) or "none"
        raise Missing(f"--input {name} FILE is missing; found: {found}; {_allowed(self._step)}")


def _settings(value: Any, step: str, path: str) -> Any:
    if isinstance(value, dict):
        return Settings(value, step, f"{path}.")
    if isinstance(value, list):
        return [_settings(one, step, f"{path}[{at}]") for at, one in enumerate(value)]
    return value


def _allowed(step: str) -> str:
    return f"`relearn {step} --help` names what is allowed"
