"""From Snakemake's log records to lines: what is done, what is left, what failed and how to go on."""

from __future__ import annotations

import os
import re
import shlex
import sys
import time
from dataclasses import dataclass
from logging import DEBUG, ERROR, WARNING, LogRecord
from pathlib import Path
from typing import Any, TextIO

from snakemake_interface_logger_plugins.common import LogEvent as Event

from snakemake_logger_plugin_relearn import words
from snakemake_logger_plugin_relearn.foresight import FORECAST, Foresight, in_words
from snakemake_logger_plugin_relearn.screen import Screen

JOBS_WRITE_TO = "RELEARN_JOBS_WRITE_TO"
"""In the environment of the jobs: "log" keeps their words out of the terminal (`relearn.runs.console`)."""
LISTED = 20  # jobs that a dry run names
NOISE = re.compile(
    r"Building DAG of jobs|Using shell|Conda environments: ignored|Singularity containers|Group jobs: inactive|Select jobs to exec"
    r"|Execute \d+ jobs|Workflow finished|Elapsed time|Exiting because a job execution failed|Removing output files of failed job"
    r"|Shutting down, this might take some time|host: |Job stats:|Trying to restart job|The order of jobs"
    r"|Assuming unrestricted shared filesystem|Removing temporary output|.*At least one job did not complete successfully"
    r"|Config file .* is extended by additional config|Some jobs were triggered by provenance information|DAG of jobs will be updated"
    r"|Rules with missing metadata"
)
COPIED = re.compile(r"(\d+) jobs? ha(?:s|ve) missing provenance/metadata")
STOPPED = "Terminating processes on user request"
LOGS = re.compile(r"Complete log\(s\): (.*)")
NO_RULE = re.compile(r"No rule to produce (\S+)")


def start(settings: Any) -> Story:
    """The story of one call of Snakemake.

    Args:
        settings: Snakemake's settings of its output; a dry run writes to stdout.
    """
    return Story(settings, sys.stdout if settings.stdout else sys.stderr)


@dataclass
class Job:
    """A job that runs."""

    name: str
    rule: str
    output: str
    local: bool


class Story:
    """Keeps the count of jobs and writes what a person wants to know.

    Args:
        settings: Snakemake's settings of its output.
        stream: where to write.
        clock: seconds.
    """

    def __init__(self, settings: Any, stream: TextIO, clock: Any = time.monotonic) -> None:
        self.settings, self.clock = settings, clock
        quiet = {getattr(one, "name", str(one)).lower() for one in settings.quiet or ()}
        self.silent = "all" in quiet and not settings.dryrun
        self.jobs_shown = "rules" not in quiet
        self.progress_shown = "progress" not in quiet
        self.screen = Screen(stream, self._foot)
        self.ahead = Foresight(clock())
        self.running: dict[int, Job] = {}
        self.total = self.done = self.listed = 0
        self.failed: list[str] = []
        self.last_error = ""
        self.fallback: Any = None
        if settings.verbose or settings.debug_dag:
            from snakemake.logging import DefaultFormatter

            self.fallback = DefaultFormatter(settings.quiet, settings.show_failed_logs)
        elif not settings.dryrun:
            os.environ.setdefault(JOBS_WRITE_TO, "log")

    def tell(self, record: LogRecord) -> None:
        """Take one record. The thread that draws the foot reads the same state under the same lock."""
        with self.screen.lock:
            self._tell(record)

    def _tell(self, record: LogRecord) -> None:
        if self.silent and record.levelno < ERROR:
            return
        if self.fallback is not None:
            if text := self.fallback.format(record):
                self.screen.line(text)
            return
        event = getattr(record, "event", None)
        known = {
            Event.RUN_INFO: self._plan,
            Event.RESOURCES_INFO: self._resources,
            Event.JOB_INFO: self._begin,
            Event.JOB_FINISHED: self._finish,
            Event.JOB_ERROR: self._fail,
            Event.ERROR: self._refuse,
        }
        if event in known:
            known[event](record)
        elif event == Event.SHELLCMD and self.settings.printshellcmds:
            self.screen.line(str(record.__dict__.get("shellcmd") or ""))
        elif event is None:
            self._other(record)

    def end(self) -> None:
        self.screen.end()

    def _plan(self, record: LogRecord) -> None:
        stats = dict(record.__dict__["stats"])
        if self.settings.dryrun:
            if not self.listed:  # Snakemake says it before and after the jobs
                self.screen.line(str(record.msg).strip("\n"))
            return
        from relearn.studies import STUDIES

        # The rules that only gather files, `all` among them, are no work; those that are have more to say.
        counted = words.by_study(stats, tuple(STUDIES))
        self.total = sum(int(part.split()[-1]) for part in counted.split(", ") if part)
        self.ahead.start, self.ahead.unseen = self.clock(), self.total
        if self.jobs_shown and counted:
            self.screen.line(f"{_jobs(self.total)}: {counted}")
        self.screen.watch()

    def _resources(self, record: LogRecord) -> None:
        self.ahead.cores = record.__dict__.get("cores") or self.ahead.cores

    def _begin(self, record: LogRecord) -> None:
        said = record.__dict__
        step = words.step_of(said["rule_name"], said.get("shellcmd"))
        outputs = [str(one) for one in said["output"]]
        first = next((one for one in outputs if one.endswith("record.json")), "")
        name = words.name_of(step, said["wildcards"])
        job = Job(name, said["rule_name"], first, not said.get("shellcmd"))
        if self.settings.dryrun:
            self._list(job, str(said.get("reason") or ""))
            return
        if FORECAST and not self.ahead.jobs:
            self.ahead.jobs.update(FORECAST)
            self.total, self.ahead.unseen = len(FORECAST), 0
        self.running[said["jobid"]] = job
        if not job.local:
            self.ahead.begin(said["jobid"], step, self.clock())

    def _list(self, job: Job, reason: str) -> None:
        if job.local or not self.jobs_shown:
            return
        self.listed += 1
        if self.listed <= LISTED:
            reasons = [part.split(":")[0].strip().lower() for part in reason.split(";")]
            self.screen.line(f"  {job.name}: {', '.join(reasons)}")
        elif self.listed == LISTED + 1:
            self.screen.line("  … and more; `relearn jobs` prints them all")

    def _finish(self, record: LogRecord) -> None:
        number = record.__dict__["job_id"]
        job = self.running.pop(number, None)
        if job is None or job.local:
            return
        self.done += 1
        if job.name in self.failed:  # a retry
            self.failed.remove(job.name)
        now = self.clock()
        seconds = self.ahead.finish(number, now)
        if self.jobs_shown:
            left = "" if self.screen.live else self._left(now)
            self.screen.line(f"{self._count()}  {job.name}  {seconds:.1f} s{left and f'  ({left})'}")

    def _fail(self, record: LogRecord) -> None:
        said = record.__dict__
        job = self.running.pop(said["jobid"], None)
        step = words.step_of(said["rule_name"], said.get("shellcmd"))
        name = job.name if job else step
        after = self.ahead.fail(said["jobid"], self.clock())
        logs = [re.sub(r" \(.*\)$", "", str(one)) for one in said["log"]]
        if name not in self.failed:
            self.failed.append(name)
        self.screen.line(f"FAILED: {name}, after {after:.1f} s")
        self.screen.line(f"  error: {words.error_of(logs, said.get('rule_msg'))}")
        if logs:
            self.screen.line(f"  log: {logs[0]}")
        self.screen.line(
            f"  again, this job alone: {self._again(job.output if job else '', said['rule_name'])}"
        )

    def _again(self, record: str, rule: str) -> str:
        return shlex.join(["snakemake", *_config(sys.argv), "--", record or rule])

    def _refuse(self, record: LogRecord) -> None:
        text = str(record.msg)
        if self.failed and ("CalledProcessError" in text or NOISE.match(" ".join(text.split()))):
            return
        if "CalledProcessError" in text or "At least one job did not complete" in text:
            return  # the job's own line says why
        line = words.refusal(text)
        if found := NO_RULE.search(line):
            from relearn.cli.jobs import unknown

            line = unknown(found[1].rstrip("."))
        elif "not valid JSON or YAML" in line:
            line = words.fault_of_parameters() or line
        if line != self.last_error:
            self.screen.line(f"snakemake: {line}")
        self.last_error = line

    def _other(self, record: LogRecord) -> None:
        text = str(record.msg).strip("\n")
        if found := LOGS.match(text):
            self._close(found[1])
        elif text.startswith(STOPPED):
            self.screen.line(
                "stopping on request: checkpoints are kept, and the same command goes on (`relearn recover` says how)"
            )
        elif found := COPIED.match(text):  # Snakemake counts them as done, whatever their settings are
            self.screen.line(
                f"runs not registered in this checkout, such as copied ones: {found[1]}; `relearn adopt` checks and registers them"
            )
        elif record.levelno > DEBUG and text and text != "None" and not NOISE.match(text):
            if record.levelno >= WARNING:
                text = "\n".join(line for line in words.lines_of(text) if line.strip())
            self.screen.line(text)

    def _close(self, logs: str) -> None:
        self.screen.end()
        if self.failed:
            rest = self.total - self.done - len(self.failed)
            waiting = f", {rest} not run (most read what those make)" if rest > 0 else ""
            self.screen.line(
                f"{len(self.failed)} failed: {'; '.join(self.failed[:5])}{' …' * (len(self.failed) > 5)}"
            )
            self.screen.line(f"{self.done} of {_jobs(self.total)} done{waiting}")
        elif self.total:
            spent = in_words(self.clock() - self.ahead.start)
            self.screen.line(f"{self.done} of {_jobs(self.total)} done in {spent}")
        for log in logs.split(", "):
            self.screen.line(f"full log: {_relative(log)}")

    def _count(self) -> str:
        return f"{self.done:>{len(str(self.total))}} of {self.total}"

    def _left(self, now: float) -> str:
        left = self.ahead.left(now) if self.progress_shown and self.done < self.total else None
        return "" if left is None else f"about {in_words(left)} left"

    def _foot(self) -> str:
        if not self.progress_shown or not self.total:
            return ""
        now = self.clock()
        names = [job.name for job in list(self.running.values()) if not job.local]
        parts = [f"{self._count()} jobs", self._left(now), f"now: {', '.join(names)}" if names else ""]
        parts.insert(1, f"{len(self.failed)} failed" if self.failed else "")
        return " · ".join(part for part in parts if part)


def _relative(path: str) -> str:
    try:
        return Path(path).relative_to(Path.cwd()).as_posix()
    except ValueError:
        return path


def _config(argv: list[str]) -> list[str]:
    """The `--config` of a command line, with its values."""
    found: list[str] = []
    for at, word in enumerate(argv):
        if word in ("--config", "-C"):
            for value in argv[at + 1 :]:
                if value.startswith("-") or "=" not in value:
                    break
                found.append(value)
        elif word.startswith("--config="):
            found.append(word.partition("=")[2])
    return ["--config", *found] if found else []


def _jobs(number: int) -> str:
    return "1 job" if number == 1 else f"{number} jobs"
