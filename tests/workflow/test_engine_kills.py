"""A hundred kills of a small, real pipeline: nothing of a killed engine lives on, and the results are those of an undisturbed one."""

import contextlib
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from relearn.runs import record
from relearn.studies import STUDIES

from .test_engine_faults import only_senet

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="finds processes in /proc"),
]
ENGINE, TREE, IMPORTER, SERVER, JOB, CHILD = (
    "engine",
    "tree",
    "importer",
    "warm server",
    "job",
    "server's child",
)
KILLS = {ENGINE: 11, TREE: 14, IMPORTER: 15, SERVER: 15, JOB: 20, CHILD: 25}  # a hundred
END_S = 10.0  # within which everything of a killed engine ends
MARK = "RELEARN_TEST_OF_KILLS"  # in the environment of everything that an engine starts
COMMAND = ("snakemake", "--cores", "1", "poisoning")
SHORT: dict[str, Any] = {
    "poisoning.prepare.pretrain_per_class": 16,
    "poisoning.pretrain.training.epochs": 30,
    "poisoning.craft.targets": 5,
}


@dataclass(frozen=True)
class Process:
    """One process of an engine: its parent and the words behind `relearn` that it was started with."""

    pid: int
    parent: int
    words: tuple[str, ...]


def processes(mark: str) -> dict[int, Process]:
    """Everything alive that carries the mark, whoever its parent is now."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if f"{MARK}={mark}\0".encode() not in (entry / "environ").read_bytes() + b"\0":
                continue
            words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
            state, parent = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()[:2]
        except OSError:  # it has just ended
            continue
        if state not in "ZX":
            behind = words[words.index("relearn.cli") + 1 :] if "relearn.cli" in words else []
            found[int(entry.name)] = Process(int(entry.name), int(parent), tuple(behind))
    return found


def members(found: dict[int, Process], engine: int) -> dict[str, list[int]]:
    """Who does what, by pid."""
    servers = [one.pid for one in found.values() if one.words[:1] == ("warm",) and one.parent == engine]
    return {
        ENGINE: [engine],
        IMPORTER: [one.pid for one in found.values() if one.words[:1] == ("track",)],
        SERVER: servers,
        JOB: [one.pid for one in found.values() if one.words and one.words[0] in STUDIES],
        CHILD: [one.pid for one in found.values() if one.parent in servers],
    }


def below(found: dict[int, Process], pid: int) -> set[int]:
    """The descendants of a process."""
    children = [one.pid for one in found.values() if one.parent == pid]
    return set(children).union(*(below(found, child) for child in children))


class Pipeline:
    """A scratch checkout with real jobs, a real importer and a real warm server."""

    def __init__(self, scratch: Any) -> None:
        self.scratch, self.root, self.lives = scratch, scratch.root, 0
        (self.root / "bin/relearn").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m relearn "$@"\n')
        scratch.set(SHORT | dict(only_senet(yaml.safe_load((self.root / "params.yaml").read_text()))))
        self.engine: subprocess.Popen[bytes] | None = None
        self.log = self.root / "engine.log"

    @property
    def env(self) -> dict[str, str]:
        left_out = ("RELEARN_WARM", "RELEARN_PARENTS")
        kept = {name: value for name, value in self.scratch.env.items() if name not in left_out}
        return kept | {MARK: self.mark}

    @property
    def mark(self) -> str:
        return f"{os.getpid()}-{self.lives}"

    def start(self) -> subprocess.Popen[bytes]:
        self.lives += 1
        with open(self.log, "wb") as log:
            self.engine = subprocess.Popen(COMMAND, cwd=self.root, env=self.env, stdout=log, stderr=log)
        return self.engine

    def alive(self) -> dict[int, Process]:
        return processes(self.mark)

    def until(self, kind: str) -> bool:
        """Wait until there is such a member; False when the engine ends before."""
        assert self.engine is not None
        while self.engine.poll() is None:
            now = members(self.alive(), self.engine.pid)
            # before there is an importer, nothing could be left behind
            if now[JOB] or now[IMPORTER] if kind in (ENGINE, TREE) else now[kind]:
                return True
            time.sleep(0.1)
        return False

    def ended(self, pids: set[int] | None = None) -> float:
        """Seconds until those processes have ended (default: everything of the engine); fails after END_S."""
        began = time.monotonic()
        while left := [one for pid, one in self.alive().items() if pids is None or pid in pids]:
            assert time.monotonic() - began < END_S, f"alive after {END_S:g} s: {left}"
            time.sleep(0.05)
        return time.monotonic() - began

    def command(self, *words: str) -> str:
        done = subprocess.run(words, cwd=self.root, env=self.env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def results(self) -> dict[str, Any]:
        """Of each record all that does not tell of time, machine and attempts."""
        found, problems = record.read_all(self.root / "results/mini/runs")
        assert not problems
        return {one["run"]: {key: one[key] for key in ("outputs", "metrics", "outcome")} for one in found}

    def imported(self) -> list[tuple[str, str]]:
        """Run id and status of MLflow's runs that are not in the trash, sorted."""
        asked = (
            "SELECT value, status FROM runs JOIN tags USING (run_uuid)"
            " WHERE key = 'mlflow.relearn.run' AND value NOT LIKE '% %' AND lifecycle_stage = 'active' ORDER BY value"
        )
        with closing(sqlite3.connect(self.root / "mlflow.db")) as store:
            return [(str(run), str(status)) for run, status in store.execute(asked)]

    def finished(self) -> dict[str, Any]:
        """The results of a pipeline whose engine has ended with status 0, each one once in MLflow; then all is cleared."""
        if "Nothing to be done" in self.log.read_text():  # the engine before it died in its last second
            self.command("relearn", "track")
        results = self.results()
        assert self.imported() == [(run, "FINISHED") for run in sorted(results)]
        for made in ("results", "mlartifacts", ".snakemake"):
            shutil.rmtree(self.root / made, ignore_errors=True)
        for file in self.root.glob("mlflow.db*"):
            file.unlink()
        return results

    def close(self) -> None:
        for pid in self.alive():
            os.kill(pid, signal.SIGKILL)
        if self.engine is not None:
            self.engine.wait()


@pytest.fixture
def pipeline(scratch_at: Any, tmp_path: Path) -> Iterator[Pipeline]:
    made = Pipeline(scratch_at(tmp_path / "checkout"))
    yield made
    made.close()


def kill(pipeline: Pipeline, kind: str) -> float | None:
    """Kill such a member, or everything; the seconds until all that ends with it has ended, None if there is none."""
    assert pipeline.engine is not None
    found = pipeline.alive()
    now = members(found, pipeline.engine.pid)
    victims = sorted(found) if kind == TREE else now[kind][:1]
    if pipeline.engine.poll() is not None or not victims:
        return None
    for pid in victims:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    if kind in (ENGINE, TREE):
        pipeline.engine.wait()
        return pipeline.ended()
    return pipeline.ended({victims[0], *below(found, victims[0])})


def plan(chance: random.Random) -> list[str]:
    """Every kill in its order: an engine loses some members before it goes; no child comes after its server."""
    ends = [ENGINE] * KILLS[ENGINE] + [TREE] * KILLS[TREE]
    chance.shuffle(ends)
    lives: list[list[str]] = [[] for _ in ends]
    for kind in (JOB, CHILD):
        for _ in range(KILLS[kind]):
            chance.choice(lives).append(kind)
    for life in chance.sample(lives, KILLS[IMPORTER]):
        life.append(IMPORTER)
    for life in lives:
        chance.shuffle(life)
    for life in chance.sample(lives, KILLS[SERVER]):
        life.append(SERVER)
    return [kind for life, end in zip(lives, ends, strict=True) for kind in (*life, end)]


def test_a_hundred_kills_leave_no_process_and_unchanged_results(pipeline: Pipeline) -> None:
    assert pipeline.start().wait() == 0, pipeline.log.read_text()
    undisturbed = pipeline.finished()
    assert len(undisturbed) > 20

    chance, began = random.Random(0), time.monotonic()
    left = plan(chance)
    assert len(left) == 100
    engine, code = pipeline.start(), -1
    while left or code != 0:
        if left and pipeline.until(left[0]):
            time.sleep(chance.uniform(0.0, 1.5))
            if (seconds := kill(pipeline, left[0])) is not None:
                kind = left.pop(0)
                at = f"{time.monotonic() - began:.0f} s, engine {pipeline.lives}"
                print(f"{at}: {kind} killed, all gone after {seconds:.1f} s, {len(left)} to go", flush=True)
            continue
        code = engine.wait()
        pipeline.ended()
        if code == 0:
            assert pipeline.finished() == undisturbed
            print(f"engine {pipeline.lives}: a pipeline is finished, as undisturbed", flush=True)
        else:
            pipeline.command("relearn", "recover")
        if left or code != 0:
            engine, code = pipeline.start(), -1
