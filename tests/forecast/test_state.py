"""Done, to do or stale, and why: one small study of two jobs in a folder of the test's own.

Remembered code versions equal fresh ones, and are forgotten when a file of the package changes.
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from relearn.forecast import evidence, known_versions, machine, state, summary
from relearn.forecast.known_versions import KnownVersions
from relearn.forecast.state import DONE, STALE, TO_DO, records_of, run_of, states
from relearn.runs.code_version import code_version
from relearn.runs.record_file import checksum
from relearn.studies.work import Job

FOLDERS = ("results/mini/runs/s/make/seed0", "results/mini/runs/s/use/seed0")


@pytest.fixture
def jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Job]:
    """Two finished jobs; the second reads what the first writes."""
    monkeypatch.chdir(tmp_path)
    found = plan()
    for job in found:
        write(job)
    return found


def plan(rate: float = 0.1) -> list[Job]:
    book: dict[str, Job] = {}
    for step, folder in zip(("make", "use"), FOLDERS, strict=True):
        book[folder] = Job(
            study="s",
            step=step,
            scale="mini",
            seed=0,
            labels={},
            settings={"train": {"rate": rate if step == "make" else 1.0}},
            folder=folder,
            inputs={"data": [f"{FOLDERS[0]}/data.csv"]} if step == "use" else {},
            outputs=("data.csv",),
            modules=("m",),
            book=book,
        )
    return list(book.values())


def write(job: Job, sha256: str = "one", **other: Any) -> None:
    folder = Path(job.folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "data.csv").write_text("x")
    inputs = {name: [{"path": path, "sha256": "one"} for path in paths] for name, paths in job.inputs.items()}
    record = {
        "run": run_of(job),
        "settings": job.settings,
        "code": {"version": "v"},
        "inputs": inputs,
        "outputs": {"data.csv": {"sha256": sha256}},
        **other,
    }
    record["sha256"] = checksum(record)
    (folder / "record.json").write_text(json.dumps(record))
    for name in ("data.csv", "record.json"):
        os.utime(folder / name, (1000.0, 1000.0 + (job.step == "use")))


def told(jobs: list[Job], version: str = "v") -> list[tuple[str, str]]:
    found = states(jobs, records_of(jobs), lambda *modules: version)
    return [tuple(found[job.folder]) for job in jobs]


def test_finished_jobs_are_done(jobs: list[Job]) -> None:
    assert told(jobs) == [(DONE, ""), (DONE, "")]


def test_another_setting_makes_a_job_stale_and_what_reads_it(jobs: list[Job]) -> None:
    assert told(plan(rate=0.2)) == [
        (STALE, "setting train.rate: 0.1 is now 0.2"),
        (STALE, "its inputs are rebuilt"),
    ]


def test_other_code_makes_all_stale(jobs: list[Job]) -> None:
    assert told(jobs, version="w") == [(STALE, "code"), (STALE, "code")]


def test_a_missing_or_torn_record_or_file_is_to_do(jobs: list[Job]) -> None:
    Path(FOLDERS[1], "record.json").unlink()
    assert told(jobs) == [(DONE, ""), (TO_DO, "")]
    Path(FOLDERS[1], "record.json").write_text("{")
    assert told(jobs)[1] == (TO_DO, "its record cannot be read: see `relearn recover`")
    write(jobs[1])
    whole = Path(FOLDERS[1], "record.json").read_text()
    Path(FOLDERS[1], "record.json").write_text(whole.replace('"one"', '"two"'))
    assert told(jobs)[1] == (TO_DO, "its record was edited: see `relearn recover`")
    write(jobs[1])
    Path(FOLDERS[0], "data.csv").unlink()
    assert told(jobs) == [(TO_DO, "data.csv is gone"), (STALE, "its inputs are rebuilt")]


def test_an_input_of_other_bytes_or_newer_makes_a_job_stale(jobs: list[Job]) -> None:
    write(jobs[0], sha256="two")
    assert told(jobs) == [(DONE, ""), (STALE, "input data.csv has changed")]
    write(jobs[0])
    os.utime(Path(FOLDERS[0], "record.json"), (2000.0, 2000.0))
    assert told(jobs) == [(DONE, ""), (DONE, "")]  # nobody reads the record
    os.utime(Path(FOLDERS[0], "data.csv"), (2000.0, 2000.0))
    assert told(jobs) == [(DONE, ""), (STALE, "an input is newer")]


def test_a_small_input_that_is_newer_but_the_same_makes_nothing_stale(
    jobs: list[Job], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in Snakemake, which reads inputs of at most 1 MB."""
    monkeypatch.setattr(state, "digest", lambda path: "one")
    os.utime(Path(FOLDERS[0], "data.csv"), (2000.0, 2000.0))
    assert told(jobs) == [(DONE, ""), (DONE, "")]
    monkeypatch.setattr(state, "MOST_READ", 0)
    assert told(jobs) == [(DONE, ""), (STALE, "an input is newer")]


def test_what_stayed_on_another_machine_is_made_again_only_if_a_pending_job_reads_it(jobs: list[Job]) -> None:
    Path(FOLDERS[0], "data.csv").unlink()
    Path(FOLDERS[0], "left_behind.json").write_text('{"data.csv": "one"}')
    assert told(jobs) == [(DONE, ""), (DONE, "")]
    Path(FOLDERS[1], "record.json").unlink()
    assert told(jobs) == [(TO_DO, "data.csv stayed on the machine that made it"), (TO_DO, "")]


@pytest.mark.parametrize(("device", "counts"), [("cpu", True), ("cuda:0", False)])
def test_the_time_of_a_run_on_a_gpu_is_no_forecast_for_a_cpu(
    jobs: list[Job], monkeypatch: pytest.MonkeyPatch, device: str, counts: bool
) -> None:
    monkeypatch.setattr(evidence, "work_behind", lambda job: ("", None))
    made = {"device": device, "device_name": "H100", "cpu": "x", "precision": "fp32"}
    cost = {"cpu_s": 50.0, "device_s": 2.0, "wall_s": 60.0, "peak_memory_bytes": 1}
    write(jobs[0], cost=cost, machine=made)
    fixed = summary.correction("mini", machine.processor(""), records_of(jobs[:1]), jobs[:1])
    assert (run_of(jobs[0]) in fixed.made) is counts


MODULES = ("relearn.maths.simplex",)


def test_versions_are_remembered_until_a_file_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package, cached = tmp_path / "package", tmp_path / "cache" / "code.json"
    package.mkdir()
    (package / "a.py").write_text("x = 1\n")
    first = KnownVersions(package, cached)
    assert first(*MODULES) == code_version(*MODULES)
    first.keep()
    monkeypatch.setattr(known_versions, "code_version", lambda *modules: "computed anew")
    assert KnownVersions(package, cached)(*MODULES) == code_version(*MODULES)
    (package / "a.py").write_text("x = 2\n")
    os.utime(package / "a.py", (5.0, 5.0))
    assert KnownVersions(package, cached)(*MODULES) == "computed anew"
    cached.write_text("[")
    assert KnownVersions(package, cached)(*MODULES) == "computed anew"
