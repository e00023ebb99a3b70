"""What a job costs to start: whole steps as the workflow calls them, against a Python that only imports what they need.

CPU seconds of the child process, `relearn <step> …` on as little work as the step allows (the digits, a network of an eighth of the
width, one epoch or iteration) minus the bare imports in the same pair. The bound is 0.6 s above the imports.
"""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from timing import report

PAIRS = 7
WANTED_S = 0.6
TORCH = "import torch, safetensors.torch"
TRIALS = {"poison_class": 1, "target_class": 8, "poisons": 5, "targets": 2}
TRAINING = {
    "epochs": 1, "batch_size": 64, "lr": 0.05, "momentum": 0.9, "weight_decay": 0.0, "schedule": "cosine",
    "crop_padding": 0, "flip": False, "label_smoothing": 0.0,
}
HEADS = {
    "epochs": 1,
    "batch_size": 500,
    "lr": 0.1,
    "weight_decay": 0.0,
    "milestones": [],
    "reset_head": False,
}


def child_cpu_s(command: list[str], folder: Path) -> float:
    """CPU seconds, user and system, of one child process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def step(name: str, out: str, settings: dict, **inputs: str) -> list[str]:
    words = [
        sys.executable,
        "-m",
        "relearn.cli",
        name,
        "--settings",
        json.dumps(settings),
        "--out",
        f"runs/{out}",
    ]
    for key, file in inputs.items():
        words += ["--input", key, f"runs/{file}"]
    return [*words, "--device", "cpu"]


def steps() -> list[tuple[str, str, list[str]]]:
    """Step, the imports it needs, the command; in an order in which each finds its inputs."""
    split = {"dataset": "digits", "pretrain_per_class": 20, "fine_tune_per_class": 50, "pool_per_class": 70}
    network = {
        "architecture": "ResNet18",
        "width": 0.125,
        "depth": 0.25,
        "dropout": 0.0,
        "training": TRAINING,
    }
    attack = {"attack": "convex_polytope", "eps": 0.2, "lr": 0.04, "iterations": 1, "dropout": False}
    data, net, poisons = "data/data.safetensors", "net/weights.safetensors", "poisons/poisons.safetensors"
    knn = {"defence": "deep_knn", "k": 50, "sweep": [50], "include_self": False}
    svm = {"defence": "one_class_svm", "nu": 0.01}
    poisoned = {**TRIALS, **HEADS, "attack": "convex_polytope", "eps": 0.2, "knowledge": "gray_box"}
    hull = {"protocol": "hull", "dimension": 64, "poisons": 5, "problems": 1}
    inputs = {"data": data, "victim": net, "poisons": poisons}
    return [
        ("prepare", "import numpy, safetensors.numpy", step("prepare", "data", split)),
        ("pretrain", TORCH, step("pretrain", "net", network, data=data)),
        ("craft", TORCH, step("craft", "poisons", {**TRIALS, **attack}, data=data, substitutes=net)),
        ("filter (Deep k-NN)", TORCH, step("filter", "kept", {**TRIALS, **knn}, **inputs)),
        (
            "filter (one-class SVM)",
            f"{TORCH}; import sklearn.svm",
            step("filter", "svm", {**TRIALS, **svm}, **inputs),
        ),
        ("train", TORCH, step("train", "train", poisoned, **inputs, kept="kept/kept.safetensors")),
        (
            "evaluate",
            TORCH,
            step(
                "evaluate",
                "net_eval",
                {"protocol": "accuracy", "calibration_bins": 15},
                data=data,
                network=net,
            ),
        ),
        ("evaluate (hull)", f"{TORCH}; import scipy.optimize", step("evaluate", "hull", hull)),
    ]


def main() -> None:
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name, imports, command in steps():
            pairs = []
            for pair in range(PAIRS + 1):
                bare = [sys.executable, "-c", imports]
                if pair % 2:
                    reference, ours = child_cpu_s(bare, Path(folder)), child_cpu_s(command, Path(folder))
                else:
                    ours, reference = child_cpu_s(command, Path(folder)), child_cpu_s(bare, Path(folder))
                pairs.append((ours, reference))
            above = [ours - reference for ours, reference in pairs[1:]]  # the first pair warms the disk cache
            rows.append(
                {
                    "step": name,
                    "above_s": statistics.median(above),
                    "above_low_s": min(above),
                    "above_high_s": max(above),
                    "step_s": statistics.median(ours for ours, _ in pairs[1:]),
                    "imports_s": statistics.median(reference for _, reference in pairs[1:]),
                }
            )
    report("start", rows, wanted_above_s=WANTED_S, pairs=PAIRS)


if __name__ == "__main__":
    main()
