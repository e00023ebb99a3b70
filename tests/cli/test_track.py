"""`relearn track`: what it imports by default, when it stops following, and that it is cheap where there is nothing."""

import argparse
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from relearn import cli
from relearn.cli import track
from relearn.runs import provenance, record
from relearn.studies.study import all_studies


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(provenance, "_git", lambda *_: None)
    yield tmp_path


def parsed(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    track.add_arguments(parser)
    return parser.parse_args(words)


def test_every_scale_with_runs_is_imported_and_nothing_published() -> None:
    for name in ("mini/spool", "small/runs", "published/mini/runs", "published/runs", "logs"):
        (Path("results") / name).mkdir(parents=True)
    assert track.roots() == [Path("results/mini"), Path("results/small")]


def test_where_there_is_nothing_nothing_is_loaded(capsys: pytest.CaptureFixture[str]) -> None:
    program = "import sys; from relearn.cli import main; code = main(['track']); print(code, 'mlflow' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "relearn track: nothing to import yet\n0 False\n"
    assert list(Path().iterdir()) == []


def test_a_follower_without_runs_waits_for_its_stop_file(capsys: pytest.CaptureFixture[str]) -> None:
    stop = Path("stop")
    threading.Timer(0.3, stop.touch).start()
    assert track.main(parsed("--follow", "--stop-file", "stop")) == 0
    assert stop.exists() and capsys.readouterr().out == "relearn track: nothing to import yet\n"


def test_a_follower_ends_with_the_process_that_started_it(monkeypatch: pytest.MonkeyPatch) -> None:
    parents = iter([7, 7, 7, 1])
    monkeypatch.setattr(os, "getppid", lambda: next(parents))
    stop = track._stop(None)
    assert [stop(), stop(), stop()] == [False, False, True]


def test_a_stop_file_that_is_there_before_makes_it_one_import(monkeypatch: pytest.MonkeyPatch) -> None:
    with record.Run(
        "results/mini/runs/a", study="s", paper="p", step="t", labels={}, scale="mini", seed=0, settings={}
    ) as run:
        run.finish({})
    Path("stop").touch()
    asked: list[Any] = []
    from relearn.tracking import importer as tracking

    def note(root: Any, uri: Any, *, stop: Any, used_by: Any, interval_s: float) -> tracking.Summary:
        asked.append((root, uri, stop(), type(used_by).__name__, interval_s))
        return tracking.Summary(created=1, problems=["one line"])

    monkeypatch.setattr(tracking, "follow", note)
    words = ("--follow", "--stop-file", "stop", "--uri", "sqlite:///x.db")
    assert track.main(parsed(*words)) == 0
    assert asked == [(track.roots, f"sqlite:///{Path.cwd()}/x.db", True, "UsedBy", 5.0)]
    Path("below").mkdir()
    for name in ("params.yaml", "Snakefile"):
        Path(name).touch()
    monkeypatch.chdir("below")
    assert cli.main(["track", "--follow", "--stop-file", "../stop", "--uri", "sqlite:///x.db"]) == 0
    assert asked[1][1] == f"sqlite:///{Path.cwd()}/below/x.db"


def test_every_study_says_what_it_is_about_and_how_its_runs_are_found() -> None:
    known = track.used_by()
    for study in all_studies():
        said = known.about(study.name)
        assert study.title in said and study.source in said and "tags.cell LIKE '%" in said


@pytest.mark.parametrize("seconds", ["0", "-1", "nan"])
def test_a_follower_without_a_pause_is_refused(seconds: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("stop").touch()
    assert cli.main(["track", "--follow", "--stop-file", "stop", "--interval", seconds]) == 2
    said = f"relearn track: --interval: found {float(seconds):g}, allowed: above 0 seconds\n"
    assert capsys.readouterr().err == said


def test_a_folder_that_does_not_exist_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["track", "--root", "results/foo"]) == 3
    assert capsys.readouterr().err.startswith("relearn track: --root results/foo: no such folder")
