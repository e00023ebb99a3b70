"""Engines that are killed or started twice, with real jobs: real Snakemake, real DVC, real training on few digits."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from relearn.runs import record, spool
from relearn.runs.atomic_files import holder

pytestmark = pytest.mark.slow
FOLDER = "a b $(touch owned) `touch owned` é"  # the checkout lies where a shell could trip
SHORT: dict[str, Any] = {
    "poisoning.prepare.pretrain_per_class": 16,
    "poisoning.pretrain.training.epochs": 40,
}
NETWORK = "results/mini/runs/poisoning/pretrain/victim/SENet18-drop0/seed0"


def only_senet(values: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """Every key that names architectures, with one: few jobs, each long enough to be met while it runs."""
    for name, value in values.items() if isinstance(values, dict) else ():
        if name == "victim":
            yield f"{key}{name}", "SENet18"
        elif name == "architectures" or (name == "victims" and isinstance(value, list)):
            yield f"{key}{name}", ["SENet18"]
        else:
            yield from only_senet(value, f"{key}{name}.")


class Checkout:
    """A scratch checkout whose jobs are real; only the importer into MLflow stays away."""

    def __init__(self, scratch: Any) -> None:
        self.scratch, self.root = scratch, scratch.root
        program = self.root / "bin/relearn"
        program.write_text(
            f'#!/bin/sh\n[ "$1" = track ] && exit 0\nexec "{sys.executable}" -m relearn "$@"\n'
        )
        scratch.set(SHORT | dict(only_senet(yaml.safe_load((self.root / "params.yaml").read_text()))))
        self.engines: list[subprocess.Popen[bytes]] = []
        self.env = {**scratch.env, "DVC_NO_ANALYTICS": "1"}
        for name in ("RELEARN_PARENTS", "RELEARN_WARM"):
            self.env.pop(name, None)

    def shorten_stage(self, record: str) -> None:
        """Let the stage of the study make this record and what it needs, not the whole study."""
        self.scratch.edit("dvc.yaml", "snakemake -- poisoning\n", f"snakemake -- {record}\n")

    def start(self, *command: str) -> subprocess.Popen[bytes]:
        log = open(self.root / "engine.log", "ab")  # noqa: SIM115
        with log:
            engine = subprocess.Popen(command, cwd=self.root, env=self.env, stdout=log, stderr=log)
        self.engines.append(engine)
        return engine

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, cwd=self.root, env=self.env, capture_output=True, text=True, check=False
        )

    def stories(self) -> dict[str, spool.Story]:
        found = {path.stem: spool.tell(path) for path in (self.root / "results/mini/spool").glob("*.jsonl")}
        return {run: told for run, told in found.items() if told and told.start["step"] == "pretrain"}

    def training(self) -> bool:
        return any(len(told.points) >= 24 for told in self.stories().values())

    def jobs_alive(self) -> list[int]:
        locks = (self.root / "results/mini/work").glob("*.lock")
        return [owner.pid for owner in map(holder, locks) if owner]

    def signal_jobs(self, number: int) -> list[int]:
        found = self.jobs_alive()
        for pid in found:
            os.kill(pid, number)
        return found

    def close(self) -> None:
        """Leave nobody behind, also where a test has failed."""
        for engine in self.engines:
            engine.kill()
            engine.wait()
        self.signal_jobs(signal.SIGKILL)

    def until(self, so: Any, seconds: float = 600.0, engine: subprocess.Popen[bytes] | None = None) -> None:
        deadline = time.monotonic() + seconds
        while not so():
            ended = engine is not None and engine.poll() is not None
            assert time.monotonic() < deadline and not ended, (self.root / "engine.log").read_text()
            time.sleep(0.02)


@pytest.fixture
def checkout(scratch_at: Any, tmp_path: Path) -> Iterator[Checkout]:
    made = Checkout(scratch_at(tmp_path / FOLDER))
    yield made
    made.close()


def test_a_killed_snakemake_takes_its_jobs_along_and_recover_clears_the_way(checkout: Checkout) -> None:
    command = ["snakemake", "--cores", "all", f"{NETWORK}/record.json"]
    engine = checkout.start(*command)
    checkout.until(checkout.training, engine=engine)
    (job,) = checkout.signal_jobs(signal.SIGSTOP)  # however slow the next commands start, it is still there
    second = checkout.run(*command)
    assert second.returncode != 0 and "cannot be locked" in second.stderr, second.stderr
    told = checkout.run("relearn", "recover")
    assert told.returncode == 4, told.stderr
    for line in (
        f"running: snakemake, process {engine.pid}\n",
        f"running: pretrain victim SENet18-drop0 SENet18 seed0, process {job}\n",
        "Snakemake's lock: held, see above\n",
    ):
        assert line in told.stdout

    engine.send_signal(signal.SIGKILL)
    engine.wait()
    checkout.signal_jobs(signal.SIGCONT)
    checkout.until(lambda: not checkout.jobs_alive(), 60)
    (story,) = checkout.stories().values()
    assert (story.status, story.reason) == (spool.KILLED, "stopped by SIGTERM")
    told = checkout.run("relearn", "recover")
    assert told.returncode == 0, told.stdout
    assert "Snakemake's lock: no running process holds it; removed" in told.stdout
    assert "pretrain victim SENet18-drop0 SENet18 seed0: KILLED (stopped by SIGTERM)" in told.stdout
    assert "resumes from its checkpoint" in told.stdout

    again = checkout.run(*command)
    assert again.returncode == 0, again.stderr
    made = record.read(checkout.root / NETWORK)
    assert "resumed: finished by attempt 2" in made["notes"]
    assert not list(checkout.root.parent.rglob("owned"))


def test_a_killed_dvc_takes_snakemake_along_and_the_next_one_succeeds(checkout: Checkout) -> None:
    checkout.shorten_stage(f"{NETWORK}/record.json")
    engine = checkout.start("dvc", "repro", "poisoning")
    checkout.until(checkout.training, engine=engine)
    jobs = checkout.signal_jobs(signal.SIGSTOP)
    refused = checkout.run("snakemake", "--cores", "all", f"{NETWORK}/record.json")
    assert refused.returncode != 0 and "cannot be locked" in refused.stderr, refused.stderr
    engine.send_signal(signal.SIGKILL)
    engine.wait()
    checkout.signal_jobs(signal.SIGCONT)
    locks = checkout.root / ".snakemake/locks"
    checkout.until(lambda: not checkout.jobs_alive() and not list(locks.glob("*.lock")), 120)
    again = checkout.run("dvc", "repro", "poisoning")
    assert again.returncode == 0, again.stdout + again.stderr
    made, problems = record.read_all(checkout.root / "results/mini/runs")
    assert not problems and any("resumed: finished by attempt 2" in one["notes"] for one in made)
    attempts = [told.attempts for told in checkout.stories().values()]
    assert 1 <= attempts.count(2) <= len(jobs) and set(attempts) <= {1, 2}
    assert os.path.exists(checkout.root / "dvc.lock")


def test_a_spoilt_object_of_dvc_s_cache_stops_the_job_that_reads_it(checkout: Checkout) -> None:
    """`dvc checkout` restores it silently, although the record in the same folder does not match."""
    checkout.shorten_stage("results/mini/runs/poisoning/prepare_images/digits/record.json")
    assert checkout.run("dvc", "repro", "poisoning").returncode == 0
    data = next((checkout.root / "results/mini/runs/poisoning/prepare_images").rglob("data.safetensors"))
    content = data.read_bytes()
    (stored,) = [
        path
        for path in (checkout.root / ".dvc/cache").rglob("*")
        if path.is_file() and path.read_bytes() == content
    ]
    stored.chmod(0o644)
    stored.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    stored.chmod(0o444)
    data.unlink()
    restored = checkout.run("dvc", "checkout")
    assert data.exists() and data.read_bytes() != content, restored.stdout + restored.stderr
    done = checkout.run("snakemake", "--cores", "all", f"{NETWORK}/record.json")
    log = next((checkout.root / "results/mini/logs/poisoning/pretrain").rglob("*.log")).read_text()
    assert done.returncode != 0
    assert "data.safetensors: torn or edited" in done.stdout + done.stderr + log
    assert not (checkout.root / NETWORK / "record.json").exists()
