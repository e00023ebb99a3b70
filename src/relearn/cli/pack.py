"""relearn pack: pack a part of the DAG for a machine with torch but not this project.

    relearn pack --scale medium --study poisoning --out pack.tar
    # there, in an empty folder with pack.tar and pack.data.*.part:
    tar -xf pack.tar && sh run.sh --minutes 9
    # here, with what it wrote into home/:
    relearn adopt home/*.part

A pack holds the jobs that are not done here, the source, the commit, and every file that these jobs read but do not make. The
packages of plug-ins that these jobs use are part of the source; what such a package imports must be on the other machine.
Steps that need no torch prepare data. They run here first, because the other machine may have neither a network nor a mirror.
Folders of RELEARN_MIRROR are included if a setting of a job names them. Checkpoints of unfinished runs are included, too.

docs/gpu.md describes the whole procedure, and what the node needs.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from relearn.cli import adopt, check_jobs, jobs, output_folder
from relearn.cli.jobs import Job
from relearn.runs import atomic_files, plugins, provenance, record
from relearn.runs.node import jobs_file, parts
from relearn.runs.node.jobs_file import NodeJob

MACHINE_WORDS = ("--device", "--precision", "--threads", "--processes")
SOURCE = Path(jobs.__file__).resolve().parents[2]  # src
RUN = """\
#!/bin/sh
# Runs the jobs of this pack; `sh run.sh --help` lists the options. Start it as often as you like: what is done stays done.
set -eu
cd "$(dirname "$0")"
export PYTHONPATH="$PWD/src${PYTHONPATH:+:$PYTHONPATH}"
[ ! -d mirror ] || export RELEARN_MIRROR="$PWD/mirror"
exec "${PYTHON:-python3}" -m relearn.runs.node "$@"
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--scale", help="mini | small | medium | paper; default: the scale in params.yaml")
    add(
        "--study",
        nargs="+",
        action="extend",
        default=[],
        help="studies, or other targets of snakemake; default: all",
    )
    add("--out", type=Path, default=Path("pack.tar"), help="data parts are written to the same folder")
    add("--check", action="store_true", help="only the runs that `sh check.sh` there compares with the CPU")
    add("--part-mib", type=int, default=40, help="largest size of a file")


def main(args: argparse.Namespace) -> int:
    """Prepare the data, write the pack, and print what it holds."""
    if args.part_mib < 4:
        raise ValueError(f"--part-mib: found {args.part_mib}, allowed is 4 or more")
    folder = args.out.parent
    if args.out.is_dir():
        raise ValueError(f"--out {args.out}: found a folder, allowed: a file")
    output_folder.check("--out", folder)
    plan = [job for job in jobs.plan(args.study, {"scale": args.scale} if args.scale else {}) if job.record]
    chosen: list[Job] = []
    if args.check:
        chosen, plan = check_jobs.cheapest(plan)
    prepare(unprepared(plan))
    left = [job for job in plan if check_jobs.needs_torch(job)] if args.check else to_do(plan)
    if not left:
        raise ValueError("nothing to pack: every run of these targets is done here")
    folder.mkdir(parents=True, exist_ok=True)
    with atomic_files.staged(folder) as new:  # an older pack stays whole until this one is
        made, files = write(new / args.out.name, left, args.part_mib * parts.MIB, [job.run for job in chosen])
    written = [folder / path.name for path in made]
    for path in folder.iterdir():
        match = parts.PART.fullmatch(path.name)
        if match and match[1] == f"{args.out.stem}.data" and path not in written:
            path.unlink()  # of the older pack
    steps = {(job.study, job.step) for job in left}
    print(
        f"{len(left)} jobs of {len(steps)} steps, {len(plan) - len(left)} are done here; {files} files of data"
    )
    for path in written:
        print(f"{path}  {path.stat().st_size / parts.MIB:.1f} MiB")
    if args.check:
        print(f"there: tar -xf {args.out.name} && sh check.sh --minutes 9")
    else:
        print(f"there: tar -xf {args.out.name} && sh run.sh --minutes 9; here: relearn adopt home/*.part")
    return 0


def unprepared(plan: Sequence[Job]) -> list[Job]:
    """The pending jobs that prepare data."""
    return [job for job in to_do(plan) if not check_jobs.needs_torch(job)]


def to_do(plan: Sequence[Job]) -> list[Job]:
    """The jobs without a fitting record, and those whose outputs stayed on another machine and are needed again."""
    fitting, _ = adopt.survey(plan, {})
    left = {job.record for job in plan if job.record not in fitting}
    makers = {path: job for job in plan for path in job.outputs}
    for job in reversed(plan):
        if job.record in left:
            left |= {
                makers[path].record for path in job.inputs if path in makers and not os.path.exists(path)
            }
    return [job for job in plan if job.record in left]


def prepare(left: Iterable[Job]) -> None:
    """Run jobs here, one after the other.

    Raises:
        ValueError: a job failed; its error is on the terminal.
    """
    for job in left:
        print(f"here: {job.folder}", file=sys.stderr)
        Path(job.folder).mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "relearn", *words_of(job)]
        command += ["--device", "cpu", "--out", job.folder, "--log", job.logs[0]]
        if subprocess.run(command, check=False).returncode:
            raise ValueError(f"{job.folder}: failed, so the jobs that read it cannot be packed")


def words_of(job: Job) -> list[str]:
    """The arguments of ``relearn``, without those that depend on the machine."""
    words = jobs.shlex.split(job.command)[1:]
    words = words[: words.index("--out")]
    for word in MACHINE_WORDS:
        if word in words:  # only trainings may have several processes
            at = words.index(word)
            del words[at : at + 2]
    return words


def node_job(job: Job) -> NodeJob:
    """A job in the form of jobs.json."""
    assert job.record is not None
    names = {path: name_there(path) for path in job.inputs}
    return NodeJob(
        run=job.run,
        code=job.code,
        study=job.study,
        step=job.step,
        words=tuple(names.get(word, word) for word in words_of(job)),
        record=job.record,
        inputs=tuple(names.values()),
        outputs=tuple(path for path in job.outputs if path != job.record),
        log=job.logs[0],
        mem_mb=job.mem_mb,
        gpu=job.gpu,
    )


def write(out: Path, left: Sequence[Job], limit: int, chosen: Sequence[str] = ()) -> tuple[list[Path], int]:
    """Write the tar and, if the data does not fit into it, its parts; return the files written and the number of data files.

    ``chosen``: the run ids that relearn.gpu_check compares.
    """
    count = 0
    with parts.Writer(out.parent, f"{out.stem}.data", limit) as writer:
        for name, path in data(left):
            add_file = writer.add_images if path.name == "data.safetensors" else writer.add
            add_file(name, path.read_bytes())
            count += 1
    found = writer.paths if count else []
    for path in writer.paths[len(found) :]:
        path.unlink()
    inside = len(found) == 1 and found[0].stat().st_size < limit - 4 * parts.MIB  # the source takes 2 MiB
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        add = _adder(tar)
        add("run.sh", RUN.encode(), 0o755)
        if chosen:
            add("check.sh", RUN.replace("relearn.runs.node", "relearn.runs.node --check").encode(), 0o755)
            add(jobs_file.CHOSEN, json.dumps(list(chosen)).encode())
        add(jobs_file.NAME, jobs_file.text(map(node_job, left)).encode())
        code = provenance.code("")
        add(provenance.PACKED, json.dumps({"commit": code["commit"], "dirty": code["dirty"]}).encode())
        for path in sorted(SOURCE.joinpath("relearn").rglob("*")):
            if path.is_file() and path.suffix != ".pyc":
                add(f"src/{path.relative_to(SOURCE).as_posix()}", path.read_bytes())
        for place, content in plugins.packed(job.code for job in left).items():
            add(f"src/{place}", content)
        if inside:
            add(found[0].name, found[0].read_bytes())  # without the name of the user here
    atomic_files.write(out, packed.getvalue())
    if inside:
        found[0].unlink()
    return [out, *(() if inside else found)], count


def _adder(tar: tarfile.TarFile) -> Any:
    def add(name: str, content: bytes, mode: int = 0o644) -> None:
        member = tarfile.TarInfo(name)
        member.size, member.mode = len(content), mode
        # Python compares the time of a source file to decide whether the bytecode of an earlier pack is of this one
        member.mtime = int(time.time())
        tar.addfile(member, io.BytesIO(content))

    return add


def data(left: Sequence[Job]) -> Iterator[tuple[str, Path]]:
    """Yield the name in the pack and the path of each data file to include."""
    made = {path for job in left for path in job.outputs}
    needed = sorted({path for job in left for path in job.inputs} - made)
    for path in needed:
        yield name_there(path), Path(path)
    for folder in sorted({Path(path).parent for path in needed}):
        if (folder / record.NAME).is_file():
            yield (folder / record.NAME).as_posix(), folder / record.NAME
    for job in left:
        root = Path(*Path(job.folder).parts[:2])
        spool = root / "spool" / f"{job.run}.jsonl"
        kept = sorted(path for path in (root / "work" / job.run).rglob("*") if path.is_file())
        for one in [spool, *kept] if kept and spool.is_file() else ():
            yield one.as_posix(), one
    mirror = os.environ.get("RELEARN_MIRROR")
    for folder in mirror_folders(left, Path(mirror)) if mirror else ():
        for file in sorted(folder.rglob("*")):
            if file.is_file() and str(file) not in needed:
                yield f"mirror/{file.relative_to(str(mirror)).as_posix()}", file


def name_there(path: str) -> str:
    """The path of an input in the pack: a released checkpoint of RELEARN_MIRROR is below mirror/."""
    mirror = os.environ.get("RELEARN_MIRROR")
    if mirror and Path(mirror).parts and Path(path).is_relative_to(mirror):
        return f"mirror/{Path(path).relative_to(mirror).as_posix()}"
    return f"mirror{path}" if Path(path).is_absolute() else path


def mirror_folders(left: Iterable[Job], mirror: Path) -> list[Path]:
    """The folders of RELEARN_MIRROR that a setting names: directly, by the set it replaces, or by a GLUE or multiple-choice task."""
    from relearn.data.text_tasks import CHOICES, GLUE

    named = set(_texts([job.settings for job in left]))
    named |= {CHOICES[name][0] for name in named & set(CHOICES)} | ({"glue"} if named & set(GLUE) else set())
    return [
        folder
        for folder in sorted(mirror.iterdir())
        if folder.is_dir() and (folder.name in named or folder.name.removesuffix("_ood") in named)
    ]


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, one in value.items():
            yield key
            yield from _texts(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _texts(one)
