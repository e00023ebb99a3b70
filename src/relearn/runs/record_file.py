"""The record's file: its fields, its checksum, and a reader that verifies both. Standard library only."""

from __future__ import annotations

import csv
import glob
import hashlib
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from relearn.runs.atomic_files import canonical, digest

SCHEMA = 1
NAME = "record.json"
LEFT_BEHIND = "left_behind.json"
"""Beside a record that another machine made: name and sha256 of the artefacts that stayed there."""
OUTCOMES = ("ok", "diverged", "not_converged")
FIELDS = (
    *("schema", "run", "study", "paper", "step", "labels", "scale", "seed", "settings", "inputs", "outputs"),
    *(
        "code",
        "machine",
        "cost",
        "outcome",
        "outcome_step",
        "outcome_reason",
        "metrics",
        "threat_model",
        "notes",
    ),
    "sha256",
)
Record = dict[str, Any]


class RecordError(ValueError):
    """A record is damaged, edited or foreign, or a run is used incorrectly; the message is one line."""


def run_id(
    study: str, step: str, labels: Mapping[str, str], scale: str, seed: int, settings: Mapping[str, Any]
) -> str:
    """First 16 hexadecimal digits of the sha256 over the canonical JSON of everything that defines a run."""
    defining = {"study": study, "step": step, "labels": dict(labels), "scale": scale, "seed": seed}
    return hashlib.sha256(canonical({**defining, "settings": dict(settings)}).encode()).hexdigest()[:16]


def checksum(record: Mapping[str, Any]) -> str:
    """sha256 over the canonical JSON of all fields except the checksum itself and `path`, which is added on
    reading.
    """
    rest = {key: value for key, value in record.items() if key not in ("sha256", "path")}
    return hashlib.sha256(canonical(rest).encode()).hexdigest()


def read(path: Path | str) -> Record:
    """Read one record (its file or its folder) and verify it; adds `path`, the folder of the record, to the dict.

    Raises RecordError, one line naming the file, if it is missing, damaged, edited or of another schema.
    """
    file = Path(path)
    file = file / NAME if file.is_dir() else file
    try:
        record = json.loads(file.read_bytes())
    except OSError as error:
        raise RecordError(f"{file}: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise RecordError(f"{file}: torn, not complete JSON; remove it and run its step again") from None
    if not isinstance(record, dict) or record.get("schema") != SCHEMA:
        found = record.get("schema") if isinstance(record, dict) else type(record).__name__
        raise RecordError(f"{file}: schema is {found!r}, only {SCHEMA} is allowed")
    missing = [name for name in FIELDS if name not in record]
    if missing:
        raise RecordError(f"{file}: lacks {', '.join(missing)}")
    try:
        sound = checksum(record) == record["sha256"]
    except ValueError:  # NaN, which json.loads accepts and no run writes
        sound = False
    if not sound:
        raise RecordError(
            f"{file}: edited, its content does not match its sha256; remove it and run its step again"
        )
    record["path"] = file.parent.as_posix()
    return record


def read_all(folder: Path | str) -> tuple[list[Record], list[str]]:
    """All valid records below `folder`, in the order of their paths, and one line for each invalid one and each copy of a run.

    Runs with the same step, labels, scale and seed are one run, whatever their settings.
    """
    found: dict[str, Record] = {}
    problems = []
    for file in files(folder):
        try:
            record = read(file)
        except RecordError as error:
            problems.append(str(error))
            continue
        key = canonical([record[name] for name in ("study", "step", "labels", "scale", "seed")])
        if (first := found.setdefault(key, record)) is not record:
            problems.append(f"{file}: a copy of the run in {first['path']}; move it out of {folder}")
    return sorted(found.values(), key=lambda record: Path(record["path"])), problems


def files(folder: Path | str) -> list[Path]:
    """Every record below a folder, also through links; the shortest path first, because copies tend to get longer names."""
    found = glob.iglob(f"{glob.escape(str(folder))}/**/{NAME}", recursive=True)
    return sorted(map(Path, found), key=lambda file: (len(str(file)), file))


def content(record: Record, name: str) -> bytes:
    """The bytes of one of a record's outputs.

    Raises RecordError if the record has no such output, or if the file is missing, damaged or edited.
    """
    file = Path(record["path"]) / name
    if name not in record["outputs"]:
        raise RecordError(
            f"{file}: the record names no such output, it has {', '.join(record['outputs']) or 'none'}"
        )
    try:
        found = file.read_bytes()
    except OSError as error:
        raise RecordError(f"{file}: {error.strerror}") from None
    if hashlib.sha256(found).hexdigest() != record["outputs"][name]["sha256"]:
        raise RecordError(f"{file}: torn or edited, its bytes do not match the record's sha256")
    return found


def rows(content: bytes) -> list[dict[str, Any]]:
    """The rows of a CSV file: whole numbers as int, other numbers as float, empty cells as None, the rest as text."""
    found = csv.DictReader(io.StringIO(content.decode("utf-8"), newline=""))
    return [{key: _cell(value) for key, value in row.items()} for row in found]


def left_behind(folder: Path | str) -> dict[str, str]:
    """Name and sha256 of a run's artefacts that stayed on the machine that made them; empty if there is no such list."""
    try:
        found = json.loads((Path(folder) / LEFT_BEHIND).read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def verify_outputs(record: Record) -> list[str]:
    """One line for each output that is missing (and not left behind on another machine) or does not match its sha256."""
    problems = []
    elsewhere = left_behind(record["path"])
    for name, output in record["outputs"].items():
        file = Path(record["path"]) / name
        if not file.is_file():
            if elsewhere.get(name) != output["sha256"]:
                problems.append(f"{file}: missing")
        elif digest(file) != output["sha256"]:
            problems.append(f"{file}: torn or edited, its bytes do not match the record's sha256")
    return problems


def _cell(text: str) -> Any:
    if text == "":
        return None
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text
