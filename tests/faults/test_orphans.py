"""The helpers of an engine end with it, whenever it is killed: while they start, while they wait and while they work."""

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from relearn.cli import track
from relearn.runs import orphan_guard as parents
from relearn.runs import provenance, record

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="engines are watched in /proc")
END_S = 10.0
ENGINE = """
import subprocess, sys, time
from relearn.runs import orphan_guard as parents
parents.announce()
helper = subprocess.Popen([sys.executable, "-m", "relearn", *sys.argv[1:]], stdout=2)
print(helper.pid, flush=True)
time.sleep(600)
"""
COMMANDS = {
    "importer": ["track", "--root", "results/mini", "--follow", "--stop-file", "stop"],
    "warm server": ["warm", "--socket", "socket"],
}
RUNS = 12


class Engine:
    """A process that announces itself and starts a helper; the helper's parent for as long as it lives."""

    def __init__(self, folder: Path, *words: str) -> None:
        self.out = folder / "out.txt"
        uri = f"sqlite:///{folder}/mlflow.db"
        env = {**os.environ, "MLFLOW_TRACKING_URI": uri, "OMP_NUM_THREADS": "1", "RELEARN_PARENTS": ""}
        with open(self.out, "wb") as err:
            self.process = subprocess.Popen(
                [sys.executable, "-c", ENGINE, *words],
                cwd=folder,
                env=env,
                stdout=subprocess.PIPE,
                stderr=err,
                text=True,
            )
        assert self.process.stdout is not None
        self.helper = int(self.process.stdout.readline())
        self.name = parents._name(self.helper)

    def helper_is_alive(self) -> bool:
        return parents.first_gone([self.name]) is None

    def kill(self) -> float:
        """Kill the engine; the seconds that its helper lives on, at most END_S."""
        began = time.monotonic()
        self.close()
        while self.helper_is_alive() and time.monotonic() - began < END_S:
            time.sleep(0.02)
        return time.monotonic() - began

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def until(self, so: Callable[[], object]) -> None:
        deadline = time.monotonic() + 120
        while not so():
            assert self.helper_is_alive() and time.monotonic() < deadline, self.out.read_text()
            time.sleep(0.02)


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Callable[..., Engine]]:
    made: list[Engine] = []

    def make(*words: str) -> Engine:
        (tmp_path / "results/mini/spool").mkdir(parents=True, exist_ok=True)
        made.append(Engine(tmp_path, *words))
        return made[-1]

    yield make
    for one in made:
        one.close()
        if one.helper_is_alive():
            os.kill(one.helper, signal.SIGKILL)


@pytest.mark.parametrize("seconds", [0.0, 0.6])
@pytest.mark.parametrize("helper", COMMANDS)
def test_a_helper_that_is_just_starting_ends_too(
    engine: Callable[..., Engine], helper: str, seconds: float
) -> None:
    """By then the engine may be gone before the helper's first line of Python: its parent is already another."""
    one = engine(*COMMANDS[helper])
    time.sleep(seconds)
    assert one.helper_is_alive()
    assert one.kill() < END_S


def test_a_follower_that_waits_ends(engine: Callable[..., Engine]) -> None:
    one = engine(*COMMANDS["importer"])
    time.sleep(2.0)
    assert one.helper_is_alive() and one.kill() < END_S


def test_a_follower_ends_within_an_import_and_the_next_one_brings_the_rest(
    engine: Callable[..., Engine], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(provenance, "_git", lambda *_: None)
    for number in range(RUNS):
        out = f"results/mini/runs/{number}"
        labels = {"number": number}
        with record.Run(
            out, study="s", paper="p", step="t", labels=labels, scale="mini", seed=0, settings={}
        ) as run:
            run.finish({"value": 1.0})
    one = engine(*COMMANDS["importer"])

    def imported() -> list[str]:
        asked = (
            "SELECT value FROM tags JOIN runs USING (run_uuid)"
            " WHERE key = 'mlflow.relearn.run' AND value NOT LIKE '% %' AND lifecycle_stage = 'active'"
        )
        if not Path("mlflow.db").exists():
            return []
        with closing(sqlite3.connect("mlflow.db")) as store:
            return [run for (run,) in store.execute(asked)]

    one.until(imported)
    assert one.kill() < END_S and len(imported()) < RUNS
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/mlflow.db")
    import argparse

    parser = argparse.ArgumentParser()
    track.add_arguments(parser)
    assert track.main(parser.parse_args([])) == 0
    assert len(imported()) == len(set(imported())) == RUNS


def test_a_server_that_listens_ends(engine: Callable[..., Engine], tmp_path: Path) -> None:
    one = engine(*COMMANDS["warm server"])
    one.until((tmp_path / "socket").exists)
    assert one.kill() < END_S


def test_a_process_that_measures_memory_ends_with_its_engine() -> None:
    """It waits for its cases when the engine is killed; the control, whose engine lives, waits on."""
    command = [sys.executable, "-m", "relearn.studies.long_short.steps.peak_memory", "1"]
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=pipe) as engine:
        env = {**os.environ, "OMP_NUM_THREADS": "1", parents.VARIABLE: parents._name(engine.pid)}
        with subprocess.Popen(command, env=env, stdin=pipe, stderr=pipe, text=True) as child:
            with pytest.raises(subprocess.TimeoutExpired):
                child.wait(4)
            engine.kill()
            engine.wait()
            assert child.stderr is not None
            said = child.stderr.readline()
            assert child.wait(60) == -signal.SIGTERM and said.endswith("which started this one, is gone\n")
