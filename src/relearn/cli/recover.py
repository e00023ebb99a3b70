"""relearn recover: what a crash has left in this checkout, which of it is safe to clear, and how to go on.

It looks for engines and jobs that are still alive, Snakemake's lock, unfinished runs, damaged records, artefacts and
spools, and temporary files of dead writers; among these are the partly decoded validation images in the cache.

It clears (not with --dry-run) a lock that no living Snakemake holds, and the temporary files. The cache may be shared with other
checkouts and machines: a file stays there if the process in its name lives, or if it was written less than ten minutes ago.

It renames to ``record.json.aside`` a record that is truncated or edited, whose artefacts are missing or do not match it, or
whose inputs have changed since it was made. Every target requires every record, so the job of such a record runs again.
Modification times play no part in that. In the same way it renames a spool from which no attempt could go on.
While an engine or a job of this checkout is alive, nothing is changed. A file that has changed since it was read is left alone.

The command that it advises has passed a dry run.

Exit status: 0 when work can go on, 2 outside a checkout or if Snakemake refuses to go on, 4 while an engine or
a job is alive.
"""

from __future__ import annotations

import argparse
import bisect
import contextlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from relearn.cli.adopt import LOCK
from relearn.cli.checkout import FILES as CHECKOUT
from relearn.cli.jobs import ENGINE_LOCKS, LOCKS
from relearn.data.cache import cache_folder, private_folder
from relearn.params import reading as params
from relearn.runs import record, record_file, spool
from relearn.runs.atomic_files import Holder, holder, lock_is_free
from relearn.runs.exit_codes import RESOURCE, USE
from relearn.studies import parameters

ENGINES = ("snakemake", "dvc")
ASIDE = ".aside"
QUIET_S = 600  # a living writer of validation images changes its file much more often (seconds)
KINDS: dict[type, str] = {str: "text", dict: "a mapping", int: "a whole number"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dry-run", action="store_true", help="only report, change nothing")
    parser.add_argument(
        "--quick", action="store_true", help="do not read the artefacts to compare their sha256"
    )


def main(args: argparse.Namespace) -> int:
    """Print one line for each finding, clear what is safe to clear, and print how to go on."""
    for name in CHECKOUT:
        if not Path(name).is_file():
            raise ValueError(f"{name}: no such file; start this in the root of the checkout")
    roots, touched = scales(), set()
    engines, jobs = alive(roots)
    began = {root: times(root) for root in roots}
    damaged = {root: damaged_spools(root) | unsound(root, quick=args.quick) for root in roots}
    # That may have taken minutes. What was alive before or is now may have written or be writing what was read.
    later = alive(roots)
    engines, jobs = (list(dict.fromkeys([*before, *now])) for before, now in zip((engines, jobs), later))
    for name, owner in (*engines, *jobs):
        say(f"running: {name}, {owner}")
    change = not (args.dry_run or engines or jobs)
    if any(LOCKS.glob("*.lock")):
        if engines or jobs:
            print("Snakemake's lock: held, see above")
        else:
            print("Snakemake's lock: no running process holds it" + ("; removed" if change else ""))
            if change:
                shutil.rmtree(LOCKS)
                shutil.rmtree(ENGINE_LOCKS, ignore_errors=True)
    for root in roots:
        for line in unfinished(root):
            say(f"unfinished: {line}")
            touched.add(root.name)
        touched |= {root.name for _ in damaged[root]}
        for file, fault in damaged[root].items():
            say(put_aside(file, fault, began[root].get(file)) if change else f"unsound: {fault}")
        orphans = temporaries(root)
        for orphan in orphans if change else ():
            orphan.unlink(missing_ok=True)
        if orphans:
            print(f"temporary files of dead writers in {root}: {len(orphans)}{', removed' if change else ''}")
    for folder in caches():
        clear_validation_images(folder / "validation", change)
    if engines or jobs:
        pids = shlex.join(str(one.pid) for _, one in (*engines, *jobs) if one.pid and not one.host)
        end = f" or end them with `kill {pids}` (checkpoints are kept)" if pids else ""
        print(f"go on: wait for them{end}; then `relearn recover`")
        return RESOURCE
    return go_on(touched & set(params.SCALES))


def say(text: str) -> None:
    """Print one line, whatever the files say."""
    print(" ".join(text.encode("utf-8", "backslashreplace").decode().splitlines()))


def alive(roots: Sequence[Path]) -> tuple[list[tuple[str, Holder]], list[tuple[str, Holder]]]:
    """The engines of this checkout and the jobs of these scales that are alive now."""
    engines = dict.fromkeys((*engines_alive(), *engines_by_lock(), *adopting()))
    return [*engines], [job for root in roots for job in jobs_alive(root)]


def times(root: Path) -> dict[Path, int | None]:
    """When each record and each spool was written."""
    files = [*record_file.files(root / "runs"), *(root / "spool").glob("*.jsonl")]
    return {file: written(file) for file in files}


def written(file: Path) -> int | None:
    """When a file was written, in ns; None if it is gone."""
    with contextlib.suppress(OSError):
        return file.stat().st_mtime_ns
    return None


def put_aside(file: Path, fault: str, seen: int | None) -> str:
    """Rename a damaged file unless it was written after ``seen``, and return what was done in one line."""
    if written(file) != seen:
        return f"unsound: {fault}; it has changed since, so it is left alone"
    try:
        os.replace(file, file.with_name(file.name + ASIDE))
    except OSError as error:
        return f"unsound: {fault}; it cannot be put aside: {error.strerror}"
    return f"put aside: {fault}"


def go_on(touched: Iterable[str]) -> int:
    """Print a command that has passed a dry run for each scale in ``touched``, or why there is none.

    Raises:
        ParamsError: params.yaml cannot be run.
    """
    default = parameters.load("params.yaml")["scale"]
    if importlib.util.find_spec("snakemake") is None:
        print("go on: Snakemake is not installed here; start the script of `relearn jobs` again")
        return 0
    status = 0
    for scale in sorted(touched, key=lambda name: (name != default, name)) or [default]:
        command = ["snakemake", "--cores", "all"]
        command += [] if scale == default else ["--config", f"scale={scale}"]
        way = f"`{shlex.join(command)}`" + (" or `dvc repro`" if scale == default else "")
        if why := refusal(command):
            print(f"cannot go on: Snakemake refuses `{shlex.join(command)}`: {why}; fix that first")
            status = USE
        else:
            print(f"go on: {way}; finished runs stay, unfinished ones resume")
    return status


def refusal(command: Sequence[str]) -> str | None:
    """Return why a dry run of this Snakemake command is refused, in one line; None if it is accepted."""
    words = [sys.executable, "-m", *command, "--dry-run", "--quiet", "rules"]
    tried = subprocess.run(words, capture_output=True, text=True, check=False)
    if tried.returncode == 0:
        return None
    lines = [line.strip() for line in f"{tried.stderr}\n{tried.stdout}".splitlines() if line.strip()]
    heads = [at for at, line in enumerate(lines[:-1]) if re.match(r"\w+(Error|Exception)\b.*:$", line)]
    if heads:
        return f"{lines[heads[0]]} {lines[heads[0] + 1]}"
    return lines[-1] if lines else f"it ended with status {tried.returncode} and no message"


def scales() -> list[Path]:
    """Every results/<scale> in which something has run; results/published is left out."""
    found = (path for path in sorted(Path("results").glob("*")) if path.name != "published")
    return [path for path in found if any((path / part).is_dir() for part in ("runs", "spool", "work"))]


def engines_alive() -> list[tuple[str, Holder]]:
    """Snakemake and DVC processes of this machine that work in this folder; empty on systems without /proc."""
    found, here = [], Path.cwd().resolve()
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().decode("utf-8", "replace").split("\0")
            folder = Path(os.readlink(entry / "cwd"))
        except OSError:  # has ended meanwhile, or belongs to another user
            continue
        # a program of its own, a script run by Python, or `python -m …`
        names = {Path(words[0]).name} | {Path(word).name for word in words[1:3]}
        is_python = Path(words[0]).name.startswith("python")
        name = next((one for one in ENGINES if one in (names if is_python else {Path(words[0]).name})), None)
        if name and folder == here and int(entry.name) != os.getpid():
            found.append((name, Holder(int(entry.name))))
    return sorted(found, key=lambda one: one[1].pid)


def engines_by_lock() -> Iterator[tuple[str, Holder]]:
    """Snakemake by its lock, also where /proc does not show it: on another machine or in another container."""
    for lock in sorted(ENGINE_LOCKS.glob("*.lock")):
        if owner := holder(lock):
            yield "snakemake", owner


def adopting() -> list[tuple[str, Holder]]:
    """`relearn adopt`, if it puts records in place here; it holds Snakemake's lock meanwhile."""
    owner = holder(LOCK)
    return [] if owner is None else [("relearn adopt", owner)]


def jobs_alive(root: Path) -> Iterator[tuple[str, Holder]]:
    """Yield each run whose lock a living process holds, and that process."""
    for lock in sorted((root / "work").glob("*.lock")):
        if owner := holder(lock):
            story, _ = read_spool(root / "spool" / f"{lock.stem}.jsonl")
            yield display_name(story, lock.stem), owner


def unfinished(root: Path) -> Iterator[str]:
    """Yield one line for each run that was started but not finished, or finished without a record."""
    for path in sorted((root / "spool").glob("*.jsonl")):
        story, fault = read_spool(path)
        if fault:
            continue
        if story is None:
            yield f"{path}: no start line in it; the run starts again"
            continue
        if story.status == spool.FINISHED or not lock_is_free(root / "work" / f"{path.stem}.lock"):
            continue
        how = {spool.RUNNING: "ended without a message"}.get(story.status, story.status)
        step = max((place for _, place in story.points), default=None)
        line = f"{display_name(story, path.stem)}: {how}" + (f" ({story.reason})" if story.reason else "")
        line += "" if step is None else f", last step {step}"
        kept = any((root / "work" / path.stem).rglob("*.json"))
        yield line + ("; resumes from its checkpoint" if kept else "; starts again")


def read_spool(path: Path, upto: int | None = None) -> tuple[spool.Story | None, str]:
    """What a spool (its first ``upto`` bytes) tells; or None, and why no attempt can go on from it."""
    try:
        story = spool.tell(path, upto)
    except Exception as error:  # a line can hold any JSON
        return None, f"{type(error).__name__}: {error}, allowed: a line that a job has written"
    fault = "" if story is None else wrong_start(story.start)
    return (None, fault) if fault else (story, "")


def wrong_start(start: dict[str, Any]) -> str:
    """Which value of a start line the next attempt could not read; "" if it can read them all."""
    kinds = {"step": str, "labels": dict, "seed": int, "code": dict, "inputs": dict, "started": str}
    for key, kind in kinds.items():
        if key not in start:
            return f"{key} is missing"
        if not isinstance(start[key], kind):
            return f"{key} is {start[key]!r:.60}, allowed: {KINDS[kind]}"
    if "version" not in start["code"]:
        return f"code is {start['code']!r:.60}, allowed: a mapping with version"
    return wrong_inputs(start, "sha256")


def wrong_inputs(what: dict[str, Any], *keys: str) -> str:
    """Whether the inputs of a run lack one of the texts that they need; "" if they do not."""
    every = what["inputs"]
    if isinstance(every, dict) and all(isinstance(many, list) for many in every.values()):
        files = [one for many in every.values() for one in many]
        if all(isinstance(one, dict) and all(isinstance(one.get(key), str) for key in keys) for one in files):
            return ""
    return f"inputs is {every!r:.60}, allowed: lists of files with {' and '.join(keys)}"


def damaged_spools(root: Path) -> dict[Path, str]:
    """Spools from which no attempt can go on, each with its first wrong line and the fault in one line."""
    faults = {}
    for path in sorted((root / "spool").glob("*.jsonl")):
        if fault := read_spool(path)[1]:
            ends = [found.end() for found in re.finditer(b"\n", path.read_bytes())]
            whole = bisect.bisect_left(ends, True, key=partial(_damaged, path))
            faults[path] = f"{path}: line {whole + 1}: {fault}"
    return faults


def _damaged(path: Path, upto: int) -> bool:
    return bool(read_spool(path, upto)[1])


def unsound(root: Path, *, quick: bool = False) -> dict[Path, str]:
    """Invalid records, each with its fault in one line."""
    faults: dict[Path, str] = {}
    sound: dict[str, record.Record] = {}
    for file in sorted(record_file.files(root / "runs")):
        try:
            found = record.read(file)
            if fault := wrong_outputs(found) or wrong_inputs(found, "path", "sha256"):
                raise record.RecordError(f"{file}: {fault}")
        except record.RecordError as error:
            faults[file] = str(error)
            continue
        except (RecursionError, ValueError) as error:
            faults[file] = f"{file}: {error}"
            continue
        try:
            fault = next(iter([] if quick else record.verify_outputs(found)), "")
        except OSError as error:
            fault = f"{error.filename}: {error.strerror}"
        if fault:
            faults[file] = fault
        sound[file.parent.as_posix()] = found
    for folder, found in sound.items():
        if changed := changed_input(found, sound):
            faults.setdefault(Path(folder) / record.NAME, f"{folder}/{record.NAME}: {changed}")
    return faults


def wrong_outputs(found: record.Record) -> str:
    """Whether an output of a record has no checksum; "" if all have one."""
    outputs = found["outputs"]
    every = outputs.values() if isinstance(outputs, dict) else [None]
    if all(isinstance(one, dict) and isinstance(one.get("sha256"), str) for one in every):
        return ""
    return f"outputs is {outputs!r:.60}, allowed: a mapping of files with sha256"


def changed_input(found: record.Record, sound: dict[str, record.Record]) -> str | None:
    """The first input that has been remade since this run read it, in one line."""
    for one in (one for many in found["inputs"].values() for one in many):
        made = sound.get(Path(one["path"]).parent.as_posix())
        now = None if made is None else made["outputs"].get(Path(one["path"]).name)
        if now is not None and now["sha256"] != one["sha256"]:
            return (
                f"made from {one['path']} with sha256 {one['sha256'][:16]}…, now it is {now['sha256'][:16]}…"
            )
    return None


def temporaries(root: Path) -> list[Path]:
    """Temporary files left by killed writers."""
    return sorted(path for kind in ("tmp", "part") for path in root.rglob(f".*.{kind}") if path.is_file())


def caches() -> Iterator[Path]:
    """The folders that a job may have used as cache."""
    with contextlib.suppress(RuntimeError):  # no RELEARN_CACHE and no home folder
        yield cache_folder()
    yield private_folder()


def clear_validation_images(folder: Path, change: bool) -> None:
    """Report partly decoded images in a folder of the cache; remove those that no process writes if ``change``."""
    found = sorted(folder.glob(".validation-*.part"))
    dead = [path for path in found if not may_be_written(path)]
    for path in dead if change else ():
        path.unlink(missing_ok=True)
    if dead:
        print(f"partly decoded validation images in {folder}: {len(dead)}{', removed' if change else ''}")
    if living := len(found) - len(dead):
        print(f"partly decoded validation images in {folder}: {living} may still be written, left alone")


def may_be_written(part: Path) -> bool:
    """Whether the process named in ``….<pid>.part`` lives, or the file has changed lately, maybe by another machine."""
    pid = part.name.split(".")[-2]
    try:
        if time.time() - part.stat().st_mtime < QUIET_S:
            return True
        os.kill(int(pid), 0)
    except (ProcessLookupError, FileNotFoundError, OverflowError, ValueError):
        return False
    except PermissionError:  # the process of another user
        return True
    return True


def display_name(story: spool.Story | None, run: str) -> str:
    """A readable name of a run: step, labels, seed; its id if there is no spool."""
    if story is None:
        return f"run {run}"
    start: dict[str, Any] = story.start
    return " ".join((start["step"], *map(str, start["labels"].values()), f"seed{start['seed']}"))
