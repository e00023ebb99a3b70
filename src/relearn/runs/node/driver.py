"""The driver of a pack: runs its jobs in the order of the DAG on a machine that has Python and torch but no Snakemake.

``sh run.sh --minutes 9`` calls it. It can be restarted and continues where it stopped: a job is done if its record has today's
run id and code and was made from the inputs in this folder. A failed job stops only the jobs that need it. At the time limit no
further job starts; running jobs get SIGTERM, stop at their next safe point and leave a checkpoint; and all results are written to
``home/``.

Exit status: 0 when everything is done, 1 when a job failed, 2 when it could not start or not write the results (wrong use, a
damaged pack, the disk), 3 when time ran out.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from relearn.runs import orphan_guard
from relearn.runs.node import home, jobs_file, mps, summary
from relearn.runs.node.jobs_file import NodeJob
from relearn.runs.node.machine import Machine, cores, usable_mb
from relearn.runs.node.parts import MIB

DONE, FAILED, OUT_OF_TIME = 0, 1, 3
POLL_S = 0.05
LEAST_HOME_MIB = 4
WORTH_A_SERVER = 6  # jobs; starting a warm server costs as much as starting two of them
STOPPED = (130, 143, -signal.SIGTERM, -signal.SIGINT)


@dataclass
class Driver:
    """Runs jobs until none is left or the deadline has passed.

    Args:
        jobs: in the order of the DAG.
        machine: limits the number of concurrent jobs.
        words: further arguments of every command line: device, precision, compile.
        deadline: on the monotonic clock; then no job is started, and running jobs are asked to stop.
        grace_s: seconds from the deadline to SIGKILL.
        program: the command that runs a job, without its arguments.

    Attributes:
        failed: record path of each failed job, and the last line of its error.
        stopped: record paths of the jobs stopped by the time limit.
    """

    jobs: Sequence[NodeJob]
    machine: Machine
    words: Sequence[str] = ()
    deadline: float = float("inf")
    grace_s: float = 25.0
    program: Sequence[str] = (sys.executable, "-m", "relearn")
    failed: dict[str, str] = field(default_factory=dict)
    stopped: set[str] = field(default_factory=set)
    walls: dict[str, float] = field(default_factory=dict)
    _running: dict[subprocess.Popen[bytes], tuple[NodeJob, float]] = field(default_factory=dict)
    _told: bool = False

    def run(self) -> None:
        """Run the pending jobs."""
        done, left = jobs_file.todo(self.jobs)
        heights = _heights(self.jobs)
        makers = {path: job.record for job in self.jobs for path in (*job.outputs, job.record)}
        waiting = {job.record: {makers[path] for path in job.inputs if path in makers} for job in left}
        for job in done:
            self._forget(waiting, job)
        by_record = {job.record: job for job in left}
        say(f"{len(self.jobs)} jobs, {len(done)} done, {len(left)} to do")
        while waiting or self._running:
            over = time.monotonic() >= self.deadline
            ready = [] if over else [by_record[record] for record, needs in waiting.items() if not needs]
            for job in sorted(ready, key=lambda one: -heights[one.record]):
                if self.machine.room_for(job, [one for one, _ in self._running.values()]):
                    del waiting[job.record]
                    self._start(job)
            if over:
                self._stop()
            if not self._running and (over or not ready):
                break
            for job, ok in self._ended():
                if ok:
                    self._forget(waiting, job)
            time.sleep(POLL_S)

    def _forget(self, waiting: dict[str, set[str]], job: NodeJob) -> None:
        for needs in waiting.values():
            needs.discard(job.record)

    def _start(self, job: NodeJob) -> None:
        for place in (job.folder, Path(job.log).parent):
            place.mkdir(parents=True, exist_ok=True)
        words = [*job.words, *self.words, "--out", str(job.folder), "--log", job.log]
        command = [*self.program, *words]
        with Path(f"{job.log}.err").open("wb") as errors:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors
            )
        self._running[process] = (job, time.monotonic())

    def _ended(self) -> Iterator[tuple[NodeJob, bool]]:
        for process in list(self._running):
            status = process.poll()
            if status is None:
                continue
            job, began = self._running.pop(process)
            self.walls[job.record] = time.monotonic() - began
            errors = Path(f"{job.log}.err")
            ok = status == 0 and job.finished_record() is not None
            if not ok and (self._told and (status in STOPPED or status == -signal.SIGKILL)):
                self.stopped.add(job.record)
            elif not ok:
                lines = errors.read_text(errors="replace").strip().splitlines() or [f"status {status}"]
                self.failed[job.record] = lines[-1]
                say(f"FAILED {job.label}: {lines[-1]}")
            errors.unlink(missing_ok=True)
            if ok:
                say(f"done {job.label} in {self.walls[job.record]:.0f} s")
            yield job, ok

    def _stop(self) -> None:
        """Ask the running jobs to stop and kill them after the grace period; their last checkpoint stays."""
        if self._running and not self._told:
            say(f"time is over: {len(self._running)} jobs stop at their next safe point")
            for process in self._running:
                process.terminate()
            self._told = True
        if time.monotonic() >= self.deadline + self.grace_s:
            for process in self._running:
                process.kill()


def _heights(jobs: Sequence[NodeJob]) -> dict[str, int]:
    """Length of the longest chain of jobs that starts at each job: long chains start first."""
    readers: dict[str, list[str]] = {}
    for job in jobs:
        for path in job.inputs:
            readers.setdefault(path, []).append(job.record)
    heights: dict[str, int] = {}
    for job in reversed(jobs):
        behind = [heights[record] for path in (*job.outputs, job.record) for record in readers.get(path, ())]
        heights[job.record] = 1 + max(behind, default=0)
    return heights


@contextlib.contextmanager
def warm(jobs: int, log: Path) -> Iterator[None]:
    """Context in which jobs are forked from a process that has already imported torch, if that pays off."""
    if jobs < WORTH_A_SERVER or os.environ.get("RELEARN_WARM") or not sys.platform.startswith("linux"):
        yield
        return
    with tempfile.TemporaryDirectory(prefix="relearn-") as folder, log.open("ab") as file:
        socket = f"{folder}/warm.sock"
        words = [sys.executable, "-m", "relearn", "warm", "--socket", socket]
        server = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=file, stderr=file)
        os.environ["RELEARN_WARM"] = socket
        try:
            yield
        finally:
            del os.environ["RELEARN_WARM"]
            server.terminate()
            server.wait()


def say(line: str) -> None:
    """Print one line on standard error."""
    print(line, file=sys.stderr, flush=True)


def parser() -> argparse.ArgumentParser:
    """The options of run.sh."""
    found = argparse.ArgumentParser(prog="run.sh", description="run the jobs of this pack")
    found.add_argument(
        "--minutes",
        type=float,
        help="stop cleanly after this many minutes and write results (default: no limit)",
    )
    found.add_argument("--jobs", type=int, default=cores(), help="jobs at once (default: one per core)")
    found.add_argument("--jobs-per-device", type=int, default=8, help="jobs at once on one CUDA device")
    found.add_argument(
        "--mps", action="store_true", help="jobs share a device by NVIDIA's MPS instead of time slicing"
    )
    found.add_argument("--device", default="auto", help="auto | cpu | cuda | cuda:N")
    found.add_argument("--precision", default="fp32", choices=("fp32", "bf16"))
    found.add_argument(
        "--compile", default="off", help="off, or a mode of torch.compile such as reduce-overhead"
    )
    found.add_argument("--threads", type=int, default=1, help="CPU threads of a job")
    found.add_argument("--only", nargs="+", metavar="STEP", help="only jobs of these steps")
    found.add_argument(
        "--weights", default="fit", choices=home.WEIGHTS, help="copy back no weights, or those that fit"
    )
    found.add_argument(
        "--home-mib", type=int, default=128, help="largest total size of --home (default: 128)"
    )
    found.add_argument("--home", type=Path, default=Path("home"), help="folder for the files to bring back")
    found.add_argument(
        "--grace", type=float, default=25.0, help="seconds from SIGTERM to SIGKILL at the limit"
    )
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Run the jobs of jobs.json in the current folder."""
    began = time.monotonic()
    args = parser().parse_args(argv)
    if args.home_mib < LEAST_HOME_MIB:
        raise ValueError(f"--home-mib: found {args.home_mib}, allowed: at least {LEAST_HOME_MIB}")
    for name in ("jobs", "jobs_per_device", "threads"):
        if getattr(args, name) < 1:
            raise ValueError(f"--{name.replace('_', '-')}: found {getattr(args, name)}, allowed: at least 1")
    jobs = jobs_file.read(Path(jobs_file.NAME))
    if args.only:
        steps = sorted({job.step for job in jobs})
        if unknown := sorted(set(args.only) - set(steps)):
            raise ValueError(f"--only: found {unknown[0]}, allowed: {', '.join(steps)}")
        jobs = [job for job in jobs if job.step in args.only]
    orphan_guard.announce()  # jobs and the warm server end when this process is gone
    os.environ["RELEARN_JOBS_PER_DEVICE"] = str(args.jobs_per_device)
    memory = usable_mb(args.device)
    words = ["--device", args.device, "--precision", args.precision]
    words += ["--compile", args.compile, "--threads", str(args.threads)]
    # Reserve the grace period of the jobs and some seconds to write the results.
    seconds = float("inf") if args.minutes is None else max(args.minutes * 60 - args.grace - 15, 1)
    driver = Driver(
        jobs, Machine(args.jobs, args.jobs_per_device, memory), words, began + seconds, grace_s=args.grace
    )
    signal.signal(signal.SIGTERM, lambda *_: _now(driver))
    signal.signal(signal.SIGINT, lambda *_: _now(driver))
    with mps.served() if args.mps and memory else contextlib.nullcontext(), warm(len(jobs), Path("warm.log")):
        driver.run()
    done, left = jobs_file.todo(jobs)
    written = summary.write(jobs, done, driver.failed, driver.stopped, time.monotonic() - began, memory)
    files = min(home.MOST, math.ceil(args.home_mib * MIB / home.LIMIT))
    limit = min(home.LIMIT, args.home_mib * MIB // files)
    parts, behind = home.bring(
        done, left, args.home, more=[written], weights=args.weights, most=files, limit=limit
    )
    print(summary.text(written))
    size = sum(path.stat().st_size for path in parts) / 2**20
    print(f"{args.home}: {len(parts)} files, {size:.1f} MiB; take them to `relearn adopt`")
    if behind:
        print(f"{len(behind)} files of weights or checkpoints stay here, such as {behind[0]}")
    if driver.failed:
        return FAILED
    return OUT_OF_TIME if left else DONE


def _now(driver: Driver) -> None:
    driver.deadline = min(driver.deadline, time.monotonic())
