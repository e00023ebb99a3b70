"""relearn reproduce: run what a paper, chapter, study, table, figure or claim needs; render and print it.

    relearn reproduce table2.2
    relearn reproduce kim2020 claim:hull_proposition --scale small
    relearn reproduce chapter4 --dry-run

`relearn list` prints all names. `snakemake --cores all table2.2` does the same. Finished runs are not repeated.
"""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from relearn.cli import targets
from relearn.cli.processes import SIGNALLED
from relearn.cli.targets import Target

ALL = "all"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("target", nargs="+", help="kim2020, chapter2, poisoning, table2.2, fig4.4, claim:NAME, …, or all")
    add("--scale", help="mini | small | medium | paper; default: the scale in params.yaml")
    add("--cores", default="all", help="jobs at once; default: as many as there are cores")
    add("-n", "--dry-run", action="store_true", help="print what would run")


def main(args: argparse.Namespace) -> int:
    """Run Snakemake for the targets and return its status.

    Raises:
        ValueError: no such target, or none of its runs is planned at this scale.
    """
    from relearn.cli import show
    from relearn.studies import parameters

    if args.cores != ALL and not (args.cores.isdecimal() and int(args.cores)):
        raise ValueError(f"--cores: found {args.cores}, allowed: all, or a number of at least 1")
    values = parameters.load("params.yaml", args.scale)
    if args.target == [ALL]:
        return _snakemake(args, [])
    if ALL in args.target:
        raise ValueError(f"found {ALL} with other targets, allowed: {ALL} alone, or others without it")
    wanted = [targets.find(name) for name in args.target]
    plans = targets.plans(values)
    for target in wanted:
        print(announce(target, plans, values["scale"]), file=sys.stderr, flush=True)
    status = _snakemake(args, [target.name for target in wanted])
    studies = [
        target for target in wanted if target.kind == "studies"
    ]  # the others are rendered by their rules
    if status == 0 and not args.dry_run:
        for target in studies:
            print(show.text(target, values["scale"], show.Path("params.yaml")), end="")
    return status


def announce(target: Target, plans: targets.Plans, scale: str) -> str:
    """The line that says how many runs a target consists of.

    Raises:
        ValueError: none at this scale.
    """
    found, exact = targets.records_at(scale, target, plans)
    needed = targets.needed(found, plans)
    how = "" if exact else f" ({targets.ALL_OF_ITS_STEPS})"
    runs = f"{len(found)} run" + "s" * (len(found) != 1)
    return f"{target.name}: made of {runs}{how}; {len(needed)} with their inputs"


def _snakemake(args: argparse.Namespace, names: list[str]) -> int:
    words = ["snakemake", "--cores", args.cores]
    words += ["--config", f"scale={args.scale}"] if args.scale else []
    words += ["--dry-run"] if args.dry_run else []
    words += ["--", *names] if names else []
    print(f"$ {shlex.join(words)}", file=sys.stderr, flush=True)
    # The rules call `relearn` by its name: the programs beside this Python come first, also if its environment is not activated.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    return until_it_ends([sys.executable, "-m", *words], {**os.environ, "PATH": path})


def until_it_ends(command: list[str], environment: Mapping[str, str] | None = None) -> int:
    """Run the engine and return its exit status. It is waited for when interrupted, too: it saves checkpoints and unlocks.

    A terminal sends Ctrl-C to both; SIGTERM is passed on.
    """
    asked: list[int] = []
    with subprocess.Popen(command, env=environment) as engine:

        def note(number: int, _: Any) -> None:
            asked.append(number)
            if number == signal.SIGTERM:
                engine.send_signal(number)

        before = {one: signal.signal(one, note) for one in (signal.SIGINT, signal.SIGTERM)}
        try:
            status = engine.wait()
        finally:
            for one, handler in before.items():
                signal.signal(one, handler)
    return SIGNALLED + asked[0] if asked and status else status
