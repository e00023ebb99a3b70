"""Costs of past runs: the shipped table, and the records of this checkout.

A row includes the amount of work behind its cost, so it is also evidence for other sizes of the same step. The table is made
from the published records by ``relearn plan --evidence``; its file also has the efficiencies that fit it best
(:mod:`relearn.forecast.fitting`).
"""

from __future__ import annotations

import hashlib
import json
import lzma
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from relearn.forecast.amount import Amount, amount_of
from relearn.forecast.machine import Machine, processor
from relearn.runs.atomic_files import canonical, write
from relearn.studies.work import Job, Net, work_of

SHIPPED = Path(__file__).with_name("evidence.json.xz")
FORMER = Path(__file__).with_name("former_steps.json")
"""Study and step, with the label that tells where one step has become several, as older records call them → today's step."""


class Row(NamedTuple):
    """One past run.

    Attributes:
        scale, study, step: of the run, with today's names.
        kind: kind of its work; rows of one kind are assumed to deviate from the model by a similar factor.
        run: the run id.
        settings: 8 hex digits that identify its settings.
        cpu_s, wall_s: of the job, without imports.
        memory_mb: peak resident memory.
        machine: name of the processor.
        precision: ``fp32`` or ``bf16``.
        amount: None if the step has no formula.
    """

    scale: str
    study: str
    step: str
    kind: str
    run: str
    settings: str
    cpu_s: float
    wall_s: float
    memory_mb: int
    machine: str
    precision: str
    amount: Amount | None


def on_a_device(record: Mapping[str, Any]) -> bool:
    """Whether a run was made on a GPU: its times say nothing about a CPU, and little about a GPU that its job does not share."""
    return bool(record["machine"]["device"].startswith("cuda"))


def row_of(record: Mapping[str, Any], job: Job) -> Row:
    """The cost of a job from its record, made on a CPU."""
    cost, made = record["cost"], record["machine"]
    kind, amount = work_behind(job)
    memory = round((cost.get("peak_memory_bytes") or 0) / 1e6)
    who = job.scale, job.study, job.step, kind, record["run"], settings_key(job.settings)
    return Row(
        *who, cost["cpu_s"] or 0.0, cost["wall_s"] or 0.0, memory, made["cpu"], made["precision"], amount
    )


def made_on(row: Row) -> Machine:
    """The machine, with its rates, on which a run was made; of an unknown processor the reference processor."""
    return processor(row.machine).at(row.precision)


def settings_key(settings: Mapping[str, Any]) -> str:
    """8 hex digits that identify a step's settings."""
    return hashlib.sha256(canonical(dict(settings)).encode()).hexdigest()[:8]


def work_behind(job: Job) -> tuple[str, Amount | None]:
    """The kind and the amount of a job's work."""
    work = work_of(job)
    return ("", None) if work is None else (work.kind, amount_of(work))


def published_rows(folder: Path) -> Iterator[Row]:
    """The rows of all records in a published set that were made on a CPU."""
    for record, job in _recorded(folder):
        if not on_a_device(record):
            yield row_of(record, job)


def networks(folder: Path) -> Iterator[Net]:
    """The networks used by the records of a published set."""
    for _, job in _recorded(folder):
        work = work_of(job)
        yield from (one.net for one in (work.passes if work else ()) if isinstance(one.net, Net))


def _recorded(folder: Path) -> list[tuple[dict[str, Any], Job]]:
    from relearn.runs.run_store import Store

    former = json.loads(FORMER.read_bytes())
    book: dict[str, Job] = {}
    found = []
    for record in Store(folder).read_all()[0]:
        place = Path(record["path"]).relative_to(folder).as_posix()
        made = f"results/{record['scale']}/{place}"
        book[made] = job_of(record, made, book, former)
        found.append((record, book[made]))
    return found


def job_of(
    record: Mapping[str, Any], folder: str, book: Mapping[str, Job], former: Mapping[str, str] | None = None
) -> Job:
    """The job that a record describes."""
    named = f"{record['study']}/{record['step']}"
    part = record["settings"].get("protocol") or next(iter(record["labels"].values()), "")
    known = former or {}
    return Job(
        study=record["study"],
        step=known.get(f"{named}/{part}", known.get(named, record["step"])),
        scale=record["scale"],
        seed=record["seed"],
        labels=record["labels"],
        settings=record["settings"],
        folder=folder,
        inputs={name: [one["path"] for one in many] for name, many in record["inputs"].items()},
        book=book,
    )


@cache
def load_shipped() -> tuple[tuple[float, ...], list[Row]]:
    """The efficiencies and the rows of the shipped table."""
    found = json.loads(lzma.decompress(SHIPPED.read_bytes()))
    rows = [Row._make([*row[:-1], row[-1] and Amount(*row[-1])]) for row in found["rows"]]
    return tuple(found["efficiencies"]), rows


def keep(rows: Iterable[Row], efficiencies: Sequence[float], path: Path = SHIPPED) -> None:
    """Write the table, one line per run, compressed; equal rows give equal bytes."""
    lines = [
        json.dumps([*row[:6], *map(_short, row[6:8]), *row[8:11], row[11] and [*map(_short, row[11])]])
        for row in rows
    ]
    head = json.dumps([round(one, 4) for one in efficiencies])
    text = ",\n".join(f"  {line}" for line in lines)
    whole = f'{{\n "efficiencies": {head},\n "rows": [\n{text}\n ]\n}}\n'
    write(path, lzma.compress(whole.encode(), preset=9 | lzma.PRESET_EXTREME))
    load_shipped.cache_clear()


def _short(value: float) -> float:
    return float(f"{value:.4g}")
