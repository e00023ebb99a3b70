"""A run of one step, from settings to a record that is checked."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

from relearn.runs import record


def step(module: Any, out: Path, settings: dict, labels: dict, *, seed: int = 0, **inputs: Path) -> dict:
    given = {name: [path] for name, path in inputs.items()}
    name = module.__name__.rpartition(".")[2]
    what: dict[str, Any] = {"study": "gradinit", "paper": "zhu2022", "step": name, "scale": "mini"}
    with record.Run(out, **what, labels=labels, seed=seed, settings=settings, inputs=given) as one:
        module.run(one, settings, given, "cpu", "fp32")
    done = record.read(out)
    assert record.verify_outputs(done) == []
    return done


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))
