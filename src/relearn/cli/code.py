"""relearn code: print the code version and identity of each planned run, by study and step.

DVC compares parameters and files, not functions, and it is not aware of overlays. Its first stage therefore writes a file per study
(--out FOLDER), and the stage of that study depends on it. An edited formula, an edited overlay or a changed grid of runs
thus makes the same stages stale in DVC as it makes jobs stale in Snakemake. params.yaml is checked on the way.

`relearn code --done STUDY` checks instead whether every run of a study is there, made with today's settings, code and inputs: status
0 if so, 1 if not. A stage of DVC checks this before it starts Snakemake.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from relearn.studies import STUDIES

RENDER = "render"  # the entry that belongs to no study


class Made(NamedTuple):
    """What identifies one run: its name, code version, run id and the paths of its inputs."""

    study: str
    step: str
    name: str
    code: str
    run: str
    inputs: tuple[str, ...]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("target", nargs="*", help="a study, study/step, or a file or folder of a run; default: everything")
    add("--scale", help="mini | small | medium | paper; default: the scale in params.yaml")
    add("--out", type=Path, help="write a file for each study into this folder")
    add("--done", action="store_true", help="only ask whether the targets are done")


def main(args: argparse.Namespace) -> int:
    """Print or write the versions, or report whether everything is done.

    Raises:
        ValueError: parameters that cannot run, a target that matches no run, or an --out that is a file or has no effect.
    """
    from relearn.cli import output_folder
    from relearn.studies import parameters

    if args.done and args.out:
        raise ValueError(f"--out {args.out}: found with --done, which writes nothing; allowed: one of them")
    if args.out:
        output_folder.check("--out", args.out)
    if blank := [one for one in args.target if not one.strip()]:
        allowed = f"a study ({', '.join(STUDIES)}), study/step, or a file or folder of a run"
        raise ValueError(f"target: found {blank[0]!r}, allowed: {allowed}")
    params = parameters.load("params.yaml", scale=args.scale)
    if args.done:
        return _ask(params, args.target)
    found = versions(today(params, args.target))
    if args.out is None:
        print(json.dumps(found, indent=1))
    else:
        write(args.out, found)
    return 0


def today(params: dict[str, Any], targets: Iterable[str] = ()) -> list[Made]:
    """Every planned run of the targets; without targets, all runs and the rendering."""
    from relearn.cli.render import code_of_report
    from relearn.forecast import planned, state
    from relearn.runs import code_version

    code_version.forget()  # the source may have changed since this process last read it
    book = planned.jobs_of(params)
    jobs = planned.with_ancestors(book, [*targets])
    found = []
    for job in jobs:
        paths = sorted(path for several in job.inputs.values() for path in several)
        name = job.folder.partition(f"/runs/{job.study}/{job.step}/")[2]
        version = code_version.code_version(*job.modules)
        found.append(Made(job.study, job.step, name, version, state.run_of(job), tuple(paths)))
    if not targets:
        found.append(Made(RENDER, RENDER, RENDER, code_of_report(), "", tuple(sorted(book))))
    return found


def versions(runs: Iterable[Made]) -> dict[str, dict[str, dict[str, str]]]:
    """Return study → step → run → code version and identity; the rendering is under ``render``.

    A run is named by the end of its folder, ``substitute/ResNet18-drop0.2/seed0``. Its identity is a hash of the
    run id (settings, labels, scale, seed) and of the names of its inputs, so that a report on fewer runs has another identity.
    """
    found: dict[str, dict[str, dict[str, str]]] = {}
    for one in runs:
        identity = hashlib.sha256("\n".join([one.run, *sorted(one.inputs)]).encode()).hexdigest()[:16]
        found.setdefault(one.study, {}).setdefault(one.step, {})[one.name] = f"{one.code} {identity}"
    return found


def write(folder: Path, found: dict[str, dict[str, dict[str, str]]]) -> None:
    """Write one file per study and one for the rendering; the file of a study without runs is an empty mapping."""
    from relearn.runs.atomic_files import write as written

    folder.mkdir(parents=True, exist_ok=True)
    for name in (*STUDIES, RENDER):
        written(folder / f"{name}.json", f"{json.dumps(found.get(name, {}), indent=1)}\n".encode())


def _ask(params: dict[str, Any], targets: list[str]) -> int:
    from relearn.forecast import planned, state

    jobs = planned.with_ancestors(planned.jobs_of(params), targets)
    states = state.states(jobs, state.records_of(jobs))
    left = [folder for folder, one in states.items() if one.what != state.DONE]
    what = ", ".join(targets) or "everything"
    summary = f"{len(left)} of {len(jobs)} runs to do" if left else f"{len(jobs)} runs done"
    print(f"{what}: {summary}", file=sys.stderr)
    return int(bool(left))
