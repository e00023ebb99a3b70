"""relearn evaluate-filter: measure a filter of your own on the recorded poisons, beside the recorded defences.

    relearn evaluate-filter my_module:MyFilter --arguments '{"fraction": 0.1}' --scale mini

The class has ``fit_predict(features, labels)``, 1 to keep a point and -1 to drop it (`relearn.methods.detector`); the module is
looked for in the working directory, too. Networks and poisons are those of results/<scale>. For each attack and victim the filter
runs on the poisoned sets, the victim is trained on what it keeps, and the same is done with unperturbed bases. The command
prints what success each defence leaves, less that of the control, with a 95% interval over targets, and the differences to the
recorded defences with intervals that are widened for their number; with fewer targets, victims or pairs than a claim needs, a
difference is underpowered (docs/verdicts.md). The runs are written below --out with their records.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from relearn.cli import output_folder

if TYPE_CHECKING:
    from relearn.studies.poisoning.own_method import Job

ATTACKS = ("feature_collision", "convex_polytope")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("filter", metavar="MODULE:CLASS")
    parser.add_argument("--arguments", default="{}", help="arguments of the class, as JSON")
    parser.add_argument(
        "--attacks",
        nargs="+",
        default=list(ATTACKS),
        help=f"recorded attacks on networks whose weights they do not know, no white_box_* ones; default: {' '.join(ATTACKS)}",
    )
    add_shared(parser)


def add_shared(parser: argparse.ArgumentParser) -> None:
    """The options that both verbs for methods of the user's own have."""
    parser.add_argument(
        "--setup",
        help="name of `relearn setups`, whose data the results must have; default: no check (poisons then need --eps)",
    )
    parser.add_argument("--scale", help="mini | small | medium | paper; default: the scale in params.yaml")
    parser.add_argument("--results", type=Path, help="finished runs; default: results/<scale>")
    parser.add_argument("--victims", nargs="+", default=[], help="default: all")
    parser.add_argument("--out", type=Path, default=Path("results/own"), help="default: results/own")
    parser.add_argument("--device", default="auto", help="auto | cpu | cuda | cuda:N")
    parser.add_argument("--precision", default="fp32", choices=("fp32", "bf16"))


def main(args: argparse.Namespace) -> int:
    """Check the class, run its jobs, print the comparison.

    Raises:
        ValueError: a class that breaks the contract, an unknown attack, victim or set-up, or files that are missing
            (FileNotFoundError); one line that says what to do.
    """
    from relearn.methods import ATTACKS as KNOWN
    from relearn.methods import DEFENCES
    from relearn.studies.poisoning import own_method
    from relearn.studies.poisoning.plan.poisons import WHITE_BOX

    output_folder.check("--out", args.out)
    allowed = [name for name in KNOWN if not name.startswith(WHITE_BOX)]  # those are of one victim's weights
    if unknown := sorted(set(args.attacks) - set(allowed)):
        raise ValueError(f"--attacks: found {unknown[0]}, allowed: {', '.join(allowed)}")
    try:
        arguments = json.loads(args.arguments)
    except ValueError as error:
        raise ValueError(f"--arguments: found {args.arguments!r}: {error}") from None
    if not isinstance(arguments, dict):
        raise ValueError(f"--arguments: found {args.arguments!r}, allowed: a JSON object")
    sys.path.insert(0, str(args.here))
    check(args.filter, arguments)
    DEFENCES[own_method.OWN] = args.filter
    values, results = load_results(args)
    changed = own_method.with_filter(values, args.attacks, arguments)
    jobs = own_method.jobs(changed, values["scale"], results, args.out, machine(args), args.victims)
    code = run(jobs)
    if code == 0:
        show(results, args.out, values["scale"], jobs, args.attacks)
    return code


def check(name: str, arguments: dict[str, Any]) -> None:
    """Import the class and try its contract on 60 points, as torch tensors: so does the run.

    A class with a parameter ``seed`` gets 0 here; a run gives it another one for each victim, seed and target.

    Raises:
        ValueError: a seed among the arguments; or the class cannot be imported, made or called, or its answer is not one of 1 and -1
            for every point, twice the same.
    """
    import numpy as np
    import torch

    module, colon, attribute = name.partition(":")
    if not colon:
        raise ValueError(f"found {name}, allowed: MODULE:CLASS")
    if "seed" in arguments:
        raise ValueError(
            "--arguments: found seed, allowed: the others; a run sets it for each victim, seed and target"
        )
    allowed = "allowed: 1 or -1 for each of 60 points from fit_predict(features, labels)"
    rng = np.random.default_rng(0)
    y = torch.arange(60) % 3
    X = torch.from_numpy(rng.normal(size=(60, 8))).float() + 2 * torch.eye(3, 8)[y]
    try:
        kind = getattr(importlib.import_module(module), attribute)
    except Exception as error:  # whatever a module raises while it is imported
        found = f"{type(error).__name__}: {str(error)[:200]}"
        raise ValueError(
            f"{name}: found {found}, allowed: module:Class of an installed module or of the working directory"
        ) from None
    try:
        seeded = {"seed": 0} if "seed" in inspect.signature(kind).parameters else {}
        made = kind(**arguments, **seeded)
        given = [made.fit_predict(X.clone(), y.clone()) for _ in range(2)]
    except Exception as error:
        raise ValueError(f"{name}: found {type(error).__name__}: {str(error)[:200]}, {allowed}") from None
    try:
        answers = [np.asarray(one) for one in given]
    except Exception:  # NumPy's for ragged lists, torch's for tensors with a gradient
        raise ValueError(
            f"{name}: found an answer of type {type(given[0]).__name__}, which is no array, {allowed}"
        ) from None
    values = answers[0].ravel().tolist()
    if answers[0].shape != (60,) or any(one not in (1, -1) for one in values):
        shown = ", ".join(sorted({repr(one)[:40] for one in values})[:4])
        raise ValueError(f"{name}: found shape {answers[0].shape}, values [{shown}], {allowed}")
    if not np.array_equal(answers[0], answers[1]):
        raise ValueError(
            f"{name}: found two answers to the same points, allowed: one (draw from a parameter seed, which each run sets)"
        )


def load_results(args: argparse.Namespace) -> tuple[dict[str, Any], Path]:
    """The parameters in force and the results folder, whose data set is that of the set-up.

    Raises:
        ValueError: no prepared data (FileNotFoundError), an unknown set-up, or data of another one.
    """
    from relearn.data import setups
    from relearn.data.arrays import load_prepared
    from relearn.studies import parameters

    known = setups.load()
    if args.setup and args.setup not in known:
        raise ValueError(f"--setup: found {args.setup}, allowed: {', '.join(known)}")
    values = parameters.load("params.yaml", scale=args.scale)
    results = args.results or Path("results") / values["scale"]
    found = sorted((results / "runs/poisoning/prepare_images").rglob("data.safetensors"))
    if not found:
        raise FileNotFoundError(f"{results}: found no prepared images; make them: {command(values['scale'])}")
    data = load_prepared(found[0])
    if args.setup and (faults := known[args.setup].faults(data)):
        raise ValueError(f"{found[0]}: {faults[0][:200]}")
    return values, results


def machine(args: argparse.Namespace) -> list[str]:
    return ["--device", args.device, "--precision", args.precision]


def command(scale: str) -> str:
    return f"snakemake --cores all --config scale={scale} -- poisoning"


def run(jobs: list[Job]) -> int:
    """Run the jobs in this process, one after another. Every run is made anew: a run that is there is replaced.

    Raises:
        ValueError: no job, or (FileNotFoundError) an input of a job is missing.
    """
    from relearn import cli

    if not jobs:
        raise ValueError("found no run of these attacks and victims in the plan; `relearn plan` shows it")
    if lacking := [path for job in jobs for path in job.missing]:
        scale = jobs[0].words[jobs[0].words.index("--scale") + 1]
        raise FileNotFoundError(f"{lacking[0]}: no such file (of {len(lacking)}); make it: {command(scale)}")
    for job in jobs:
        if code := cli.main(list(job.words)):
            return code
    return 0


def show(results: Path, out: Path, scale: str, jobs: list[Job], attacks: list[str] | None) -> None:
    """Print the boards, the shares removed and the differences of these jobs; write the boards' rows to leaderboard.csv."""
    from relearn.report import leaderboard, table_formats
    from relearn.runs.atomic_files import write
    from relearn.studies.poisoning import own_method

    lines = []
    for title, rows in own_method.boards(results, out, scale, jobs, attacks):
        print(f"\n{title}")
        for row in rows:
            line = row.line("%", 100.0)
            lines.append(line)
            value, low, high = line[6:9]
            rank = "-" if row.rank is None else row.rank
            note = f", {row.missing} missing" if row.missing else ""
            print(f"  {rank:>2} {row.cell:20} {row.method:24} {value:>6}% [{low}, {high}]  {row.over}{note}")
    print("\nremoved: poisons, clean points, MCC")
    for (attack, defence), (poisons, clean, mcc) in own_method.removed(out, scale, jobs).items():
        print(f"  {attack:20} {defence:24} {100 * poisons:6.1f}% {100 * clean:6.1f}% {mcc:6.2f}")
    found = own_method.differences(results, out, scale, jobs, attacks)
    print(f"\ndifference in points, with intervals that hold for all {len(found)} at 95%; above 0 is better")
    for one, reasons in found:
        low, estimate, high = (
            100 * value for value in (one.interval.low, one.interval.estimate, one.interval.high)
        )
        says = f"underpowered: {'; '.join(reasons)}" if reasons else f"better: {one.verdict}"
        print(f"  {one.name:45} {estimate:+6.1f} [{low:+.1f}, {high:+.1f}]  {says}")
    path = out / "leaderboard.csv"
    write(path, table_formats.csv_text(leaderboard.FIELDS, lines).encode())
    print(f"\nruns and records: {out / 'runs'}; rows: {path}")
