"""A record folder of any study, written through the record API, with numbers that a test chooses."""

import csv
import functools
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

from relearn.runs import provenance
from relearn.runs.record import Run
from relearn.studies.study import load

#: hundreds of records are of one version, which is asked for once
VERSION = {"code": functools.cache(provenance.code), "packages": functools.cache(provenance.packages)}


def text_of(rows: Sequence[Mapping[str, Any]]) -> bytes:
    """Rows as a CSV file."""
    out = io.StringIO()
    table = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
    table.writeheader()
    table.writerows({key: "" if value is None else value for key, value in row.items()} for row in rows)
    return out.getvalue().encode()


def write_run(
    root: Path,
    step: str,
    labels: Mapping[str, str],
    metrics: Mapping[str, float | None],
    files: Mapping[str, bytes | Sequence[Mapping[str, Any]]] | None = None,
    *,
    study: str,
    place: str | None = None,
    seed: int = 0,
    scale: str = "mini",
    settings: Mapping[str, Any] | None = None,
    rows: Iterable[Mapping[str, Any]] = (),
    outcome: str = "ok",
    **more: Any,
) -> Path:
    """One record below ``root/runs/<study>/<step>/<place>/seed<seed>``; without a place, its labels are the folders.

    ``rows`` are the trials; ``more`` goes to `Run.finish`. A metric that is None is not a number.
    """
    place = "/".join(labels.values()) if place is None else place
    out = root / "runs" / study / step / place / f"seed{seed}"
    named = {"study": study, "paper": load(study).paper, "step": step, "labels": labels, "scale": scale}
    with (
        mock.patch.multiple(provenance, **VERSION),
        Run(out, **named, seed=seed, settings=dict(settings or {})) as run,
    ):
        for name, content in (files or {}).items():
            run.output(name).write_bytes(content if isinstance(content, bytes) else text_of(content))
        rows, failed = list(rows), outcome != "ok"
        run.finish(
            {name: math.nan if value is None else value for name, value in metrics.items()},
            trials=(list(rows[0]), [list(row.values()) for row in rows]) if rows else None,
            outcome=outcome,
            outcome_step=3 if failed else None,
            outcome_reason="loss not finite" if failed else None,
            **more,
        )
    return out
