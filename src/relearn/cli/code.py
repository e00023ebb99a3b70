"""relearn code: code version and identity of each of today's jobs, keyed study.step, for a reader and for DVC.

DVC compares parameters and files, not functions, and it knows nothing of an overlay. Its first stage writes
this JSON, and every other stage depends on its own part of it, so that an edited formula, an edited overlay and
a grid that grows or shrinks make the same stages stale as they make jobs stale in Snakemake.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from relearn.cli import jobs
from relearn.studies.study import load


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", nargs="*", help="rules or files, as for snakemake; default: everything")
    parser.add_argument("--scale", help="mini | small | medium | paper; default: the scale in params.yaml")
    parser.add_argument("--out", type=Path, help="write the JSON to this file, such as results/code.json")


def main(args: argparse.Namespace) -> int:
    text = json.dumps(versions(jobs.plan(args.target, {"scale": args.scale} if args.scale else {})), indent=1)
    if args.out is None:
        print(text)
        return 0
    from relearn.runs.atomic_files import write

    args.out.parent.mkdir(parents=True, exist_ok=True)
    write(args.out, f"{text}\n".encode())
    print(f"{args.out}: written", file=sys.stderr)
    return 0


def versions(plan: Sequence[jobs.Job]) -> dict[str, dict[str, dict[str, str]]]:
    """Return study → step → run → code version and identity; what belongs to no study stands under ``all``.

    A run is named by the end of its folder, ``substitute/ResNet18-drop0.2/seed0``. Its identity is a hash of the
    run id (settings, labels, scale, seed) and of the names of its inputs: a report on fewer runs is another one.
    Each study has every step, some of them without runs: DVC refuses a stage that depends on a key that is not there.
    """
    found: dict[str, dict[str, dict[str, str]]] = {}
    for job in plan:
        name = job.folder.partition(f"/runs/{job.study}/{job.step}/")[2] if job.record else job.rule
        known = [job.run if job.record else "", *sorted(job.inputs)]
        identity = hashlib.sha256("\n".join(known).encode()).hexdigest()[:16]
        of_study = found.setdefault(
            job.study or "all", {step: {} for step in (load(job.study).steps if job.study else ())}
        )
        of_study.setdefault(job.step, {})[name] = f"{job.code} {identity}"
    return found
