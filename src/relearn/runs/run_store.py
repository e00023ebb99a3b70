"""Many runs in four Parquet files: their records, their trials, and their other outputs except weights and data.

======================  ============================================================================
file                    a row
======================  ============================================================================
``runs.parquet``        a run: identity, labels, settings, metrics, cost, machine, code, checksums
``trials.parquet``      a line of a ``trials.csv``; ``folder`` names its run
``rows.parquet``        a line of any other CSV file, which ``file`` names: curves, layers, cases
``files.parquet``       a file that cannot be stored as a table: ``folder``, ``file`` and ``content`` (bytes)
======================  ============================================================================

``pandas.read_parquet`` opens each of them. Records and files are restored byte for byte and checked against the sha256
in the record, so a store can be read wherever a folder of records can.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path

from relearn.runs import parquet_file, record_rows, tidy_csv
from relearn.runs.record_file import LEFT_BEHIND, NAME, Record, RecordError, checksum

RUNS, TRIALS, ROWS, FILES = "runs.parquet", "trials.parquet", "rows.parquet", "files.parquet"
NOT_SHOWN = ("answers.csv", "scales.csv", "loss_curves.csv", "increases.csv")
"""Files that no table, figure or claim reads: answers to single samples, GradInit's factor of every layer, losses at the steps of PGD."""


def is_store(folder: Path | str) -> bool:
    return (Path(folder) / RUNS).is_file()


def is_stored(record: Record, name: str) -> bool:
    """Whether a store keeps an artefact: numbers and galleries, but no weights or data, and answers to samples only if a claim reads them.

    Claims compare the predictions of `train_lra`, but not those of its trials of rates.
    """
    if name == "predictions.csv":
        return record["step"] == "train_lra" and "tried" not in record["labels"]
    return (name.endswith((".csv", ".json")) and name not in NOT_SHOWN) or name == "gallery.safetensors"


class Store:
    """The runs that :func:`write` put into a folder."""

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)

    def read_all(self) -> tuple[list[Record], list[str]]:
        """All valid records in the order of their folders, and one line for each invalid one.

        As when read from a folder, each record has the added key ``path``: the store's path and the run's folder.
        """
        found, problems = dict[str, Record](), []
        for folder, record in self._rows():
            path = (self.folder / folder).as_posix()
            if path in found:
                problems.append(f"{path}: a second row of this run in {RUNS}")
            elif checksum(record) == record["sha256"]:
                found[path] = {**record, "path": path}
            else:
                problems.append(f"{path}/{NAME}: edited, its content does not match its sha256")
        return list(found.values()), problems

    def _rows(self) -> list[tuple[str, Record]]:
        table = parquet_file.read(self.folder / RUNS)
        try:
            return record_rows.records(table.to_pylist(), parquet_file.json_columns(table))
        except KeyError as error:
            raise RecordError(f"{self.folder / RUNS}: no column {error}, so it is no table of runs") from None

    def has(self, record: Record, name: str) -> bool:
        """Whether the store holds this artefact of one of its records."""
        return (self._folder(record), name) in self._files

    def content(self, record: Record, name: str) -> bytes:
        """The bytes of an artefact.

        Raises:
            RecordError: the store does not hold it, or its bytes do not match the record's sha256.
        """
        found = self._files.get((self._folder(record), name))
        if found is None:
            raise RecordError(f"{record['path']}/{name}: not in the store")
        if hashlib.sha256(found).hexdigest() != record["outputs"][name]["sha256"]:
            raise RecordError(f"{record['path']}/{name}: edited, its bytes do not match the record's sha256")
        return found

    def _folder(self, record: Record) -> str:
        return Path(record["path"]).relative_to(self.folder).as_posix()

    @cached_property
    def _files(self) -> dict[tuple[str, str], bytes]:
        found: dict[tuple[str, str], bytes] = {}
        for name in (TRIALS, ROWS):
            if (self.folder / name).is_file():
                found |= tidy_csv.rebuilt(parquet_file.read(self.folder / name).to_pydict())
        if (self.folder / FILES).is_file():
            rows = parquet_file.read(self.folder / FILES).to_pylist()
            found |= {(row["folder"], row["file"]): row["content"] for row in rows}
        return found

    def unpack(self, target: Path) -> None:
        """Write every record and every file below ``target`` as the runs wrote them.

        A run whose weights or data are not in the store lists them in ``left_behind.json``.

        Raises:
            RecordError: one of them does not match its sha256.
        """
        records, problems = self.read_all()
        if problems:
            raise RecordError(problems[0])
        for record in records:
            folder = target / self._folder(record)
            if ".." in folder.parts or any(Path(name).name != name for name in record["outputs"]):
                raise RecordError(f"{record['path']}: found a path that leaves the folder of the run")
            folder.mkdir(parents=True, exist_ok=True)
            body = {key: value for key, value in record.items() if key != "path"}
            (folder / NAME).write_text(json.dumps(body, indent=1) + "\n", encoding="ascii")
            lacking = {
                name: one["sha256"] for name, one in record["outputs"].items() if not self.has(record, name)
            }
            for name in record["outputs"].keys() - lacking.keys():
                (folder / name).write_bytes(self.content(record, name))
            if lacking:
                (folder / LEFT_BEHIND).write_text(json.dumps(lacking), encoding="ascii")


def write(
    target: Path,
    records: Sequence[Record],
    folders: Sequence[str],
    content: Callable[[Record, str], bytes | None],
) -> None:
    """Write the four files; one without rows is left out.

    Args:
        target: an existing folder.
        records: valid ones.
        folders: the folder of each, relative to the results folder.
        content: returns the bytes of a record's artefact, or None if there is none; called for those that are :func:`is_stored`.

    Raises:
        RecordError: naming the run, for a damaged artefact, or a record that would not be restored exactly.
    """
    files: dict[tuple[str, str], bytes] = {}
    for record, folder in zip(records, folders):
        for name in record["outputs"]:
            found = content(record, name) if is_stored(record, name) else None
            if found is None:
                continue
            if hashlib.sha256(found).hexdigest() != record["outputs"][name]["sha256"]:
                raise RecordError(
                    f"{folder}/{name}: torn or edited, its bytes do not match the record's sha256"
                )
            files[folder, name] = found
    parquet_file.write(target / RUNS, *record_rows.columns(records, folders))
    for record, (folder, back) in zip(records, Store(target)._rows()):
        if json.dumps(back) != json.dumps({key: value for key, value in record.items() if key != "path"}):
            raise RecordError(f"{folder}/{NAME}: cannot be kept in a table without a change")
    ordered = dict(sorted(files.items(), key=lambda item: item[0][::-1]))  # groups files of the same name
    left: dict[tuple[str, str], bytes] = {}
    for name, mine in ((TRIALS, {"trials.csv"}), (ROWS, {file for _, file in files} - {"trials.csv"})):
        tables = {key: one for key, one in ordered.items() if key[1] in mine and key[1].endswith(".csv")}
        columns = tidy_csv.columns(tables)
        parquet_file.write(target / name, columns)
        same = tidy_csv.rebuilt(columns)
        left |= {key: one for key, one in ordered.items() if key[1] in mine and same.get(key) != one}
    folders, names = [folder for folder, _ in left], [file for _, file in left]
    parquet_file.write(target / FILES, {"folder": folders, "file": names, "content": list(left.values())})
