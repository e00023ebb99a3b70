"""summary.json of a driver's run, and a table of it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from relearn.runs import record
from relearn.runs.node.jobs_file import NodeJob

NAME = Path("summary.json")
COLUMNS = ("done", "failed", "stopped", "left", "wall_s", "device_s", "peak_mb")


def write(
    jobs: Sequence[NodeJob],
    done: Sequence[NodeJob],
    failed: Mapping[str, str],
    stopped: set[str],
    wall_s: float,
    devices_mb: Sequence[int],
) -> Path:
    """Write summary.json: counts and cost by study and step, and the failures with their last line; return its path.

    ``wall_s`` and ``device_s`` of a step are sums over its records, including those of earlier calls; ``peak_mb`` is the largest peak
    of any of its jobs.
    """
    steps: dict[str, dict[str, float]] = {}
    finished = {job.record for job in done}
    for job in jobs:
        row = steps.setdefault(f"{job.study} {job.step}", dict.fromkeys(COLUMNS, 0))
        kind = "done" if job.record in finished else "failed" if job.record in failed else "left"
        row[kind if job.record not in stopped or kind == "done" else "stopped"] += 1
        if job.record in finished:
            cost = record.read(job.record)["cost"]
            row["wall_s"] += cost["wall_s"]
            row["device_s"] += cost["device_s"] or 0.0
            row["peak_mb"] = max(row["peak_mb"], cost["peak_memory_bytes"] / 1e6)
    labels = {job.record: job.label for job in jobs}
    found: dict[str, Any] = {
        "wall_s": round(wall_s, 1),
        "devices_mb": list(devices_mb),
        "steps": {name: {key: round(value, 1) for key, value in row.items()} for name, row in steps.items()},
        "failed": {labels[path]: line for path, line in failed.items()},
    }
    NAME.write_text(json.dumps(found, indent=1) + "\n")
    return NAME


def text(path: Path) -> str:
    """The table of summary.json."""
    found = json.loads(path.read_text())
    width = max(map(len, found["steps"]), default=4)
    lines = [f"{'step':{width}} " + " ".join(f"{name:>8}" for name in COLUMNS)]
    for name, row in found["steps"].items():
        lines.append(f"{name:{width}} " + " ".join(f"{row[column]:8.0f}" for column in COLUMNS))
    lines += [f"FAILED {label}: {line}" for label, line in found["failed"].items()]
    lines.append(f"wall {found['wall_s']:.0f} s, CUDA devices: {len(found['devices_mb'])}")
    return "\n".join(lines)
