"""Wall time of all chapters at mini, or of one, from scratch in a separate folder; and the cost of a killed attack.

`chapter_s`: wall seconds of `snakemake --cores 2` on a copy of this checkout without any results (bounds in CHAPTERS; a single
chapter is timed without the report). It is wall time, because users wait for it; report what else the machine did. `redone`:
iterations that an attack computes twice if `kill -9` hits it at a random point, over several kills, compared with the interval of
its checkpoints (bound: one interval).
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from timing import report

ROOT = Path(__file__).resolve().parents[1]
PARTS = ("Snakefile", "workflow", "params.yaml", "params", "src", "results/.gitkeep")
ITERATIONS, KILLS = 200, 5
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


def chapter(folder: Path, name: str) -> dict[str, float | str]:
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


def killed(folder: Path) -> dict[str, float]:
    """Kill an attack on one network of the finished chapter at a random iteration, and restart it."""
    runs = Path("results/mini/runs/poisoning")
    settings = {
        "attack": "convex_polytope",
        "eps": 0.2,
        "lr": 0.04,
        "iterations": ITERATIONS,
        "dropout": True,
    }
    settings |= {"poison_class": 1, "target_class": 8, "poisons": 5, "targets": 20}
    environment = {**os.environ, "PYTHONPATH": str(folder / "src"), "RELEARN_WARM": "off"}
    redone = []
    for kill in range(KILLS):
        out = f"killed/runs/poisoning/craft/{kill}"
        command = [
            sys.executable,
            "-m",
            "relearn.cli",
            "poisoning",
            "craft",
            "--settings",
            json.dumps(settings),
        ]
        command += [
            "--input",
            "data",
            f"{runs}/prepare/digits/data.safetensors",
            "--out",
            out,
            "--device",
            "cpu",
        ]
        weights = "pretrain/substitute/SENet18-drop0.2/seed0/weights.safetensors"
        command += ["--input", "substitutes", f"{runs}/{weights}", "--label", "attack=convex_polytope"]
        job = subprocess.Popen(command, cwd=folder, env=environment, stderr=subprocess.DEVNULL)
        at = random.Random(kill).randrange(20, ITERATIONS - 20)
        while not (spool := _spool(folder)) or _steps(spool)[-1] < at:
            time.sleep(0.02)
        job.send_signal(signal.SIGKILL)
        job.wait()
        subprocess.run(command, cwd=folder, env=environment, check=True, stderr=subprocess.DEVNULL)
        steps = _steps(spool)
        redone.append(len(steps) - len(set(steps)))
        shutil.rmtree(folder / "killed")
    return {"kills": KILLS, "redone_most": max(redone), "interval": ITERATIONS // 10}


def _spool(folder: Path) -> Path | None:
    found = list((folder / "killed").glob("**/spool/*.jsonl"))
    return found[0] if found and _steps(found[0]) else None


def _steps(spool: Path) -> list[int]:
    steps = []
    for line in spool.read_bytes().splitlines():
        try:
            event = json.loads(line)
        except ValueError:  # the line truncated by the kill
            continue
        if isinstance(event.get("step"), int):  # the first line has the step's name under this key
            steps.append(event["step"])
    return steps


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--note", default="", help="what else the machine did")
    parser.add_argument("--chapter", choices=CHAPTERS, default="all")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        row: dict[str, Any] = {**chapter(Path(folder), args.chapter), "note": args.note}
        if args.chapter in ("all", "poisoning"):
            row |= killed(Path(folder))
    report("chapter" if args.chapter == "all" else f"chapter_{args.chapter}", [row])


if __name__ == "__main__":
    main()
