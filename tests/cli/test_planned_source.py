"""A job whose code is not the planned one any more refuses to run, and only such a job."""

import os
from pathlib import Path

import pytest

from relearn.cli import planned_source
from relearn.forecast import planned
from relearn.runs import code_version
from relearn.studies import parameters

SCALE = "mini"


@pytest.fixture(scope="module")
def run() -> tuple[Path, str]:
    """The folder of a planned run, and its code version."""
    job = next(iter(planned.jobs_of(parameters.load("params.yaml", scale=SCALE)).values()))
    return Path(job.folder), code_version.code_version(*job.modules)


def test_a_job_started_by_hand_is_not_checked(run: tuple[Path, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(planned_source.VARIABLE, raising=False)
    planned_source.check(run[0], SCALE, "another")


@pytest.mark.parametrize("part", [slice(None), slice(16, None)], ids=["times and contents", "contents"])
def test_unchanged_files_need_no_versions(
    run: tuple[Path, str], part: slice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(planned_source.VARIABLE, planned_source.mark()[part])
    monkeypatch.setattr(planned, "jobs_of", lambda _: pytest.fail("a version was computed"))
    planned_source.check(run[0], SCALE, "another")


def test_a_changed_file_stops_only_the_jobs_whose_code_it_is(
    run: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, version = run
    monkeypatch.setenv(planned_source.VARIABLE, "0:0")
    planned_source.check(folder, SCALE, version)
    planned_source.check(Path("results/mini/runs/not/planned"), SCALE, "another")
    with pytest.raises(RuntimeError, match=f"{folder}: its code was edited .*{version}, planned another"):
        planned_source.check(folder, SCALE, "another")


def test_a_touched_file_has_the_same_contents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "room").mkdir()
    file = tmp_path / "room/one.py"
    file.write_text("x = 1\n")
    monkeypatch.setattr(planned_source, "PACKAGE", tmp_path)
    times, contents = planned_source.mark().split(":")
    os.utime(file, ns=(1, 1))
    assert planned_source.contents() == contents and planned_source.mark() != f"{times}:{contents}"
    file.write_text("x = 2\n")
    assert planned_source.contents() != contents
    file.write_text("x = 1\n")
    file.rename(tmp_path / "one.py")
    assert planned_source.contents() != contents
