"""Variants of a job: on the CPU, and on the device in both precisions, each in its own folder."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from relearn.runs.node.jobs_file import NodeJob

ROOT = "check"
BASE = "cpu"
RUNS = re.compile(r"(?:results|check)/\w+/(runs|logs)/")


def moved(path: str, variant: str) -> str:
    """A path in results/ or in another variant, moved to the folder of this variant."""
    return RUNS.sub(rf"{ROOT}/{variant}/\1/", path)


def on(job: NodeJob, variant: str, device: str, precision: str, gpu: int) -> NodeJob:
    """``job`` with its files in ``check/<variant>``; it reads the CPU variant's outputs, so that differences do not accumulate."""
    words = [moved(word, BASE) for word in job.words]
    words += ["--device", device, "--precision", precision, "--threads", "1"]
    return replace(
        job,
        run=job.run,
        words=tuple(words),
        record=moved(job.record, variant),
        inputs=tuple(moved(path, BASE) for path in job.inputs),
        outputs=tuple(moved(path, variant) for path in job.outputs),
        log=moved(job.log, variant),
        gpu=gpu,
    )


def bring_data(jobs: Iterable[NodeJob]) -> list[str]:
    """Link inputs that no job makes (data of a pack) into the CPU variant's folder; return those that are missing."""
    given = list(jobs)
    made = {path for job in given for path in job.outputs}
    missing = []
    for path in sorted({path for job in given for path in job.inputs} - made):
        source = Path(path)
        if not source.is_file():
            missing.append(path)
            continue
        target = Path(moved(path, BASE))
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists():
            target.hardlink_to(source)
    return missing


def three(jobs: Sequence[NodeJob], chosen: set[str], device: str) -> dict[str, list[NodeJob]]:
    """The jobs by variant: all on the CPU, the chosen ones on the device in fp32 and in bf16."""
    compared = [job for job in jobs if job.run in chosen]
    return {
        BASE: [on(job, BASE, "cpu", "fp32", 0) for job in jobs],
        "fp32": [on(job, "fp32", device, "fp32", 1) for job in compared],
        "bf16": [on(job, "bf16", device, "bf16", 1) for job in compared],
    }
