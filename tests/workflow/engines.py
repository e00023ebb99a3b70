"""Run in a scratch checkout: pretend to finish all jobs, then say what both engines find stale after edits.

    python engines.py < edits.json > answers.json

An edit is {"params": {dotted key: value}, "source": {path: text}}; each is made, judged and taken back. The
answer to it is {"all": the runs there are, "jobs": those that Snakemake would run, "stages": stages that DVC
finds changed themselves, "called": those and all that depend on a stage in which jobs run, and so on}. One
process for all edits: starting Snakemake and DVC costs seconds.
"""

import contextlib
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fake_job
import yaml
from fake_job import lay

from relearn.cli import code, jobs
from relearn.studies import STUDIES, parameters

CODE = Path("results/code")


def finish_jobs() -> list[jobs.Job]:
    """Make every record and artefact, and Snakemake's notes, as if everything had run; return the jobs."""
    with jobs.workflow() as built:
        theirs = [job for job in jobs.in_order(built) if job.is_shell]
        plan = [jobs.job_of(job) for job in theirs]
        promise(plan)
        for their, job in zip(theirs, plan):
            if job.record is None:
                fake_job.render()
            else:
                words = jobs.shlex.split(job.command.replace(f"$(dirname {job.record})", job.folder))
                fake_job.run(words[1:])
            built.async_run(built.persistence.finished(their))
    return plan


def finish() -> None:
    """Do the same, and make the notes of DVC as well."""
    from dvc.repo import Repo

    finish_jobs()
    write_code()
    with Repo() as repo:
        for out in repo.index.outs:
            if not Path(out.fs_path).suffix:  # a folder: its stage's command makes it where no run does
                Path(out.fs_path).mkdir(parents=True, exist_ok=True)
        repo.commit(force=True)


def promise(plan: list[jobs.Job]) -> None:
    """Tell the pretended render what it has promised."""
    Path("promised.json").write_text(
        json.dumps([path for job in plan if not job.record for path in job.outputs])
    )


def asked() -> dict[str, list[str]]:
    """The files that each target asks for: the inputs of the rules that make nothing themselves."""
    with jobs.workflow() as built:
        return {rule.name: [str(path) for path in rule.input] for rule in built.rules if not rule.output}


def write_code() -> None:
    """Do what the stage `code` does."""
    code.write(CODE, code.versions(code.today(parameters.load("params.yaml"))))


def name_of(job: jobs.Job) -> str:
    """A run by the end of its folder: train/transfer/clean/none/ResNet18/seed0; gradinit/check_batch_norm/seed0."""
    if not job.record:
        return job.rule
    return job.folder.partition("/runs/")[2].removeprefix("poisoning/")


def judge(graph: Any) -> dict[str, list[str]]:
    from dvc.repo import Repo

    with jobs.workflow() as built:
        theirs = [job for job in jobs.in_order(built) if job.is_shell]
        plan = [jobs.job_of(job) for job in theirs]
        names = [name_of(job) for job in plan]
        stale = [name for name, job in zip(names, theirs) if built.dag.needrun(job)]
    write_code()
    with Repo() as repo:
        status = repo.status()
    # The stage `code` always runs; what it writes is ours here.
    stages = [name for name, found in status.items() if name != "code" and _changed(found)]
    return {"all": names, "jobs": stale, "stages": stages, "called": called(graph, stages, stale)}


def _changed(found: list[Any]) -> bool:
    return any(isinstance(one, dict) for one in found)


def stage_graph() -> Any:
    """DVC's graph with the stages' names; edges lead from a stage to what it depends on."""
    import networkx
    from dvc.repo import Repo

    with Repo() as repo:
        return networkx.relabel_nodes(repo.index.graph, lambda stage: stage.addressing)


def called(graph: Any, changed: list[str], stale: list[str]) -> list[str]:
    """The stages whose command `dvc repro` runs: changed ones, and those below a called one that runs jobs."""
    import networkx

    busy = {stage_of(name) for name in stale}
    found = set(changed)
    for name in reversed(list(networkx.topological_sort(graph))):  # inputs first
        if any(above in found and above in busy for above in graph.successors(name)):
            found.add(name)
    return sorted(found)


def stage_of(name: str) -> str:
    """The stage of a run: its study; a name without a study is one of poisoning."""
    first = name.partition("/")[0]
    return first if first in (*STUDIES, "render") else "poisoning"


@contextlib.contextmanager
def edited(edit: dict[str, Any]) -> Iterator[None]:
    files = {Path(path): text for path, text in edit.get("source", {}).items()}
    if "params" in edit:
        values = yaml.safe_load(Path("params.yaml").read_text())
        lay(edit["params"], values)
        files[Path("params.yaml")] = yaml.safe_dump(values, sort_keys=False)
    before = {path: path.read_text() for path in files}
    before |= {path: path.read_text() for path in CODE.iterdir()}
    for path, text in files.items():
        path.write_text(text)
    try:
        yield
    finally:
        for path, text in before.items():
            path.write_text(text)


def main() -> None:
    answers = sys.stdout
    sys.stdout = sys.stderr
    os.environ["DVC_NO_ANALYTICS"] = "1"
    finish()
    graph = stage_graph()
    found = []
    for edit in json.load(sys.stdin):
        with edited(edit):
            found.append(judge(graph))
    json.dump(found, answers)


if __name__ == "__main__":
    main()
