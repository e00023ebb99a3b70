"""The driver keeps the order of the DAG, goes on where it stopped, and ends in time; what comes home counts as done."""

import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from relearn.runs import orphan_guard, record
from relearn.runs.node import __main__ as node_main
from relearn.runs.node import driver, home, jobs_file, machine, parts, summary
from relearn.runs.node.driver import Driver
from relearn.runs.node.jobs_file import NodeJob
from relearn.runs.node.machine import Machine
from relearn.runs.record_file import left_behind

STAND_IN = Path(__file__).with_name("stand_in.py")


def job_at(name: str, *inputs: NodeJob, kind: str = "plain", **more: object) -> NodeJob:
    folder = f"results/mini/runs/study/step/{name}"
    settings = {"name": name}
    read = tuple(path for one in inputs for path in one.outputs)
    plain = NodeJob(
        run=record.run_id("study", "step", {}, "mini", 0, settings),
        code="c0de",
        study="study",
        step="step",
        words=(kind, "study", "step", json.dumps(settings), "--inputs", json.dumps(read)),
        record=f"{folder}/record.json",
        inputs=read,
        outputs=(f"{folder}/weights.bin",),
        log=f"results/mini/logs/study/step/{name}.log",
        mem_mb=1000,
        gpu=1,
    )
    return replace(plain, **more)  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "node").mkdir()
    monkeypatch.chdir(tmp_path / "node")
    return tmp_path


def run(*jobs: NodeJob, at_once: int = 1, seconds: float = 60.0) -> tuple[Driver, list[str]]:
    """Run jobs; return the driver and the names of the jobs that it started."""
    calls = Path("calls.txt")
    calls.unlink(missing_ok=True)
    driver = Driver(
        jobs, Machine(at_once), deadline=time.monotonic() + seconds, program=(sys.executable, str(STAND_IN))
    )
    driver.run()
    return driver, [Path(line).name for line in calls.read_text().split()] if calls.exists() else []


FIRST = job_at("first")
SECOND = job_at("second", FIRST)
THIRD = job_at("third", SECOND)
ALONE = job_at("alone")


def test_the_order_is_that_of_the_dag_and_long_chains_start_first() -> None:
    driver, started = run(ALONE, FIRST, SECOND, THIRD)
    assert started == ["first", "second", "alone", "third"] or started[:2] == ["first", "second"]
    assert driver.failed == {} and jobs_file.todo([ALONE, FIRST, SECOND, THIRD])[1] == []
    assert run(ALONE, FIRST, SECOND, THIRD)[1] == []


def test_other_code_or_another_input_is_to_do_again_with_all_behind_it() -> None:
    run(FIRST, SECOND, ALONE)
    assert [one.label for one in jobs_file.todo([replace(FIRST, code="other"), SECOND, ALONE])[1]] == [
        FIRST.label,
        SECOND.label,
    ]
    shutil.rmtree(FIRST.folder)
    assert jobs_file.todo([FIRST, SECOND, ALONE])[1] == [FIRST, SECOND]


def test_who_reads_the_record_of_a_run_to_do_again_is_to_do_again() -> None:
    """A run that chooses a rate reads the records of its trials."""
    words = (*SECOND.words[:-1], json.dumps([FIRST.record]))
    chooses = replace(SECOND, inputs=(FIRST.record,), words=words)
    run(FIRST, chooses)
    assert jobs_file.todo([FIRST, chooses])[1] == []
    assert jobs_file.todo([replace(FIRST, code="other"), chooses])[1][1:] == [chooses]


def test_an_input_from_elsewhere_that_has_changed_is_read_again() -> None:
    Path("data.bin").write_text("first")
    fed = job_at("fed")
    words = (*fed.words[:-1], json.dumps(["data.bin"]))
    fed = replace(fed, inputs=("data.bin",), words=words)
    run(fed, ALONE)
    assert jobs_file.todo([fed, ALONE])[1] == []
    Path("data.bin").write_text("second")
    assert jobs_file.todo([fed, ALONE])[1] == [fed]
    Path("data.bin").unlink()  # what has gone cannot be compared
    assert jobs_file.todo([fed, ALONE])[1] == []


def test_parts_of_data_are_unpacked_once_and_new_ones_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "main", lambda: 0)
    monkeypatch.setattr(sys, "argv", ["run.sh"])
    for text in ("first", "other"):
        with parts.Writer(Path(), "pack.data", 10**6) as writer:
            writer.add("data.txt", text.encode())
        assert node_main.main() == 0 and Path("data.txt").read_text() == text
        Path("data.txt").unlink()
        os.utime("pack.data.0.part", (1, 1))  # the same part, copied once more
        assert node_main.main() == 0 and not Path("data.txt").exists()


def test_wrong_use_has_another_status_than_a_failed_job() -> None:
    for words in (["--jobs", "0"], ["--nonsense"]):
        command = [sys.executable, "-m", "relearn.runs.node", *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 2 and "Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1].startswith("run.sh: error: unrecognized arguments: --nonsense")


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_jobs_know_the_driver_with_which_they_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """What becomes of a job whose engine is gone: tests/runs/test_orphan_guard.py."""
    seen: list[str] = []
    monkeypatch.setenv(orphan_guard.VARIABLE, "")
    monkeypatch.setattr(Driver, "run", lambda _: seen.append(os.environ[orphan_guard.VARIABLE]))
    monkeypatch.setattr(driver.signal, "signal", lambda *_: None)
    Path("jobs.json").write_text(jobs_file.text([FIRST]))
    assert driver.main(["--device", "cpu", "--jobs", "1"]) == driver.OUT_OF_TIME
    assert [name.split(":")[-2] for name in seen] == [str(os.getpid())]


def test_a_failed_job_stops_only_those_that_need_it() -> None:
    bad = job_at("bad", kind="fails")
    behind = job_at("behind", bad)
    driver, started = run(bad, behind, ALONE)
    assert sorted(started) == ["alone", "bad"]
    assert list(driver.failed.values()) == ["ValueError: no such thing"]
    Path("mended").touch()
    assert run(bad, behind, ALONE)[1] == ["bad", "behind"]


def test_at_the_limit_jobs_stop_at_a_safe_point_and_go_on_later() -> None:
    long = job_at("long", kind="long")
    driver, started = run(long, job_at("behind", long), seconds=3.0)
    assert started == ["long"] and driver.stopped == {long.record} and driver.failed == {}
    assert list(Path("results/mini/work").rglob("checkpoint.json"))
    done, left = jobs_file.todo([long])
    found, behind = home.bring(done, left, Path("home"))
    assert behind == []
    parts.read(found, Path("there"))
    assert [path.name for path in Path("there/results/mini/work").rglob("*.json")] == ["checkpoint.json"]
    Path("quick").touch()
    assert run(long)[0].failed == {}
    assert "resumed: finished by attempt 2" in record.read(long.record)["notes"]


def test_jobs_share_devices_as_far_as_slots_cores_and_memory_reach() -> None:
    small, cpu = job_at("small"), job_at("cpu", gpu=0)
    assert Machine(2).room_for(small, [small]) and not Machine(2).room_for(small, [small] * 2)
    card = Machine(16, per_device=3, devices_mb=(10_000,))
    assert card.room_for(small, [small] * 2) and not card.room_for(small, [small] * 3)
    assert card.room_for(cpu, [small] * 3)  # needs no device
    large = job_at("large", mem_mb=8500)
    assert card.room_for(large, []) and not card.room_for(large, [small])
    assert card.room_for(
        job_at("huge", mem_mb=50_000), [cpu]
    )  # the forecast may be too high: alone it may try
    cards, half = Machine(16, 3, (10_000, 10_000)), job_at("half", mem_mb=5900)
    assert cards.room_for(large, [large]) and not cards.room_for(large, [large] * 2)
    assert cards.room_for(half, [half])
    assert not cards.room_for(half, [half] * 2)  # 17,700 of 20,000 MB, but two of them on one card


def test_a_device_by_its_number_is_one_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "cuda_memory_mb", lambda: (10, 20))
    found = [machine.usable_mb(name) for name in ("cpu", "auto", "cuda", "cuda:1")]
    assert found == [(), (10, 20), (10, 20), (20,)]
    with pytest.raises(ValueError, match="--device: found cuda:2, allowed: cuda:0 to cuda:1"):
        machine.usable_mb("cuda:2")


def test_what_has_no_room_stays_behind_and_is_named() -> None:
    run(FIRST, ALONE)
    found, behind = home.bring([FIRST, ALONE], [], Path("home"), weights="none")
    assert sorted(behind) == sorted([FIRST.outputs[0], ALONE.outputs[0]])
    parts.read(found, Path("there"))
    there = Path("there") / FIRST.folder
    assert left_behind(there) == {"weights.bin": record.digest(FIRST.outputs[0])}
    assert record.verify_outputs(record.read(there)) == []
    (there / "left_behind.json").write_text(json.dumps({"weights.bin": "0" * 64}))
    assert "missing" in record.verify_outputs(record.read(there))[0]
    assert home.bring([FIRST], [], Path("home2"))[1] == []
    with pytest.raises(ValueError, match="no room for it in 1 files"):
        home.bring([FIRST], [], Path("home3"), most=1, limit=33_000)


def test_weights_leave_room_for_the_list_of_those_that_stay_behind() -> None:
    jobs, numbers = [job_at(f"j{number}") for number in range(20)], np.random.default_rng(0)
    for job in jobs:
        about = {"study": "study", "paper": "paper", "step": "step", "labels": {}, "scale": "mini", "seed": 0}
        settings = json.loads(job.words[3])
        with record.Run(job.folder, **about, settings=settings, code_version="c0de") as made:
            made.output("weights.bin").write_bytes(numbers.bytes(6000))
            made.finish({"accuracy_frac": 0.5})
    for limit in range(80_000, 150_000, 7_000):
        found, behind = home.bring(jobs, [], Path("home"), most=1, limit=limit)
        shutil.rmtree("there", ignore_errors=True)
        parts.read(found, Path("there"))
        named = {f"{job.folder}/{name}" for job in jobs for name in left_behind(Path("there") / job.folder)}
        assert set(behind) == named != set()


def test_too_little_room_for_what_comes_home_is_one_line() -> None:
    with pytest.raises(ValueError, match="--home-mib: found 3, allowed: at least 4"):
        driver.main(["--home-mib", "3"])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--jobs", "0"], "--jobs: found 0, allowed: at least 1"),
        (["--jobs-per-device", "0"], "--jobs-per-device: found 0, allowed: at least 1"),
        (["--only", "stpe"], "--only: found stpe, allowed: step"),
    ],
)
def test_options_with_which_no_job_could_run_are_refused(words: list[str], said: str) -> None:
    Path("jobs.json").write_text(jobs_file.text([FIRST]))
    with pytest.raises(ValueError, match=said):
        driver.main(words)


def test_the_summary_counts_by_step() -> None:
    bad = job_at("bad", kind="fails")
    driver, _ = run(bad, FIRST)
    done, _ = jobs_file.todo([bad, FIRST])
    path = summary.write([bad, FIRST], done, driver.failed, driver.stopped, 7.0, ())
    row = json.loads(path.read_text())["steps"]["study step"]
    assert (row["done"], row["failed"], row["left"]) == (1, 1, 0) and row["wall_s"] >= 0
    assert "FAILED study/step/bad: ValueError: no such thing" in summary.text(path)


def test_jobs_survive_the_file() -> None:
    Path("jobs.json").write_text(jobs_file.text([FIRST, SECOND]))
    assert jobs_file.read(Path("jobs.json")) == [FIRST, SECOND]
    Path("jobs.json").write_text('[{"run": 1}]')
    with pytest.raises(ValueError, match=r"jobs\.json: not the jobs of a pack"):
        jobs_file.read(Path("jobs.json"))
