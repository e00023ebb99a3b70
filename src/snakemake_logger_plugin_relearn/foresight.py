r"""How long the jobs that are left will take.

    left = max( (sum of the expected seconds that are left) / rate, the longest that is left of a running job )
    rate = (expected seconds that are done + cores x 30 s) / (time since the start + 30 s)

What a running job has done counts up to its expectation. A job is expected to take what the forecast says, otherwise the mean of
the finished jobs of its step, otherwise that of all finished jobs. The rate is the number of jobs at once, times how much faster than
expected they are; in the first half minute it is mostly the number of cores.
"""

from __future__ import annotations

import posixpath
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

TAU_S = 30.0
FORECAST: dict[int, tuple[str, float | None]] = {}
"""Snakemake's number of a job to its step and its expected seconds; filled by :func:`foresee`."""


def foresee(dag: Any, values: Mapping[str, Any]) -> None:
    """Take note of every job that is to run, before the first one starts.

    Args:
        dag: Snakemake's DAG; a job without a shell command, such as `all`, takes no time and is left out.
        values: the parameters in force.
    """
    seconds = _forecast(values)
    FORECAST.clear()
    for job in dag.needrun_jobs():
        if job.is_shell:
            named = dict(job.params.items())
            record = dict(job.output.items()).get("record", "")
            step = f"{named['study']}/{named['step']}" if record else job.rule.name
            FORECAST[dag.jobid(job)] = step, seconds.get(posixpath.dirname(record))


def _forecast(values: Mapping[str, Any]) -> dict[str, float]:
    """The forecast of every planned run, by folder; whatever is wrong with it, no run may fail for want of an estimate."""
    try:
        from relearn.forecast.planned import jobs_of
        from relearn.forecast.single import job_seconds

        return job_seconds(jobs_of(values).values())
    except Exception:
        return {}


@dataclass
class Foresight:
    """Which jobs are waiting, running and done, and when the last one will be through. Times are in seconds of any one clock.

    ``unseen`` jobs are only counted: of these not even the step is known.
    """

    start: float
    cores: int = 1
    unseen: int = 0
    jobs: dict[int, tuple[str, float | None]] = field(default_factory=dict)
    began: dict[int, float] = field(default_factory=dict)
    took: dict[int, float] = field(default_factory=dict)

    def begin(self, job: int, step: str, now: float) -> None:
        if job not in self.jobs:
            self.jobs[job] = (step, None)
            self.unseen = max(0, self.unseen - 1)
        self.began[job] = now

    def finish(self, job: int, now: float) -> float:
        """Return the seconds that the job took."""
        self.took[job] = now - self.began.pop(job, now)
        return self.took[job]

    def fail(self, job: int, now: float) -> float:
        """Return the seconds until the job failed; it is not waited for."""
        self.jobs.pop(job, None)
        return now - self.began.pop(job, now)

    def left(self, now: float) -> float | None:
        """Return the seconds until the last job is through; None where nothing is known yet."""
        usual = self._usual()
        if usual is None:
            return None
        expected = self._expected(usual)
        running = {
            job: min(now - since, expected[job]) for job, since in self.began.items() if job in expected
        }
        done = sum(expected[job] for job in self.took if job in expected) + sum(running.values())
        rest = sum(expected.values()) + self.unseen * usual - done
        rate = (done + min(self.cores, len(expected) + self.unseen) * TAU_S) / (now - self.start + TAU_S)
        longest = max((expected[job] - part for job, part in running.items()), default=0.0)
        return max(rest / rate, longest, 0.0)

    def _usual(self) -> float | None:
        """The mean of what has finished, before that of the forecast."""
        known = [seconds for _, seconds in self.jobs.values() if seconds is not None]
        every = list(self.took.values()) or known
        return sum(every) / len(every) if every else None

    def _expected(self, usual: float) -> dict[int, float]:
        means: dict[str, list[float]] = defaultdict(list)
        for job, seconds in self.took.items():
            means[self.jobs[job][0]].append(seconds)
        return {
            job: _mean(means.get(step), usual) if seconds is None else seconds
            for job, (step, seconds) in self.jobs.items()
        }


def _mean(values: list[float] | None, otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise


def in_words(seconds: float) -> str:
    """A duration as people say it: ``40 s``, ``8 min``, ``2.5 h``."""
    if seconds < 90:
        return f"{10 * max(1, round(seconds / 10))} s"
    return f"{seconds / 60:.0f} min" if seconds < 90 * 60 else f"{seconds / 3600:.1f} h"
