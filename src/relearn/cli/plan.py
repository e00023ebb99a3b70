"""relearn plan: what would run at a scale, why, and what it costs; nothing is started.

For each study and step: jobs to do, done and stale with the reason, CPU hours (GPU hours with --device), wall time here, memory,
disk, the longest chain of jobs, and the data sets with their sources. Every cost is a forecast with a range that should contain
four of five measurements. docs/forecast.md explains how forecasts are made and how accurate they were.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from relearn.forecast.machine import Machine


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "target",
        nargs="*",
        help="a name of `relearn list`, study/step, or a file or folder of a run; default: all",
    )
    add("--scale", help="mini | small | medium | paper; default: the scale in params.yaml")
    add("--study", action="append", default=[], help="show only this study; may be repeated")
    add(
        "--device",
        default="cpu",
        help="cpu (this machine) | epyc | xeon_amx | a100 | h100 | h200; GPUs by published peak",
    )
    add("--jobs-per-device", type=int, default=1, help="jobs that share a GPU; default: 1")
    add("--precision", default="fp32", choices=("fp32", "bf16"), help="of the jobs; default: fp32")
    add("--cores", type=int, help="cores of this machine that jobs may use; default: all")
    add("--json", action="store_true", help="print JSON")
    other = parser.add_mutually_exclusive_group()
    other.add_argument(
        "--calibrate",
        action="store_true",
        help="measure this machine, in less than a minute, for all later forecasts",
    )
    other.add_argument(
        "--evidence",
        nargs="+",
        type=Path,
        metavar="FOLDER",
        help="rebuild the shipped table from results/published/...",
    )
    other.add_argument("--check", action="store_true", help="compare forecasts with measurements")


def main(args: argparse.Namespace) -> int:
    from relearn.cli import targets
    from relearn.forecast import machine, summary, text
    from relearn.studies import parameters
    from relearn.studies.study import load

    for word, count in (("--cores", args.cores), ("--jobs-per-device", args.jobs_per_device)):
        if count is not None and count < 1:
            raise ValueError(f"{word}: found {count}, allowed: at least 1")
    for study in args.study:
        load(study)
    if args.evidence:
        return collect(args.evidence)
    if args.check:
        return check()
    params = parameters.load("params.yaml", scale=args.scale)
    if args.calibrate:
        return calibrate(params)
    on = machine.this_machine(args.cores) if args.device == "cpu" else machine.device(args.device)
    on = replace(on.at(args.precision), jobs_per_device=args.jobs_per_device)
    found = summary.forecast(params, targets.selection(args.target, params), on=on, studies=args.study)
    if args.target and args.study and not found.parts:
        raise ValueError(f"--study {' '.join(args.study)}: no run of {' '.join(args.target)} is of it")
    if args.json:
        import json

        print(json.dumps(text.to_dict(found, params["scale"], on), indent=1))
    else:
        print(text.page(found, params["scale"], on), end="")
    return 0


def collect(folders: Sequence[Path]) -> int:
    """Rebuild the shipped table from published records, with efficiencies fitted to them; count the FLOPs of networks not counted yet."""
    from relearn.forecast import counting, counts, evidence, fitting

    nets = [net for folder in folders for net in evidence.networks(folder)]
    counts.keep(
        counting.count_missing(nets, lambda line: print(f"not counted: {line}", file=sys.stderr)),
        counts.SHIPPED,
    )
    rows = [row for folder in folders for row in evidence.published_rows(folder)]
    found = fitting.efficiencies(rows)
    evidence.keep(rows, found)
    print(f"{evidence.SHIPPED}: {len(rows)} runs; efficiencies {', '.join(f'{one:.2f}' for one in found)}")
    return 0


def check() -> int:
    """Print the table of docs/forecast.md."""
    from relearn.forecast import check as against
    from relearn.forecast import evidence, fitting

    efficiencies, rows = evidence.load_shipped()
    lines = against.lines(rows, efficiencies, fitting.efficiencies)
    print(against.markdown(lines), end="")
    return 0


def calibrate(params: dict[str, Any]) -> int:
    """Measure this machine, and count the networks of the plan that have not been counted yet."""
    from relearn.forecast import calibrate as measure
    from relearn.forecast import counting, counts, machine, planned
    from relearn.studies.work import Net, work_of

    found = measure.calibrate()
    print(f"{machine.keep(found)}: written; {text_of(found)}")
    works = (work_of(job) for job in planned.jobs_of(params).values())
    nets = [one.net for work in works if work for one in work.passes if isinstance(one.net, Net)]
    new = counting.count_missing(nets, lambda line: print(f"not counted: {line}", file=sys.stderr))
    if new:
        counts.keep(new, counts.own_file())
        print(f"{counts.own_file()}: {len(new)} networks counted")
    return 0


def text_of(found: Machine) -> str:
    """The rates in one line."""
    return (
        f"{found.name}: {found.convolutions / 1e9:.0f} GFLOP/s in convolutions, {found.products / 1e9:.0f} in products, "
        f"in bf16 {found.bf16_convolutions / 1e9:.0f} and {found.bf16_products / 1e9:.0f}, "
        f"{found.bandwidth / 1e9:.1f} GB/s, {found.calls / 1e3:.0f} thousand calls per second, {found.start_s:.2f} s per start"
    )
