"""relearn publish: write a published set: runs as Parquet, report, tables, figures, claims.

The set goes to results/published/<scale>. It is refused if the runs of a study come from several commits or from a
working tree with changes. `--study` replaces the runs of one study and keeps those of the others; with `--add` a study is published
in parts: its published runs stay if today's plan has them with the same settings and the same code version, and with `--allow-mixed`
of whatever code version. A set that would lose published runs which are still planned is refused, too. Everything in the set is rendered
from its own Parquet files, so it can be rendered from them again. An existing README.md is kept, except for the part that this command
writes. Weights, data, and files that no table, figure or claim reads are not copied. The last lines name every claim whose verdict is
another one than in the set before.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from relearn.cli import render

if TYPE_CHECKING:
    from relearn.report.runs import Run

PUBLISHED = Path("results/published")
LARGEST = 40_000
"""Bytes of a file other than a table that goes into the set; a figure of a larger one is left out."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--scale", help="mini | small | medium | paper; default: that of a set, or the scale in params.yaml")
    add(
        "--from",
        dest="source",
        type=Path,
        metavar="FOLDER",
        help="default: results/<scale>; may be a published set",
    )
    add(
        "--study",
        action="append",
        metavar="STUDY",
        help="only this study's runs; the others stay as published",
    )
    add(
        "--add",
        action="store_true",
        help="with --study: add to its published runs, which must be of clean commits with the same code for each run",
    )
    add("--to", type=Path, help="default: results/published/<scale>")
    add("--params", type=Path, default=Path("params.yaml"), help="the parameters in force")
    add(
        "--allow-mixed",
        action="store_true",
        help="allow runs of several commits or code versions, or with uncommitted changes; README.md then says so",
    )
    add(
        "--allow-fewer",
        action="store_true",
        help="allow that published runs which are still planned get lost",
    )


def main(args: argparse.Namespace) -> int:
    """Write the set, all of it or nothing.

    Raises:
        ValueError: no valid record of the scale, an invalid record, an unknown study, a file in place of --to, runs of one study
            that come from more than one clean commit, or published runs that would be lost.
        FileNotFoundError: no folder of records.
    """
    from relearn.cli import output_folder
    from relearn.report import changes, published_set, runs
    from relearn.report.layout import Layout
    from relearn.runs import run_store
    from relearn.runs.atomic_files import staged
    from relearn.runs.record_file import RecordError
    from relearn.runs.run_store import is_store
    from relearn.studies.study import load

    if args.to:
        output_folder.check("--to", args.to)
    asked = argparse.Namespace(**vars(args), root=None, artefact=None, cores=None)
    values, found, problems = render.inputs(asked)
    if asked.unplanned:
        print(f"left out: {asked.unplanned}")
    target = args.to or PUBLISHED / asked.scale
    _check(target)
    if args.add and not args.study:
        raise ValueError("--add: found no --study, allowed: with at least one")
    if args.study:
        for name in args.study:
            if not any(run.study == load(name).name for run in found):
                raise ValueError(f"--study {name}: no run of it at scale {asked.scale}")
        fresh = [run for run in found if run.study in args.study]
        kept, broken = runs.load(target, asked.scale) if is_store(target) else ([], [])
        found = fresh + [run for run in kept if run.study not in args.study]
        if args.add:
            found += _same(values, fresh, [run for run in kept if run.study in args.study], args.allow_mixed)
        problems = [*problems, *broken]
    found.sort(key=lambda run: run.folder)
    if not (args.add or args.allow_fewer):
        _complete(asked.source or asked.root, target, values, found)
    if problems:
        raise RecordError(f"{problems[0]} (of {len(problems)} records that cannot be published)")
    page = target / "README.md"
    before = page.read_text(encoding="utf-8") if page.is_file() else ""
    parts = published_set.in_parts(before)
    for name in args.study or ():
        parts.pop(name, None)
        if args.add:
            parts[name] = published_set.ANY_CODE if args.allow_mixed else published_set.SAME_CODE
    for study, of in published_set.by_study(found).items():
        sound = published_set.one_clean_commit(of) or (study in parts and published_set.clean(of))
        if not args.allow_mixed and not sound:
            raise ValueError(
                f"--scale {asked.scale}: {study}: {published_set.mixture(of)}; allowed: one clean commit, or --allow-mixed"
            )
    target.mkdir(parents=True, exist_ok=True)
    held = {run.record["run"]: run for run in found}
    try:
        was = changes.read(target)
    except (FileNotFoundError, RecordError):  # no set, or a damaged one, which this one replaces
        was = None

    def content(record: run_store.Record, name: str) -> bytes | None:
        run = held[record["run"]]
        # Of a training that chooses a rate, only the record is read.
        chooses = run.labels.get("suite") == "tuning" and name.endswith(".csv")
        patterns = load(run.study).unpublished.get(record["step"], ())
        unread = any(map(PurePosixPath(run.folder, name).match, patterns))
        if chooses or unread or not run.has(name):
            return None
        found = run.content(name)
        return found if name.endswith(".csv") or len(found) <= LARGEST else None

    ours = {f"figures/{Path(name).stem}.png" for name in published_set.csv_files(target, "figures")}
    ours |= {f"{name}.parquet" for name in ("runs", "trials", "rows", "files", "tables", "figures")}
    with staged(target) as new:
        run_store.write(new, [dict(run.record) for run in found], [run.folder for run in found], content)
        stored, _ = runs.load(new, asked.scale)
        covered, judged = render.write(asked, new, values, stored, (), Layout(published=True))
        published_set.gather(new, empty=[one.artefact for one in covered if not one.measured])
        text = published_set.readme(before, asked.scale, stored, judged, parts)
        (new / page.name).write_text(text, encoding="utf-8", newline="\n")
        made = {path.relative_to(new) for path in new.rglob("*")}
    for name in ours - {path.as_posix() for path in made}:
        (target / name).unlink(missing_ok=True)  # of a figure that no longer exists, or a table without rows
    size = sum((target / path).stat().st_size for path in made if (target / path).is_file())
    print(f"published {len(stored)} runs in {target}, {size / 2**20:.1f} MiB")
    for one in changes.of_claims(was, changes.read(target)) if was else ():
        if one.kind == "verdict":
            before, now = (word.replace("_", " ") for word in one.words)
            print(f"{one.name}: {before} before, {now} now")
    return 0


def _check(target: Path) -> None:
    """Refuse a folder of other files: what is no part of the new set would be removed from it."""
    from relearn.runs.run_store import is_store

    there = target.iterdir() if target.is_dir() else ()
    # a person may write the page first; what a killed call leaves is hidden
    if any(one.name != "README.md" and one.name[0] != "." for one in there) and not is_store(target):
        raise ValueError(
            f"--to {target}: found a folder with other files, allowed: a new or empty folder, or a published set"
        )


def _complete(source: Path, target: Path, values: dict[str, Any], found: Sequence[Run]) -> None:
    """Refuse to replace a set by one without some of its planned runs."""
    from relearn.cli.planned_runs import planned_settings
    from relearn.report import runs
    from relearn.runs.record_file import RecordError
    from relearn.runs.run_store import is_store

    try:
        kept = runs.load(target, values["scale"])[0] if is_store(target) else []
    except RecordError:  # a damaged set may be replaced
        return
    there, planned = {run.folder for run in found}, planned_settings(values)
    lost = [run.folder for run in kept if run.folder not in there and planned(run.folder) is not None]
    if lost:
        raise ValueError(
            f"{source}: {len(lost)} of the {len(kept)} runs in {target} are not there, such as {lost[0]}; "
            "allowed: all of them, --study NAME --add, or --allow-fewer"
        )


def _same(values: dict[str, Any], fresh: Sequence[Run], kept: Sequence[Run], any_code: bool) -> list[Run]:
    """The published runs that today's plan has with the same settings and the same (or any) code, and that are not made anew.

    A run whose input files are not those that the runs beside it have made goes, too: its settings do not say what made them.
    """
    from relearn.cli import code

    planned = {made.run: made.code for made in code.today(values)}
    anew = {run.folder for run in fresh}
    kept_in_plan = [run for run in kept if run.record["run"] in planned]
    same = [
        run for run in kept_in_plan if any_code or planned[run.record["run"]] == run.record["code"]["version"]
    ]
    unchanged = [run for run in same if run.folder not in anew]
    made_by_published = {file for run in kept for file in _made(run)}
    left: list[Run] = unchanged
    sound: list[Run] = []
    while len(sound) != len(left):
        sound = left
        there = {file: sha256 for run in (*fresh, *sound) for file, sha256 in _made(run).items()}
        left = [
            run
            for run in sound
            if all(
                there.get(file) == sha256
                for file, sha256 in _taken(run).items()
                if file in there or file in made_by_published
            )
        ]
    print(
        f"{len(left)} published runs stay, {len(same) - len(unchanged)} are replaced, "
        f"{len(unchanged) - len(left)} had other inputs, {len(kept) - len(same)} are not in the current plan"
    )
    return left


def _made(run: Run) -> dict[str, str]:
    """Checksums of a run's files by their path below the folder of results."""
    return {f"{run.folder}/{one['path']}": one["sha256"] for one in run.record["outputs"].values()}


def _taken(run: Run) -> dict[str, str]:
    """Checksums of a run's input files by their path below the folder of results."""
    files = [one for several in run.record["inputs"].values() for one in several]
    return {f"runs/{one['path'].rpartition('/runs/')[2]}": one["sha256"] for one in files}
