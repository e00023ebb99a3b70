"""The MLflow run with the rendered results of one scale: verdicts, effects, cells, figures and report.

Standard library only; everything is read from the rendered files.
"""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from relearn.runs import spool
from relearn.runs.atomic_files import digest
from relearn.tracking import names
from relearn.tracking.note import NOTE
from relearn.tracking.run_view import Tracked

PAGES = (
    "report.html",
    "claims.md",
    "tables.md",
    "claims.json",
    "coverage.csv",
    "deviations.md",
    "settings.md",
    "metrics.json",
)
TOLD = """\
What relearn rendered at this scale. Tags `claim/…` are the verdicts, metrics `effect/…`, `low/…`, `high/…` each claim's effect with
its 95% interval, `measured/…`, `published/…` and `deviation/…` the cells of the tables. Artifacts: report.html, figures, tables."""


def report(root: Path) -> Tracked | None:
    """The MLflow run of the last rendering in `root` (``results/<scale>``); None before the first one.

    Raises:
        ValueError: a rendered file is damaged; one line.
    """
    file = root / "claims.json"
    try:
        return _report(root, file)
    except OSError:  # none yet, or another one takes its place
        return None
    except (csv.Error, LookupError, TypeError, ValueError) as error:
        kind = type(error).__name__
        raise ValueError(
            f"{file}: it or a table beside it is damaged ({kind}: {error}), allowed: as `relearn render` writes them"
        ) from None


def _report(root: Path, file: Path) -> Tracked:
    judged = json.loads(file.read_bytes())
    at = file.stat().st_mtime
    scale, claims = str(judged["scale"]), judged["claims"]
    counts = Counter(claim["verdict"] for claim in claims if claim["kind"] != "check")
    numbers = {f"verdicts/{word}_count": float(count) for word, count in counts.items()}
    numbers |= dict(_effects(claims)) | dict(_coverage(root / "coverage.csv")) | _cells(root / "tables")
    started = datetime.fromtimestamp(at, UTC).isoformat()
    return Tracked(
        id=f"report {scale}",
        started=started,
        experiment=f"report ({scale})",
        name=f"claims, tables and figures ({scale})",
        status=spool.FINISHED,
        start_ms=int(at * 1000),
        end_ms=int(at * 1000),
        tags={
            "scale": scale,
            "kind": "report",
            "verdicts": ", ".join(
                f"{count} {word.replace('_', ' ')}" for word, count in counts.most_common()
            ),
            **{f"claim/{one['section']}/{one['id']}": _verdict(one) for one in claims},
            "mlflow.source.name": "relearn render",
            "mlflow.source.type": "LOCAL",
            NOTE: TOLD,
        },
        params={"scale": scale},
        inputs=[],
        lines=None,
        story=None,
        finals=numbers,
        files=list(_files(root)),
        record_sha=digest(file),
    )


def _verdict(claim: Mapping[str, Any]) -> str:
    return f"{claim['verdict']}{' (provisional)' if claim['provisional'] else ''}"


def _effects(claims: list[dict[str, Any]]) -> Iterator[tuple[str, float]]:
    for claim in claims:
        for key in ("effect", "low", "high"):
            if claim.get(key) is not None:
                name = f"{key}/{claim['section']}/{claim['id']}"
                yield names.with_unit(name, claim["unit"]), float(claim[key])


def _coverage(file: Path) -> Iterator[tuple[str, float]]:
    if file.is_file():
        with file.open(encoding="utf-8", newline="") as lines:
            published = [line for line in csv.DictReader(lines) if line["addition"] == "0"]
        for key in ("cells_measured", "cells_defined"):
            yield f"coverage/{key}_count", float(sum(int(line[key]) for line in published))


def _cells(folder: Path) -> dict[str, float]:
    """Metrics of all cells that have a measured and a published value."""
    found: dict[tuple[str, str, str, str], tuple[float, float, float | None]] = {}
    for file in sorted(folder.glob("*.csv")):
        with file.open(encoding="utf-8", newline="") as lines:
            table = csv.DictReader(lines)
            if "artefact" not in (table.fieldnames or ()):
                continue  # a file of the user's own
            for line in table:
                beside = "member" not in line and (line["paper"] or line["published_code"])
                if beside and line["mean"]:
                    name = (line["artefact"], line["row"], line["column"], line["unit"])
                    away = line.get("deviation")
                    found[name] = (float(line["mean"]), float(beside), float(away) if away else None)
    return names.cells(found)


def _files(root: Path) -> Iterator[tuple[Path, str]]:
    """The artifacts: the report and the lists at the top, figures and tables in folders; MLflow's page previews them."""
    yield from ((root / name, "") for name in PAGES if (root / name).is_file())
    yield from ((path, "figures") for path in sorted((root / "figures").glob("*.png")))
    folder = root / "tables"
    for path in sorted([*folder.glob("*.csv"), *folder.glob("*.md")]):
        if path.with_suffix(".md").is_file():  # a file with a table's members has none
            yield path, "tables"
