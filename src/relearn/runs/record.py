"""The record of a run: one JSON file, written once and completely by an atomic rename, and verified by its checksum when
read; and the run that writes it.

Standard library only, so that importing it is cheap; torch is queried for versions and peak memory only
if a step has loaded it. The fields are listed in `record_file.FIELDS`; metric names carry their unit (`_frac`,
`_pct`, `_s`, `_bytes`, `_count`, `_nats`). Paths of inputs are relative to the current folder, paths of
outputs to the record's own folder.
"""

from __future__ import annotations

import csv
import io
import json
import math
import os
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any

from relearn.runs import interrupt, provenance, spool, tensors_file
from relearn.runs.atomic_files import (
    Busy,
    Lock,
    canonical,
    digest,
    probe,
    public,
    refusal,
    sweep,
    sync,
    write,
)
from relearn.runs.interrupt import Interrupted, install_signal_handlers
from relearn.runs.record_file import (
    LEFT_BEHIND,
    NAME,
    OUTCOMES,
    SCHEMA,
    Record,
    RecordError,
    checksum,
    read,
    read_all,
    run_id,
    verify_outputs,
)

__all__ = [
    "Busy",
    "Interrupted",
    "RecordError",
    "Run",
    "canonical",
    "digest",
    "install_signal_handlers",
    "read",
    "read_all",
    "run_id",
    "verify_outputs",
]


class Run:
    """One experiment with one seed, from taking its lock to writing its record. Use as a context manager around a step::

        with Run(out, study="poisoning", paper="zhu2022", step="train", …) as run:
            for epoch in range(epochs):
                run.log(epoch, loss=loss)
            run.finish({"test_accuracy_frac": 0.91}, trials=(["target", "success"], rows))

    Entering takes the run's lock, hashes the inputs, removes an older record from `out` and opens the spool.
    A restart after a kill continues the spool as the next attempt. If code or inputs have changed since, or
    the last execution finished, spool and work folder begin anew. Leaving without `finish` leaves no record:
    the spool ends as FAILED with the error in one line, or as KILLED after a signal.

    Attributes:
        out: the folder of record.json and of the artefacts.
        root: the parent of the nearest `runs` folder above `out` (``results/<scale>``), otherwise the parent
            of `out`.
        id: the run id; it depends on settings, labels, scale and seed, not on the code.
        work: ``root/work/<id>``, created on demand, for checkpoints; `finish` removes it.
        spool: ``root/spool/<id>.jsonl``.
        attempt: 1, or more after a resume.
        last_step: the last step in the spool, None at the beginning.
        done: the record that another process finished while this one waited for the lock, otherwise None.
        processes: if several processes make the run, the operations between them (`relearn.methods.parallel`); otherwise None.

    Raises:
        Busy: another live process holds the run (after `wait_s` seconds); one line naming its pid.
        RecordError: an input is missing, a name is not allowed, or a folder cannot be written to.
    """

    def __init__(
        self,
        out: Path | str,
        *,
        study: str,
        paper: str,
        step: str,
        labels: Mapping[str, str],
        scale: str,
        seed: int,
        settings: Mapping[str, Any],
        inputs: Mapping[str, Sequence[Path | str]] | None = None,
        code_version: str = "",
        device: str = "cpu",
        precision: str = "fp32",
        threads: int = 1,
        wait_s: float = 30.0,
        processes: Any = None,
    ) -> None:
        self.out, self.processes = Path(out), processes
        above = next((p for p in self.out.absolute().parents if p.name == "runs"), None)
        depth = None if above is None else self.out.absolute().parents.index(above)
        self.root = self.out.parent if depth is None else _ancestor(self.out, depth + 1)
        self.labels = {str(key): str(value) for key, value in labels.items()}
        self.settings = dict(settings)
        self.seed = seed
        self.id = run_id(study, step, self.labels, scale, seed, self.settings)
        self.spool = self.root / "spool" / f"{self.id}.jsonl"
        self.device = device
        self.attempt = 1
        self.last_step: int | None = None
        self.done: Record | None = None
        self._place = self.root / "work" / self.id
        self._lock = Lock(self.root / "work" / f"{self.id}.lock", wait_s)
        self._what: dict[str, Any] = {
            "run": self.id,
            "study": study,
            "paper": paper,
            "step": step,
            "labels": self.labels,
        }
        self._what |= {"scale": scale, "seed": seed, "settings": self.settings}
        self._inputs = {name: [Path(p) for p in paths] for name, paths in (inputs or {}).items()}
        self._code_version, self._precision, self._threads = code_version, precision, threads
        self._outputs: dict[str, Path] = {}
        self._seen: dict[str, int] = {}
        self._spool = spool.Spool(self.spool)
        self._finished = False

    def __enter__(self) -> Run:
        try:
            self.out.mkdir(parents=True, exist_ok=True)
            self._lock.__enter__()
        except OSError as error:
            raise RecordError(f"{error.filename}: {error.strerror}, the run needs to write there") from error
        try:
            self._begin()
        except BaseException:
            self._lock.__exit__(None, None, None)
            raise
        return self

    def _begin(self) -> None:
        self._meter = provenance.Meter()
        self._began = datetime.now(UTC).isoformat(timespec="microseconds")
        inputs = {name: [self._input(path) for path in paths] for name, paths in self._inputs.items()}
        code = provenance.code(self._code_version)
        self._body: Record = {"schema": SCHEMA, **self._what, "inputs": inputs, "outputs": {}, "code": code}
        self._body["machine"] = provenance.machine(self.device, self._precision, self._threads)
        if self._lock.waited:
            self.done = self._same_record()
        before = spool.tell(self.spool)
        resumed = before is not None and before.status != spool.FINISHED and self._same(before.start)
        self._spent: dict[str, float] = {}
        if resumed and before is not None:
            self.attempt = before.attempts + 1
            self._began, self._spent = before.start["started"], before.spent
            self.last_step = max((step for _, step in before.points), default=None)
        elif self.done is None:
            shutil.rmtree(self._place, ignore_errors=True)  # checkpoints of other code or other inputs
        if self.done is not None:
            return
        try:
            (self.out / NAME).unlink(missing_ok=True)
            (self.out / LEFT_BEHIND).unlink(missing_ok=True)
            sweep(self.out)
            probe(self.out)
            probe(self.work)
            sweep(self.spool.parent, self.spool.name)  # live runs write to this folder, too
            start = {key: self._body[key] for key in (*self._what, "inputs", "code", "machine")}
            start |= {
                "attempt": self.attempt,
                "started": self._began,
                "pid": os.getpid(),
                "out": self._relative(self.out),
            }
            self._spool.begin(start, fresh=not resumed)
        except OSError as error:
            raise RecordError(f"{error.filename}: {error.strerror}, the run needs to write there") from error

    def _same(self, other: Mapping[str, Any]) -> bool:
        """Whether a spool or a record was made with this code and these inputs, so that its work can be continued."""
        same_code = other["code"]["version"] == self._code_version
        return same_code and _shas(other["inputs"]) == _shas(self._body["inputs"])

    def _same_record(self) -> Record | None:
        try:
            record = read(self.out)
        except RecordError:
            return None
        return record if record["run"] == self.id and self._same(record) else None

    def _input(self, path: Path) -> dict[str, str]:
        try:
            found = digest(path)
            fault = tensors_file.fault_of(path) if path.suffix == ".safetensors" else None
        except OSError as error:
            raise RecordError(
                f"{path}: {error.strerror}, it is an input of step {self._what['step']}"
            ) from error
        # The record next to the file has its sha256. Caches and copies do not verify it: DVC restores even a damaged object.
        if (path.parent / NAME).is_file():
            made = read(path.parent)["outputs"].get(path.name)
            if made is not None and made["sha256"] != found:
                raise RecordError(
                    f"{path}: torn or edited, sha256 {found[:16]}…, its record says {made['sha256'][:16]}…; "
                    "`relearn recover` clears it for its step to run again"
                )
        if fault:
            raise RecordError(f"{path}: {fault}")
        return {"path": self._relative(path), "sha256": found}

    def _relative(self, path: Path) -> str:
        # a record contains no absolute path: relative to the current folder, else to the root, else the bare name
        path = path.absolute()
        for base in (Path.cwd(), self.root.absolute()):
            if path.is_relative_to(base):
                return path.relative_to(base).as_posix()
        return path.name

    @property
    def work(self) -> Path:
        self._place.mkdir(parents=True, exist_ok=True)
        return self._place

    def output(self, name: str) -> Path:
        """Where to write the artefact `name`; `finish` requires that it exists and records its sha256."""
        if Path(name).name != name or name in (NAME, "", ".", "..") or name.startswith("."):
            raise RecordError(f"output {name!r}: only a plain file name other than {NAME} is allowed")
        self._outputs[name] = self.out / name
        return self._outputs[name]

    def log(self, step: int, **metrics: float) -> None:
        """Append the values of one step to the spool; also a safe point for signals.

        Within one attempt the steps of a metric must not decrease (ValueError). After a resume they may: the
        importer takes the later value of a step. Non-finite values are stored as text and never become numbers
        in MLflow.
        """
        values = {key: _float(key, value) for key, value in metrics.items()}
        for key in values:
            if step < self._seen.get(key, step):
                raise ValueError(
                    f"{key}: step {step} after step {self._seen[key]}, steps never go back in one attempt"
                )
            self._seen[key] = step
        self._spool.metrics(int(step), values, self._meter.cpu_s())
        self.last_step = int(step) if self.last_step is None else max(int(step), self.last_step)
        interrupt.check()

    def finish(
        self,
        metrics: Mapping[str, float],
        *,
        trials: tuple[Sequence[str], Iterable[Sequence[Any]]] | None = None,
        outcome: str = "ok",
        outcome_step: int | None = None,
        outcome_reason: str | None = None,
        threat_model: Mapping[str, Any] | None = None,
        notes: Sequence[str] = (),
    ) -> Record:
        """Write trials.csv, then record.json in one rename, then close the spool and remove the work folder.

        Args:
            metrics: name with unit → number; NaN and infinity become null, with a note.
            trials: (columns, rows), one row per trial; None gives an empty cell.
            outcome: `ok`, `diverged` (a result, not a crash; give `outcome_step`) or `not_converged`.
        """
        if self._finished:
            raise RecordError("finish was called twice, a record is written once")
        if outcome not in OUTCOMES:
            raise RecordError(f"outcome {outcome!r}: only {', '.join(OUTCOMES)} are allowed")
        remarks = list(notes)
        numbers: dict[str, float | None] = {}
        for key, given in metrics.items():
            value = _float(key, given)
            if not math.isfinite(value):
                remarks.append(f"{key} is {value}, written as null")
            numbers[key] = value if math.isfinite(value) else None
        if trials is not None:
            write(self.output("trials.csv"), _csv(*trials))
        if self._spool.lost:
            remarks.append(f"{self._spool.lost} spool lines lost: {self._spool.fault}")
        if self.attempt > 1:
            remarks.append(f"resumed: finished by attempt {self.attempt}")
        outputs = {name: self._output(name, path) for name, path in self._outputs.items()}
        machine = provenance.machine(
            self.device, self._precision, self._threads
        )  # again, because the device is in use now
        code = {**self._body["code"], "packages": provenance.packages()}
        cost = self._meter.read(self.device)
        known = [key for key in self._spent if cost[key] is not None]  # device_s is None on a CPU
        cost |= {key: cost[key] + self._spent[key] for key in known}
        cost |= {"started": self._began, "ended": datetime.now(UTC).isoformat(timespec="microseconds")}
        body = {**self._body, "outputs": outputs, "code": code, "machine": machine, "cost": cost}
        body |= {"outcome": outcome, "outcome_step": outcome_step, "outcome_reason": outcome_reason}
        body |= {"metrics": numbers, "threat_model": None if threat_model is None else dict(threat_model)}
        body |= {"notes": remarks}
        body["sha256"] = checksum(body)
        text = json.dumps(body, indent=1, ensure_ascii=True, allow_nan=False) + "\n"
        write(self.out / NAME, text.encode("ascii"))
        self._finished = True
        self._spool.end(spool.FINISHED, record=body["sha256"], cpu_s=cost["cpu_s"])
        shutil.rmtree(self._place, ignore_errors=True)
        return body

    def _output(self, name: str, path: Path) -> dict[str, str]:
        if not path.is_file():
            raise RecordError(f"{path}: announced by output({name!r}) and not written")
        public(path)
        sync(path)
        return {"path": name, "sha256": digest(path)}

    def _name_file(self, error: BaseException | None) -> BaseException | None:
        """Name the file in the error of a full disk: safetensors reports it as a text without the file name."""
        number = re.search(r"\(os error (\d+)\)", str(error))
        if type(error).__name__ != "SafetensorError" or number is None or not self._outputs:
            return error
        return refusal(int(number[1]), list(self._outputs.values())[-1])

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if not self._finished and self.done is None:
                error = self._name_file(error)
                if not (self.out / NAME).exists():  # outputs without a record may be incomplete
                    for path in self._outputs.values():
                        path.unlink(missing_ok=True)
                now = self._meter.read(self.device)
                spent = {"cpu_s": now["cpu_s"], "device_s": now["device_s"]}
                if error is None:
                    self._spool.end(spool.FAILED, "the step ended without calling finish", **spent)
                    raise RecordError(
                        f"{self.out}: the step ended without calling finish, there is no record"
                    )
                killed = isinstance(error, (Interrupted, KeyboardInterrupt))
                lines = (str(error) or type(error).__name__).splitlines() or [type(error).__name__]
                reason = lines[0] if killed else f"{type(error).__name__}: {lines[0]}"
                self._spool.end(spool.KILLED if killed else spool.FAILED, reason, **spent)
                if isinstance(error, OSError) and kind is not type(error):
                    raise error
        finally:
            self._lock.__exit__(None, None, None)


def _shas(inputs: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(name, one["sha256"]) for name in sorted(inputs) for one in inputs[name]]


def _ancestor(path: Path, depth: int) -> Path:
    # keeps a relative path relative, so that no absolute path is written
    return path.parents[depth] if depth < len(path.parents) else path.absolute().parents[depth]


def _float(key: str, value: Any) -> float:
    try:
        return float(value)  # also NumPy's and torch's scalars
    except (TypeError, ValueError):
        raise RecordError(f"metric {key}: {value!r} is not a number") from None


def _csv(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> bytes:
    text = io.StringIO(newline="")
    table = csv.writer(text, lineterminator="\n")
    table.writerow(columns)
    for row in rows:
        cells = list(row)
        if len(cells) != len(columns):
            raise RecordError(f"trials: a row has {len(cells)} cells, the header {len(columns)}")
        table.writerow([_plain_value(cell) for cell in cells])
    return text.getvalue().encode("utf-8")


def _plain_value(cell: Any) -> Any:
    if isinstance(cell, bool):
        return int(cell)
    return cell.item() if hasattr(cell, "item") else cell
