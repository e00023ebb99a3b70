"""Jobs that are killed, stopped by a signal, or lose their engine, and the same jobs started again."""

import json
import os
import shutil
import signal
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from relearn.runs import spool

from .conftest import CRAFT

EVERY = CRAFT["iterations"] // 10  # as steps/craft.py says, at most 100


def steps(desk: Any) -> list[list[int]]:
    """The steps that each attempt has logged."""
    attempts: list[list[int]] = []
    for line in desk.spool().read_bytes().splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if event.get("event") == "start":
            attempts.append([])
        elif "step" in event:
            attempts[-1].append(event["step"])
    return attempts


def redone(desk: Any) -> int:
    first, second = steps(desk)
    return len(set(first) & set(second))


@pytest.fixture(scope="session")
def killed_net(
    desk_at: Callable[[Path], Any], prepared: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A project in which kill -9 has ended `pretrain` behind its fourth checkpoint."""
    desk = desk_at(tmp_path_factory.mktemp("killed"))
    shutil.copytree(prepared / "results", desk.root / "results")
    job = desk.run(*desk.pretrain())
    desk.reached(18, job)  # two steps an epoch
    job.kill()
    assert job.wait() == -signal.SIGKILL
    return desk.root


@pytest.fixture
def killed(desk_at: Callable[[Path], Any], killed_net: Path, tmp_path: Path) -> Any:
    shutil.copytree(killed_net / "results", tmp_path / "results")
    return desk_at(tmp_path)


def test_a_killed_training_goes_on_with_the_same_bits(killed: Any, reference: Any) -> None:
    assert not (killed.path("net") / "record.json").exists()
    job = killed.run(*killed.pretrain())
    assert job.wait() == 0, job.said
    assert killed.outputs("net") == reference.outputs("net")
    assert killed.record("net")["metrics"] == reference.record("net")["metrics"]
    assert 0 <= redone(killed) <= 20 // 10  # epochs between two checkpoints
    assert len(steps(killed)[1]) < 20 and killed.leftovers() == []
    assert "resumed: finished by attempt 2" in killed.record("net")["notes"]


def newest(desk: Any) -> Path:
    """The tensors of the newest checkpoint."""
    heads = sorted((desk.root / "results/mini/work").rglob("[01].json"), key=number)
    assert len(heads) == 2
    return heads[-1].with_suffix(".safetensors")


def number(head: Path) -> int:
    return int(json.loads(head.read_bytes())["number"])


def spoil(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def test_a_spoilt_checkpoint_leaves_the_one_before_it(killed: Any, reference: Any) -> None:
    spoil(newest(killed))
    job = killed.run(*killed.pretrain())
    assert job.wait() == 0, job.said
    assert "its tensors do not match their sha256), trying the previous one" in job.said
    assert killed.outputs("net") == reference.outputs("net")
    assert 0 < len(steps(killed)[1]) < 20


def test_without_a_sound_checkpoint_it_starts_again_with_a_warning(killed: Any, reference: Any) -> None:
    spoil(newest(killed))
    for head in (killed.root / "results/mini/work").rglob("[01].json"):
        spoil(head)
    job = killed.run(*killed.pretrain())
    assert job.wait() == 0, job.said
    assert "relearn poisoning pretrain: fit: no sound checkpoint is left, starting again\n" in job.said
    assert len(steps(killed)[1]) == 20 and killed.outputs("net") == reference.outputs("net")


def test_a_killed_attack_is_one_run_in_mlflow_with_each_step_once(desk: Any, reference: Any) -> None:
    shutil.copytree(reference.path("net"), desk.path("net"))
    following = ["track", "--follow", "--interval", "0.2", "--stop-file", "stop", "--root", "results/mini"]
    tracker = desk.run(*following, MLFLOW_TRACKING_URI=f"sqlite:///{desk.root}/mlflow.db")
    job = desk.run(*desk.craft())
    desk.reached(EVERY + 5, job)
    job.kill()
    assert job.wait() == -signal.SIGKILL
    job = desk.run(*desk.craft())
    assert job.wait() == 0, job.said
    (desk.root / "stop").touch()
    assert tracker.wait() == 0, tracker.said
    assert desk.outputs("craft") == reference.outputs("craft")
    assert redone(desk) <= EVERY and steps(desk)[1][0] == EVERY + 1
    with closing(sqlite3.connect(desk.root / "mlflow.db")) as store:
        asked = "SELECT status FROM runs WHERE name LIKE '%craft' AND lifecycle_stage = 'active'"
        assert store.execute(asked).fetchall() == [("FINISHED",)]
        asked = "SELECT step FROM metrics WHERE key = 'loss_sum' ORDER BY step"
        assert [step for (step,) in store.execute(asked)] == list(range(1, 141))


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), pytest.param(signal.SIGINT, 130, marks=pytest.mark.slow)]
)
def test_an_observed_attack_keeps_every_iteration(desk: Any, reference: Any, number: int, code: int) -> None:
    shutil.copytree(reference.path("net"), desk.path("net"))
    job = desk.run(*desk.craft())
    desk.reached(10, job)
    job.kill(number)
    assert job.wait() == code, job.said
    assert desk.story().status == spool.KILLED and desk.leftovers() == []
    assert sorted(path.name for path in desk.path("craft").iterdir()) == []
    job = desk.run(*desk.craft())
    assert job.wait() == 0, job.said
    assert redone(desk) == 0 and desk.outputs("craft") == reference.outputs("craft")


def orphan(desk: Any) -> Any:
    """An engine with a job below it: a process that has announced itself, and one that it has started."""
    source = f"""
from relearn.runs import orphan_guard as parents
parents.announce()
pid = os.fork()
if pid == 0:
    code = relearn(*{desk.pretrain()!r})
    Path("status").write_text(str(code))
else:
    os.waitpid(pid, 0)
"""
    engine = desk.start(source)
    desk.reached(4, engine)
    return engine


def test_a_job_ends_with_the_engine_that_started_it(desk: Any, reference: Any) -> None:
    engine = orphan(desk)
    engine.kill()
    assert engine.wait() == -signal.SIGKILL
    status = desk.root / "status"
    desk.until(lambda: status.exists() and status.read_text())  # it is there before it is written
    assert status.read_text() == "143"
    assert f"process {engine.pid}, which started this one, is gone" in engine.said
    assert (desk.story().status, desk.story().reason) == (spool.KILLED, "stopped by SIGTERM")
    job = desk.run(*desk.pretrain())
    assert job.wait() == 0, job.said
    assert desk.outputs("net") == reference.outputs("net")


def test_a_child_that_lives_on_is_named_and_nothing_is_unlocked(desk: Any) -> None:
    locks = desk.root / ".snakemake/locks"
    locks.mkdir(parents=True)
    (locks / "0.output.lock").write_text("results/mini/runs/poisoning/net/record.json\n")
    job = desk.run(*desk.pretrain())
    desk.reached(2, job)
    os.kill(job.pid, signal.SIGSTOP)  # so that it is surely alive while the others look
    try:
        told = desk.run("recover")
        assert told.wait() == 4
        assert f"running: pretrain net seed0, process {job.pid}\n" in told.said
        assert f"`kill {job.pid}`" in told.last and (locks / "0.output.lock").exists()
        second = desk.start(
            "from relearn.runs import record\n"
            "import functools\n"
            "record.Run.__init__ = functools.partialmethod(record.Run.__init__, wait_s=0.3)\n"
            f"code = relearn(*{desk.pretrain()!r})"
        )
        assert second.wait() == 4
        assert second.last.endswith(f"held by process {job.pid}, not free after 0.3 s")
    finally:
        os.kill(job.pid, signal.SIGCONT)
    job.kill()
    assert job.wait() == -signal.SIGKILL
    told = desk.run("recover")
    assert told.wait() == 0
    assert "Snakemake's lock: no running process holds it; removed" in told.said and not list(
        locks.glob("*.lock")
    )
    assert "unfinished: pretrain net seed0: ended without a message, last step" in told.said


def test_two_at_once_work_once(desk: Any, reference: Any) -> None:
    first = desk.run(*desk.pretrain())
    desk.reached(2, first)
    os.kill(first.pid, signal.SIGSTOP)  # so that the second surely finds it at work
    try:
        second = desk.run(*desk.pretrain())
        desk.until(lambda: f"held by process {first.pid}, waiting" in second.said)
    finally:
        os.kill(first.pid, signal.SIGCONT)
    assert (first.wait(), second.wait()) == (0, 0), first.said + second.said
    assert desk.outputs("net") == reference.outputs("net")
    assert [len(one) for one in steps(desk)] == [20]  # one attempt, each epoch once
