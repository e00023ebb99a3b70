"""Real jobs for faults: `relearn` processes on a tiny prepared set of digits, and what they left behind."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from relearn.runs import record, spool

HERE = Path(__file__).resolve().parent
CHECKOUT = HERE.parents[1]
RUNS = Path("results/mini/runs/poisoning")
SPLIT = {"dataset": "digits", "pretrain_per_class": 8, "fine_tune_per_class": 10, "pool_per_class": 14}
TRAINING = {
    "epochs": 20,
    "batch_size": 40,
    "lr": 0.05,
    "momentum": 0.9,
    "weight_decay": 5.0e-4,
    "schedule": "cosine",
    "crop_padding": 1,
    "flip": False,
    "label_smoothing": 0.0,
}
NETWORK = {"architecture": "ResNet18", "width": 0.125, "depth": 0.25, "dropout": 0.2}
TRIALS = {"poison_class": 8, "target_class": 6, "poisons": 2, "targets": 2}
CRAFT = {**TRIALS, "attack": "feature_collision", "eps": 0.2, "lr": 0.04, "iterations": 140, "dropout": True}


class Nursery:
    """Bears the processes; see job_forker.py."""

    def __init__(self) -> None:
        command = [sys.executable, str(HERE / "job_forker.py")]
        env = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env
        )
        self.ended: dict[int, int] = {}
        assert self.said() == {"ready": True}

    def said(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        told: dict[str, Any] = json.loads(self.process.stdout.readline())
        if "pid" in told:
            self.ended[told["pid"]] = told["code"]
        return told

    def bear(self, request: dict[str, Any]) -> int:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        while True:
            told = self.said()
            if "born" in told:
                return int(told["born"])

    def close(self) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait(20)
        self.process.stdout.close()


class Job:
    """One process and what it wrote."""

    def __init__(self, nursery: Nursery, pid: int, out: Path) -> None:
        self.nursery, self.pid, self.out = nursery, pid, out

    def wait(self) -> int:
        """Its exit status; negative: the signal that ended it."""
        while self.pid not in self.nursery.ended:
            self.nursery.said()
        return self.nursery.ended[self.pid]

    def kill(self, number: int = signal.SIGKILL) -> None:
        os.kill(self.pid, number)

    @property
    def said(self) -> str:
        # A process that has just been asked for has not opened its file yet.
        return self.out.read_text(errors="replace") if self.out.exists() else ""

    @property
    def last(self) -> str:
        """The last line that it wrote."""
        return (self.said.strip().splitlines() or [""])[-1]


class Desk:
    """A project folder: starts jobs in it and reads what is there. Its Snakefile has nothing to do."""

    def __init__(self, nursery: Nursery, root: Path) -> None:
        self.nursery, self.root, self.jobs = nursery, root, 0
        shutil.copy(CHECKOUT / "params.yaml", root)
        (root / "Snakefile").write_text("rule all:\n    input: []\n")

    def start(self, source: str, **env: str) -> Job:
        """Run Python source in a separate process; `code` is its exit status, `relearn(…)` the command line."""
        self.jobs += 1
        out = self.root / f"out-{self.jobs}.txt"
        pid = self.nursery.bear({"source": source, "cwd": str(self.root), "env": env, "out": str(out)})
        return Job(self.nursery, pid, out)

    def run(self, *words: object, before: str = "", **env: str) -> Job:
        """A relearn command; `before` is Python that runs ahead of it in the same process."""
        return self.start(f"{before}\ncode = relearn(*{[str(word) for word in words]!r})", **env)

    def words(self, step: str, name: str, settings: dict[str, Any], **inputs: str) -> list[str]:
        """The words of a step whose run is called `name`; inputs are files below the runs."""
        found = [
            "poisoning",
            step,
            "--settings",
            json.dumps(settings),
            "--out",
            str(RUNS / name),
            "--device",
            "cpu",
        ]
        for key, file in inputs.items():
            found += ["--input", key, file if "/" not in file or file.startswith("/") else str(RUNS / file)]
        return [*found, "--label", f"name={name.replace('/', '-')}"]

    def pretrain(self, name: str = "net", **changes: Any) -> list[str]:
        network = {key: changes.pop(key) for key in list(changes) if key in NETWORK}
        settings = {**NETWORK, **network, "training": {**TRAINING, **changes}}
        return self.words("pretrain", name, settings, data="prepare/data.safetensors")

    def craft(self, name: str = "craft", net: str = "net", **changes: Any) -> list[str]:
        inputs = {"data": "prepare/data.safetensors", "substitutes": f"{net}/weights.safetensors"}
        return self.words("craft", name, {**CRAFT, **changes}, **inputs)

    def path(self, name: str) -> Path:
        return self.root / RUNS / name

    def record(self, name: str) -> dict[str, Any]:
        return record.read(self.path(name))

    def outputs(self, name: str) -> dict[str, str]:
        """sha256 of each artefact of a run."""
        return {file: one["sha256"] for file, one in self.record(name)["outputs"].items()}

    def spool(self) -> Path:
        """The one spool that is no finished run's of `prepare_images`."""
        files = (self.root / "results/mini/spool").glob("*.jsonl")
        (one,) = [
            path for path in files if (told := spool.tell(path)) and told.start["step"] != "prepare_images"
        ]
        return one

    def story(self) -> spool.Story:
        told = spool.tell(self.spool())
        assert told is not None
        return told

    def until(self, ready: Callable[[], object], job: Job | None = None) -> None:
        """Wait until something is so; fails where the job ended before."""
        deadline = time.monotonic() + 60
        while not ready():
            assert time.monotonic() < deadline, job.said if job else "never"
            assert job is None or job.pid not in self.nursery.ended, job.said if job else ""
            time.sleep(0.005)

    def reached(self, step: int, job: Job) -> None:
        """Wait until the run has logged a step."""

        def logged() -> bool:
            try:
                return any(at >= step for _, at in self.story().points)
            except ValueError:  # no spool yet
                return False

        self.until(logged, job)

    def leftovers(self) -> list[str]:
        """Temporary files."""
        return [str(path) for path in self.root.rglob(".*") if path.suffix in (".tmp", ".part", ".probe")]


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    nursery = Nursery()
    yield nursery
    nursery.close()


@pytest.fixture(scope="session")
def desk_at(nursery: Nursery) -> Callable[[Path], Desk]:
    """Make a desk of a folder."""
    return lambda root: Desk(nursery, root)


@pytest.fixture(scope="session")
def prepared(nursery: Nursery, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project folder in which `prepare_images` has run."""
    desk = Desk(nursery, tmp_path_factory.mktemp("prepared"))
    job = desk.run(*desk.words("prepare_images", "prepare", SPLIT))
    assert job.wait() == 0, job.said
    return desk.root


@pytest.fixture
def desk(nursery: Nursery, prepared: Path, tmp_path: Path) -> Desk:
    shutil.copytree(prepared / "results", tmp_path / "results")
    return Desk(nursery, tmp_path)


@pytest.fixture(scope="session")
def reference(nursery: Nursery, prepared: Path, tmp_path_factory: pytest.TempPathFactory) -> Desk:
    """The undisturbed runs: `net` (pretrain) and `craft` on it."""
    desk = Desk(nursery, tmp_path_factory.mktemp("reference"))
    shutil.copytree(prepared / "results", desk.root / "results")
    for words in (desk.pretrain(), desk.craft()):
        job = desk.run(*words)
        assert job.wait() == 0, job.said
    return desk
