"""How much smaller the networks behind a figure are than those whose names they carry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from relearn.report.quantities import Evidence
from relearn.report.runs import Run

NAMING = ("network", "victim", "architecture", "variant")  # labels that name a network
SHARES = ("width", "depth")  # settings: of the published network's
CHANNELS = "embed_dim"  # a setting of vision Transformers; whole networks do not set it


def sizes(points: Sequence[Mapping[str, Any]], evidence: Evidence) -> str:
    """``networks at 0.125 of the width that their names stand for``; "" where they are whole, or where no run says it."""
    folders = {folder for point in points for folder in str(point.get("runs") or "").split()}
    named = {name for run in evidence.runs if run.folder in folders for name in _names(run)}
    made = [_made(run) for run in evidence.runs if _names(run) & named]
    told = []
    for share in SHARES:
        values = _values(made, share)
        if values and values[0] < 1:
            told.append(f"{_range(values)} of the {share}")
    said = [f"networks at {' and '.join(told)} that their names stand for"] if told else []
    if channels := _values(made, CHANNELS):
        said.append(f"networks of the named kinds, with {_range(channels)} channels in their first stage")
    return "; ".join(said)


def _values(made: list[Mapping[str, Any]], name: str) -> list[float]:
    return sorted({float(one[name]) for one in made if isinstance(one.get(name), int | float)})


def _range(values: list[float]) -> str:
    return " to ".join(f"{value:g}" for value in dict.fromkeys((values[0], values[-1])))


def _names(run: Run) -> set[str]:
    return {run.labels[label] for label in NAMING if label in run.labels}


def _made(run: Run) -> Mapping[str, Any]:
    network = run.settings.get("network")
    if not isinstance(network, Mapping):
        return run.settings
    return {name: network[name] for name in (*SHARES, CHANNELS) if name in network and _share(name, network)}


def _share(name: str, network: Mapping[str, Any]) -> bool:
    """A depth beside a number of channels counts blocks."""
    return name == CHANNELS or CHANNELS not in network
