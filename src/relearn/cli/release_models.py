"""relearn release-models: write the trained weights and poisons of a scale as checksummed files to host.

    relearn release-models --scale small --study poisoning --out release
    # there: put the files of release/ behind one address; here, on any machine:
    relearn fetch-models https://example.org/models/manifest.json

It takes every run that has a file of weights or poisons, with its record and all of its artefacts, and writes them as parts of
bounded size and manifest.json: the scale, the commit, and for each part its size and sha256. Prepared data sets are left out:
their step makes the same bytes from the original source.
"""

from __future__ import annotations

import argparse
import contextlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from relearn.runs.record_file import Record

KEPT = ("weights.safetensors", "poisons.safetensors")
"""Artefacts for whose sake a run is released."""
MANIFEST = "manifest.json"
MIB = 2**20
SHOWN = 5  # runs that an error names


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--scale", help="mini | small | medium | paper; default: the scale in params.yaml")
    parser.add_argument("--study", action="append", default=[], help="only this study; may be repeated")
    parser.add_argument("--from", dest="source", type=Path, help="default: results/<scale>")
    parser.add_argument("--out", type=Path, default=Path("release"), help="an empty or new folder")
    parser.add_argument("--part-mib", type=int, default=100, help="largest size of a file")


def main(args: argparse.Namespace) -> int:
    """Write the release.

    Raises:
        ValueError: nothing to release, an unknown scale or study, runs of several commits or of a changed working tree, or a
            folder that holds something else; RecordError for damaged records and files, and for files on another machine.
    """
    from relearn.params.reading import chosen_scale
    from relearn.runs import interrupt
    from relearn.runs.atomic_files import STAGED, staged
    from relearn.studies import STUDIES

    scale = chosen_scale(args.scale)
    if unknown := sorted(set(args.study) - set(STUDIES)):
        raise ValueError(f"--study: found {unknown[0]}, allowed: {', '.join(STUDIES)}")
    if args.part_mib < 1:
        raise ValueError(f"--part-mib: found {args.part_mib}, allowed: 1 or more")
    if args.out.exists() and not args.out.is_dir():
        raise ValueError(f"--out {args.out}: found a file, allowed: an empty or new folder")
    if args.out.is_dir() and any(not one.name.startswith(STAGED) for one in args.out.iterdir()):
        raise ValueError(f"--out {args.out}: found a folder with files, allowed: an empty or new one")
    source = args.source or Path("results") / scale
    chosen = choose(source, scale, args.study)
    interrupt.install_signal_handlers()
    new = [folder for folder in (args.out, *args.out.parents) if not folder.exists()]
    try:
        args.out.mkdir(parents=True, exist_ok=True)
        with staged(args.out) as folder:
            names = write(chosen, source, folder, args.part_mib * MIB)
    except BaseException:
        for folder in new:
            with contextlib.suppress(OSError):
                folder.rmdir()
        raise
    print(f"{len(chosen)} runs in {len(names)} files and {args.out / MANIFEST}")
    return 0


def choose(source: Path, scale: str, studies: Sequence[str]) -> list[Record]:
    """The records of the runs to release, all of whose files are here and whole.

    Raises:
        ValueError: see :func:`main`.
    """
    from relearn.runs import record_file

    found, problems = record_file.read_all(source / "runs")
    chosen = [
        one
        for one in found
        if one["scale"] == scale
        and (not studies or one["study"] in studies)
        and any(name in KEPT for name in one["outputs"])
    ]
    problems += [line for one in chosen for line in record_file.verify_outputs(one)]
    if problems:
        raise record_file.RecordError(f"{problems[0]} (of {len(problems)} faults; none may be released)")
    if not chosen:
        allowed = f"runs with {' or '.join(KEPT)}"
        raise ValueError(f"{source}: found no run to release at scale {scale}, allowed: {allowed}")
    elsewhere = [
        one["path"] for one in chosen if not all(Path(one["path"], name).is_file() for name in one["outputs"])
    ]
    if elsewhere:
        count = f"{len(elsewhere)} run{'s' * (len(elsewhere) > 1)}"
        raise record_file.RecordError(
            f"{', '.join(elsewhere[:SHOWN])}: found files of {count} on another machine, allowed: runs whose files are all here"
        )
    commits = {one["code"]["commit"] for one in chosen}
    if len(commits) > 1 or any(one["code"]["dirty"] is not False for one in chosen):
        raise ValueError(
            f"{source}: found runs of {len(commits)} commits or with changes, allowed: one clean commit"
        )
    return chosen


def write(records: Sequence[Record], source: Path, out: Path, limit: int) -> list[str]:
    """Write the parts and the manifest; return the parts' names."""
    from relearn.runs import interrupt
    from relearn.runs.atomic_files import digest
    from relearn.runs.node import parts

    first = records[0]
    with parts.Writer(out, f"relearn-{first['scale']}", limit) as writer:
        for one in records:
            folder = Path(one["path"])
            for name in ("record.json", *sorted(one["outputs"])):
                interrupt.check()
                inside = Path("results", one["scale"]) / folder.relative_to(source) / name
                writer.add(inside.as_posix(), (folder / name).read_bytes())
    manifest = {
        "scale": first["scale"],
        "commit": first["code"]["commit"],
        "parts": [
            {"name": path.name, "size": path.stat().st_size, "sha256": digest(path)} for path in writer.paths
        ],
        "runs": [{key: one[key] for key in ("study", "step", "labels", "seed", "run")} for one in records],
    }
    (out / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8", newline="\n")
    return [path.name for path in writer.paths]
