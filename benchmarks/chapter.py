"""Wall time of all chapters at mini, or of one, from scratch in a separate folder, with and without warm starts.

`chapter_s`: wall seconds of `snakemake --cores 2` on a copy of this checkout without any results (bounds in CHAPTERS; a single
chapter is timed without the report). It is wall time, because users wait for it; report what else the machine did. With `--cold`
the chapter then runs again without warm starts; `saved_frac` is the share of that wall time that warm starts save.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from timing import report

ROOT = Path(__file__).resolve().parents[1]
PARTS = ("Snakefile", "workflow", "params.yaml", "params", "src", "results/.gitkeep")
# the targets of a chapter, and its time limit in seconds
CHAPTERS: dict[str, tuple[list[str], float]] = {
    "all": ([], 1800.0),
    "poisoning": (["poisoning"], 360.0),
    "gradinit": (["gradinit"], 240.0),
    "l2_attention": (["l2_attention"], 180.0),
    "vision": (["lipsformer", "layer_scale", "lrformer"], 240.0),
    "long_short": (["long_short", "robustness"], 240.0),
    "freelb": (["freelb"], 180.0),
}


def chapter(folder: Path, name: str, *, warm: bool = True) -> dict[str, float | str]:
    """Return wall seconds, CPU seconds and the number of jobs of a chapter."""
    targets, wanted = CHAPTERS[name]
    for part in PARTS:
        source, target = ROOT / part, folder / part
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        elif source.exists():
            shutil.copy(source, target)
    environment = {**os.environ, "PYTHONPATH": str(folder / "src"), "MLFLOW_DISABLE_TELEMETRY": "true"}
    if not warm:
        environment["RELEARN_WARM"] = "off"
    before, start = os.times(), time.perf_counter()
    done = subprocess.run(
        ["snakemake", "--cores", "2", "--", *targets] if targets else ["snakemake", "--cores", "2"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    wall, after = time.perf_counter() - start, os.times()
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return {
        "chapter": name,
        "chapter_s": wall,
        "chapter_cpu_s": cpu,
        "jobs": done.stderr.count("Finished jobid"),
        "wanted_s": wanted,
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--note", default="", help="what else the machine did")
    parser.add_argument("--chapter", choices=CHAPTERS, default="all")
    parser.add_argument("--cold", action="store_true", help="run the chapter again without warm starts")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as other:
        row: dict[str, Any] = {**chapter(Path(folder), args.chapter), "note": args.note}
        if args.cold:
            cold = chapter(Path(other), args.chapter, warm=False)
            row |= {"cold_s": cold["chapter_s"], "cold_cpu_s": cold["chapter_cpu_s"]}
            row["saved_frac"] = 1.0 - row["chapter_s"] / row["cold_s"]
    report("chapter" if args.chapter == "all" else f"chapter_{args.chapter}", [row])


if __name__ == "__main__":
    main()
