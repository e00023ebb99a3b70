"""A job refuses to run with code that was edited after it was planned: its record would name the code of the plan.

An engine plans all jobs once and passes each its code version. If a step is edited while jobs run and the edit is
reverted later, its results would count as made by the code that is there then. So the engine also passes a mark of the
package's files in RELEARN_PLANNED_SOURCE, and a job whose files have another mark computes its code version anew, once it
has its device. What it has loaded by then it keeps, so a later edit does no harm, except to a module that the step loads later.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from pathlib import Path

import relearn
from relearn.runs import plugins
from relearn.runs.warm.client import source_files, times_of

VARIABLE = "RELEARN_PLANNED_SOURCE"
PACKAGE = Path(relearn.__path__[0]).resolve()


def mark() -> str:
    """Two hashes of the package's files, ``times:contents``; the first is cheap and also changes if a file is only touched."""
    return f"{times_of(PACKAGE)}:{contents()}"


def contents() -> str:
    """A hash of what the package's files contain and of their names below the package."""
    found = hashlib.sha256()
    for path, *_ in sorted(source_files(str(PACKAGE))):
        with contextlib.suppress(FileNotFoundError):  # replaced at this moment
            content = hashlib.sha256(Path(path).read_bytes()).digest()
            found.update(f"{Path(path).relative_to(PACKAGE).as_posix()}\0".encode() + content)
    return found.hexdigest()[:16]


def check(folder: Path, scale: str, code: str) -> None:
    """Compare the code version of the run in ``folder`` with the planned one, ``code``, if a source file has changed.

    The mark does not cover the packages of plug-ins: a run that uses one is always compared. A run that params.yaml no longer
    plans is not checked.

    Raises:
        RuntimeError: the code of this run has changed since it was planned.
    """
    times, _, content = os.environ.get(VARIABLE, "").partition(":")
    if not content:
        return
    if plugins.MARK not in code and (times == times_of(PACKAGE) or content == contents()):
        return
    from relearn.forecast import planned
    from relearn.runs import code_version
    from relearn.studies import parameters

    try:
        values = parameters.load("params.yaml", scale=scale)
    except ValueError:  # params.yaml cannot run now: there is no version to compare with
        return
    job = planned.jobs_of(values).get(folder.as_posix())
    now = code if job is None else code_version.code_version(*job.modules)
    if now != code:
        raise RuntimeError(
            f"{folder}: its code was edited after the jobs were planned (version {now}, planned {code}); "
            "start the same command again"
        )
