"""How a run that has not finished is shown."""

import itertools
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from relearn.runs import spool
from relearn.tracking import importer as tracking

from .imported import ROOT, aged, curve, finished, killed, make, rows, stored

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning"),
    pytest.mark.usefixtures("project"),
]


def test_a_silent_run_whose_lock_is_free_is_killed_and_comes_back_when_it_resumes() -> None:
    def status() -> str:
        tracking.import_spool(ROOT)
        (one,) = stored()
        return str(one.info.status)

    run = killed(0, {0: 0.5})
    assert status() == spool.RUNNING  # silent for too short a time
    aged(run)
    assert status() == spool.KILLED
    with pytest.raises(ZeroDivisionError), make(0) as again:
        aged(again)
        assert status() == spool.RUNNING  # silent, and its lock is held
        raise ZeroDivisionError
    assert status() == spool.FAILED
    (one,) = stored()
    assert one.data.tags["reason"] == "ZeroDivisionError: ZeroDivisionError"
    finished(0)
    assert status() == spool.FINISHED
    (one,) = stored()
    assert "reason" not in one.data.tags


def test_a_dead_run_dated_in_the_future_is_closed() -> None:
    run = killed(0, {0: 0.5})
    os.utime(run.spool, (2.0e9 + time.time(), 2.0e9 + time.time()))
    tracking.import_spool(ROOT)
    (one,) = stored()
    assert one.info.status == spool.KILLED


def test_a_running_run_whose_files_are_gone_is_closed() -> None:
    gone = killed(0, {0: 0.5})
    finished(1)
    tracking.import_spool(ROOT)
    gone.spool.unlink()
    tracking.import_spool(ROOT)
    assert [one.info.status for one in stored()] == [spool.KILLED, spool.FINISHED]


def test_a_live_run_of_another_checkout_stays(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    killed(0, {0: 0.5})
    tracking.import_spool(ROOT)
    Path("other").mkdir()
    monkeypatch.chdir("other")
    Path("data.bin").touch()
    finished(1)
    tracking.import_spool(ROOT, f"sqlite:///{project}/mlflow.db")
    monkeypatch.chdir(project)
    assert [one.info.status for one in stored()] == [spool.RUNNING, spool.FINISHED]


def test_a_folder_that_appears_later_is_followed() -> None:
    finished(0)
    roots, calls = [Path("results/small")], itertools.count()

    def stop() -> bool:
        if next(calls):
            roots.append(ROOT)
        return ROOT in roots

    tracking.follow(lambda: roots, stop=stop, interval_s=0.01)
    assert len([*stored()]) == 1


def test_following_shows_a_run_while_it_trains() -> None:
    stop = threading.Event()
    result: list[Any] = []

    def wait_for(condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 60
        while not condition():
            assert time.monotonic() < deadline
            time.sleep(0.02)

    run = make(0)
    with run:
        run.log(0, loss=0.5)
        thread = threading.Thread(
            target=lambda: result.append(tracking.follow(ROOT, stop=stop.is_set, interval_s=0.01))
        )
        thread.start()
        wait_for(lambda: [one.info.status for one in stored()] == [spool.RUNNING])
        run.log(1, loss=0.25)
        wait_for(lambda: curve(next(stored())) == [(0, 0.5), (1, 0.25)])
        run.finish({"test_accuracy_frac": 0.75})
    wait_for(lambda: [one.info.status for one in stored()] == [spool.FINISHED])
    stop.set()
    thread.join()
    assert result[0].unchanged == 1 and rows("metrics") == 6
