"""Runs the checks in order and writes their results as a table and as JSON."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from relearn.gpu_check import variants
from relearn.gpu_check.probes import PROBES
from relearn.gpu_check.tolerances import compare, trained
from relearn.runs.node.driver import Driver, say, warm
from relearn.runs.node.jobs_file import NodeJob
from relearn.runs.node.machine import Machine

WOULD = """\
gpu_check would run, on the first free CUDA device:
  steps     the cheapest run of every step in fp32 and in bf16, metrics against the CPU's by stated limits
  resume    the longest of these trainings once more, SIGTERM after half its time, and again to its end
  together  two of these jobs at once on one device, against the same jobs alone
  memory    bytes in use after a sixth and at the end of a training and of an attack
  compiled  a training by torch.compile in each mode that is offered, against the plain one
  parallel  a training of two processes (NCCL on two devices, gloo on one) against one process
"""
PATIENCE_S = 240.0  # limit for the first checkpoint, and for the end of a stopped job
PROBE_S = 300.0


@dataclass(frozen=True)
class Row:
    """One check: its kind, its subject, whether it passed, and the result in words."""

    check: str
    of: str
    ok: bool
    found: str


def run(
    jobs: Sequence[NodeJob],
    chosen: set[str],
    device: str,
    memory_mb: Sequence[int],
    at_once: int,
    per_device: int,
    deadline: float,
) -> list[Row]:
    """Run every check; ``device`` is ``cuda``, or ``cpu`` in a rehearsal. A check for which time runs out gives a failed row."""
    os.environ["RELEARN_JOBS_PER_DEVICE"] = str(per_device)
    missing = variants.bring_data(jobs)
    if missing:
        raise ValueError(
            f"{missing[0]}: missing; it is data of a job to check (pack it: relearn pack --check)"
        )
    three = variants.three(jobs, chosen, device)
    machine = Machine(at_once, per_device, tuple(memory_mb))
    everything = [job for many in three.values() for job in many]
    with warm(len(everything), Path("check/warm.log")):
        drivers = [_drive(three[variants.BASE], machine, deadline)]
        drivers.append(_drive([*three["fp32"], *three["bf16"]], machine, deadline))
        failed = {path: line for driver in drivers for path, line in driver.failed.items()}
        rows = list(_compared(three, failed))
        longest = _longest(three["fp32"])
        rows.append(_resumed(longest, device, deadline))
        rows.append(_together(three["fp32"], device, memory_mb, deadline))
    for name in PROBES:
        rows.append(_probe(name, "cuda:0" if device == "cuda" else device, deadline))
    return rows


def _drive(jobs: Sequence[NodeJob], machine: Machine, deadline: float) -> Driver:
    driver = Driver(jobs, machine, deadline=deadline)
    driver.run()
    return driver


def _compared(three: dict[str, list[NodeJob]], failed: dict[str, str]) -> Iterator[Row]:
    base = {job.run: job for job in three[variants.BASE]}
    for precision in ("fp32", "bf16"):
        for job in three[precision]:
            of = f"{job.study} {job.step} {precision}"
            cpu, there = base[job.run].finished_record(), job.finished_record()
            if cpu is None or there is None:
                yield Row(
                    "steps", of, False, failed.get(job.record, "not run: no time, or what it reads failed")
                )
                continue
            verdict = compare(cpu, there, precision)
            kind = "training" if trained(cpu) else "formula"
            worst = (
                f"{verdict.worst} {_number(verdict.cpu)} on the CPU, {_number(verdict.device)} there: "
                if verdict.share
                else ""
            )
            beyond = f", {verdict.beyond} beyond it" if verdict.beyond else ""
            found = f"{kind}, {verdict.compared} metrics, {worst}{verdict.share:.2g} of the limit{beyond}"
            yield Row("steps", of, verdict.ok, found)


def _longest(jobs: Sequence[NodeJob]) -> NodeJob | None:
    """The run with a training history that took longest, so that a signal reaches it during training."""
    done = [
        (found["cost"]["wall_s"], job)
        for job in jobs
        if (found := job.finished_record()) and "history.csv" in found["outputs"]
    ]
    return max(done, key=lambda pair: pair[0])[1] if done else None


def _resumed(job: NodeJob | None, device: str, deadline: float) -> Row:
    """Stop a training run after half its time, resume it, and compare it with the uninterrupted run."""
    if job is None or time.monotonic() >= deadline:
        return Row("resume", "", False, "not run: no time, or no training among the jobs")
    whole = job.finished_record()
    assert whole is not None
    again = variants.on(job, "resume", device, "fp32", job.gpu)
    of = f"{job.study} {job.step}"
    spool = Path("check/resume/spool") / f"{job.run}.jsonl"
    for share in (2, 6, 18, 54):  # divisors of its time: the repeat may be much faster
        spool.unlink(missing_ok=True)
        Path(again.record).unlink(missing_ok=True)
        status = _stopped_after(again, spool, whole["cost"]["wall_s"] / share)
        if status in (143, -signal.SIGTERM):
            break
    else:
        return Row(
            "resume", of, False, f"ended with status {status} before it could be stopped, 143 expected"
        )
    driver = _drive([again], Machine(1), deadline)
    found = again.finished_record()
    if found is None:
        return Row("resume", of, False, f"not finished: {driver.failed.get(again.record, 'no time')}")
    verdict = compare(whole, found, "fp32")
    attempts = [note for note in found["notes"] if note.startswith("resumed")]
    text = f"{attempts[0] if attempts else 'began anew'}; {verdict.share:.2g} of the limit from the run that was not stopped"
    return Row("resume", of, verdict.ok and bool(attempts), text)


def _stopped_after(job: NodeJob, spool: Path, seconds: float) -> int:
    """Start a job, send it SIGTERM ``seconds`` after its spool appears, and return its exit status."""
    process = subprocess.Popen(_command(job), stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until = time.monotonic() + PATIENCE_S
    while process.poll() is None and time.monotonic() < until and not spool.is_file():
        time.sleep(0.02)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(seconds)
    process.send_signal(signal.SIGTERM)
    return process.wait(PATIENCE_S)


def _together(jobs: Sequence[NodeJob], device: str, memory_mb: Sequence[int], deadline: float) -> Row:
    """Repeat the two longest jobs at the same time on one device."""
    alone = sorted(
        ((found["cost"]["wall_s"], job.run, job) for job in jobs if (found := job.finished_record())),
        reverse=True,
    )[:2]
    if len(alone) < 2 or time.monotonic() >= deadline:
        return Row("together", "", False, "not run: no time, or fewer than two jobs")
    one = "cuda:0" if device == "cuda" else device
    both = [variants.on(job, "together", one, "fp32", job.gpu) for _, _, job in alone]
    for job in both:
        Path(job.record).unlink(missing_ok=True)
    _drive(both, Machine(2, 2, tuple(memory_mb)), deadline)
    of = " and ".join(f"{job.study} {job.step}" for job in both)
    pairs = [(job.finished_record(), there.finished_record()) for (_, _, job), there in zip(alone, both)]
    ended = [(whole, there) for whole, there in pairs if whole is not None and there is not None]
    if len(ended) < 2:
        return Row("together", of, False, "one of them did not finish")
    verdicts = [compare(whole, there, "fp32") for whole, there in ended]
    costs = [there["cost"] for _, there in ended]
    shared = min(cost["ended"] for cost in costs) > max(cost["started"] for cost in costs)
    text = f"{max(verdict.share for verdict in verdicts):.2g} of the limit from the jobs alone; "
    return Row(
        "together",
        of,
        all(v.ok for v in verdicts) and shared,
        text + ("overlapped" if shared else "one after the other"),
    )


def _probe(name: str, device: str, deadline: float) -> Row:
    left = min(PROBE_S, deadline - time.monotonic())
    if left <= 0:
        return Row(name, "", False, "not run: no time")
    say(f"probe {name}")
    words = [sys.executable, "-m", "relearn.gpu_check.probes", name, "--device", device]
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=left)
    except subprocess.TimeoutExpired:
        return Row(name, "", False, f"not finished in {left:.0f} s")
    if done.returncode:
        return Row(name, "", False, (done.stderr.strip().splitlines() or ["no output"])[-1])
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return Row(name, "", bool(found.pop("ok")), json.dumps(found))


def _command(job: NodeJob) -> list[str]:
    job.folder.mkdir(parents=True, exist_ok=True)
    return [sys.executable, "-m", "relearn", *job.words, "--out", str(job.folder), "--log", job.log]


def write(rows: Sequence[Row], path: Path, *, rehearsed: bool) -> None:
    """Write the results to check.json."""
    path.parent.mkdir(parents=True, exist_ok=True)
    where = "CPU in the device's place" if rehearsed else "CUDA"
    path.write_text(json.dumps({"on": where, "rows": [asdict(row) for row in rows]}, indent=1) + "\n")


def table(rows: Sequence[Row], *, rehearsed: bool) -> str:
    """The results as text, failed ones last, with their number."""
    lines = [
        f"{'ok' if row.ok else 'NO':2}  {row.check:8}  {row.of + ': ' if row.of else ''}{row.found}"
        for row in sorted(rows, key=lambda row: not row.ok)
    ]
    failed = sum(not row.ok for row in rows)
    where = "rehearsed with the CPU in the device's place" if rehearsed else "on CUDA"
    return "\n".join([*lines, f"{len(rows)} checks {where}, {failed} failed"])


def _number(value: float | None) -> str:
    return "nothing" if value is None else f"{value:.6g}"
