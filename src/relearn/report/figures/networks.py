"""How much smaller the networks behind a figure are than those whose names they carry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from relearn.report.quantities import Evidence
from relearn.report.runs import Run

NAMING = ("network", "victim", "architecture")  # labels that name a network
SHARES = ("width", "depth")  # settings: of the published network's


def sizes(points: Sequence[Mapping[str, Any]], evidence: Evidence) -> str:
    """``networks at 0.125 of the width that their names stand for``; "" where they are whole, or where no run says it."""
    folders = {folder for point in points for folder in str(point.get("runs") or "").split()}
    named = {name for run in evidence.runs if run.folder in folders for name in _names(run)}
    made = [_made(run) for run in evidence.runs if _names(run) & named]
    told = []
    for share in SHARES:
        values = sorted({float(one[share]) for one in made if isinstance(one.get(share), int | float)})
        if values and values[0] < 1:
            ends = dict.fromkeys((values[0], values[-1]))
            told.append(f"{' to '.join(f'{value:g}' for value in ends)} of the {share}")
    return f"networks at {' and '.join(told)} that their names stand for" if told else ""


def _names(run: Run) -> set[str]:
    return {run.labels[label] for label in NAMING if label in run.labels}


def _made(run: Run) -> Mapping[str, Any]:
    network = run.settings.get("network")
    if isinstance(network, Mapping):
        return network if "name" in network and "embed_dim" not in network else {}
    return run.settings
