"""Start-up cost of a job: whole steps as the workflow calls them, compared with a Python that only imports what they need.

CPU seconds of `relearn <step> …` on as little work as the step allows (the digits, a network of an eighth of the width, one epoch or
iteration), minus the bare imports in the same round. The bound is 0.6 s above the imports. `warm_s`: the same command in the same round
if `relearn warm` is running: the client, the job itself and what the server spent on it. It excludes only the start of the server,
`server_start_s`, which is needed once for all jobs.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from timing import report

from relearn.cli.warm import NO_TORCH

PAIRS = 7
WANTED_S = 0.6
TORCH = "import torch, safetensors.torch"
TRIALS = {"poison_class": 1, "target_class": 8, "poisons": 5, "targets": 2}
TRAINING = {
    "epochs": 1,
    "batch_size": 64,
    "lr": 0.05,
    "momentum": 0.9,
    "weight_decay": 0.0,
    "schedule": "cosine",
    "crop_padding": 0,
    "flip": False,
    "label_smoothing": 0.0,
}
HEADS = {
    "epochs": 1,
    "batch_size": 500,
    "lr": 0.1,
    "weight_decay": 0.0,
    "milestones": [],
    "reset_head": False,
    "train_mode": False,
}


def child_cpu_s(command: list[str], folder: Path, server: Server | None = None) -> float:
    """Return CPU seconds, user and system, of one child process; with a server, of a warm start through it."""
    warm = "off" if server is None else str(server.socket)
    before, spent = resource.getrusage(resource.RUSAGE_CHILDREN), 0.0 if server is None else server.cpu_s()
    environment = {**os.environ, "RELEARN_WARM": warm, "RELEARN_WARM_DEBUG": "1"}
    done = subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if server is not None and "plain start" in done.stderr and NO_TORCH not in done.stderr:
        raise RuntimeError(done.stderr.strip())
    aside = 0.0 if server is None else server.cpu_s() - spent
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime + aside


class Server:
    """A running `relearn warm`."""

    def __init__(self, pid: int, socket: Path) -> None:
        self.pid, self.socket = pid, socket

    def cpu_s(self) -> float:
        """Return the CPU seconds of the server and of the jobs that it has waited for."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[Server]:
    command = [sys.executable, "-m", "relearn", "warm", "--socket", str(folder / "warm.sock")]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        server = Server(process.pid, folder / "warm.sock")
        while not server.socket.exists() and process.poll() is None:
            time.sleep(0.1)
        try:
            yield server
        finally:
            process.terminate()


def step(name: str, out: str, settings: dict, **inputs: str) -> list[str]:
    words = [
        sys.executable,
        "-m",
        "relearn",
        "poisoning",
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
    """Return step, required imports and command, in an order in which each step finds its inputs."""
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
    knn = {"defence": "deep_knn", "k": 50, "sweep": [50], "include_self": False, "label_ties": "keep"}
    svm = {"defence": "one_class_svm", "nu": 0.01}
    poisoned = {
        **TRIALS,
        **HEADS,
        "setting": "transfer",
        "attack": "convex_polytope",
        "eps": 0.2,
        "knowledge": "gray_box",
    }
    attacked = {"pgd": {"eps": [0.1], "steps": 4, "restarts": 1, "images": 2}, "corruptions": {"images": 2}}
    worth = {"calibration_bins": 15, **attacked}
    hull = {"dimension": 64, "poisons": 5, "problems": 1}
    inputs = {"data": data, "victim": net, "poisons": poisons}
    return [
        ("prepare_images", "import numpy, safetensors.numpy", step("prepare_images", "data", split)),
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
            "evaluate_networks",
            TORCH,
            step("evaluate_networks", "net_eval", worth, data=data, network=net),
        ),
        ("hull_proposition", f"{TORCH}; import scipy.optimize", step("hull_proposition", "hull", hull)),
    ]


def main() -> None:
    rows = []
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder)) as server:
        start_s = server.cpu_s()
        for name, imports, command in steps():
            pairs, warm = [], []
            for pair in range(PAIRS + 1):
                bare = [sys.executable, "-c", imports]
                if pair % 2:
                    reference, ours = child_cpu_s(bare, Path(folder)), child_cpu_s(command, Path(folder))
                else:
                    ours, reference = child_cpu_s(command, Path(folder)), child_cpu_s(bare, Path(folder))
                pairs.append((ours, reference))
                warm.append(child_cpu_s(command, Path(folder), server))
            above = [ours - reference for ours, reference in pairs[1:]]  # the first pair warms the disk cache
            rows.append(
                {
                    "step": name,
                    "above_s": statistics.median(above),
                    "above_low_s": min(above),
                    "above_high_s": max(above),
                    "step_s": statistics.median(ours for ours, _ in pairs[1:]),
                    "imports_s": statistics.median(reference for _, reference in pairs[1:]),
                    "warm_s": statistics.median(warm[1:]),
                    "warm_low_s": min(warm[1:]),
                    "warm_high_s": max(warm[1:]),
                }
            )
    report("start", rows, wanted_above_s=WANTED_S, pairs=PAIRS, server_start_s=start_s)


if __name__ == "__main__":
    main()
