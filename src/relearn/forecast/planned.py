"""Lists every job in the studies' plans at one scale, without running Snakemake."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, KeysView, Mapping, Sequence
from typing import Any

from relearn.studies import STUDIES
from relearn.studies.family import Family
from relearn.studies.study import load
from relearn.studies.work import Job


def jobs_of(params: Mapping[str, Any]) -> dict[str, Job]:
    """The jobs by folder, in the order of the studies and of their plans.

    Args:
        params: all parameters, with their ``scale``.
    """
    book: dict[str, Job] = {}
    for study in STUDIES:
        plan: Mapping[str, Family] = load(study).part("plan").plan(params, params["scale"])
        for family in plan.values():
            module = load(study).steps[family.step]
            for run in family.runs:
                cell = {name: value for name, value in run.items() if name != "seed"}
                folder = posixpath.dirname(family.path(**run))
                book[folder] = Job(
                    study=study,
                    step=family.step,
                    scale=params["scale"],
                    seed=int(run.get("seed", 0)),
                    labels=family.labels_of(**cell),
                    settings=family.settings_of(**cell),
                    folder=folder,
                    inputs=family.inputs_of(**run),
                    outputs=tuple(family.outputs.values()),
                    modules=(module, *family.modules_of(**cell)),
                    needs=family.needs,
                    book=book,
                )
    return book


def with_ancestors(book: Mapping[str, Job], targets: Sequence[str]) -> list[Job]:
    """The jobs selected by targets and all jobs whose outputs these read, in the order of the plan.

    Args:
        book: all jobs by folder.
        targets: a study, ``study/step``, or a file or folder in ``results/``; none, or ``all``: everything.

    Raises:
        ValueError: a target matches no job.
    """
    wanted: set[str] = set()
    for target in targets or ("all",):
        found = (
            [target]
            if target in book
            else [folder for folder, job in book.items() if matches(job, target.rstrip("/"))]
        )
        if not found:
            raise ValueError(
                f"target: found {target}, allowed: all, a study ({', '.join(STUDIES)}), study/step, or a file or folder of a run"
            )
        wanted.update(found)
    needed = reached(wanted, lambda folder: (job.folder for job in book[folder].before))
    return [job for folder, job in book.items() if folder in needed]


def reached(folders: Iterable[str], before: Callable[[str], Iterable[str]]) -> KeysView[str]:
    """These folders and all that lead to them, each once; ``before`` names the folders whose files a run reads."""
    waiting, seen = list(folders), dict[str, None]()
    while waiting:
        if (folder := waiting.pop()) not in seen:
            seen[folder] = None
            waiting += before(folder)
    return seen.keys()


def matches(job: Job, target: str) -> bool:
    """Whether a target selects a job."""
    if target in ("all", job.study, f"{job.study}/{job.step}"):
        return True
    inside = job.folder == target or job.folder.startswith(f"{target}/")
    return inside or any(target == f"{job.folder}/{name}" for name in ("record.json", *job.outputs))
