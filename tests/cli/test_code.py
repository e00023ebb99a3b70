"""Code versions: each run under its study and step, with what makes it another run; and whether a study is done."""

import argparse
import json
import os
from pathlib import Path
from typing import Any

import pytest

from relearn import cli
from relearn.cli import code, planned_source
from relearn.cli.code import Made, versions
from relearn.forecast import planned, state
from relearn.runs.code_version import code_version
from relearn.studies import STUDIES, parameters

CHECKOUT = Path(__file__).resolve().parents[2]
NAME = "transfer/feature_collision/deep_knn/ResNet18/seed0"
RUN = Made("poisoning", "filter", NAME, "0123456789abcdef", "run", ())


@pytest.fixture(autouse=True)
def _inside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(CHECKOUT)


def called(*words: str) -> int:
    parser = argparse.ArgumentParser()
    code.add_arguments(parser)
    return code.main(parser.parse_args(words))


def test_each_run_is_listed_under_its_study_and_step() -> None:
    drawn = Made("render", "render", "render", "c", "", ("a",))
    found = versions([RUN, drawn])
    assert {study: {step: list(runs) for step, runs in steps.items()} for study, steps in found.items()} == {
        "poisoning": {"filter": [NAME]},
        "render": {"render": ["render"]},
    }
    assert found["poisoning"]["filter"][NAME].split()[0] == RUN.code


@pytest.mark.parametrize(
    "change", [{"code": "fedc"}, {"run": "other"}, {"inputs": ("a", "b")}, {"inputs": ("a", "c", "b")}]
)
def test_other_code_settings_or_inputs_change_its_value(change: dict[str, Any]) -> None:
    before = RUN._replace(inputs=("a", "c"))
    assert versions([before._replace(**change)]) != versions([before])


def test_the_order_of_inputs_does_not() -> None:
    assert versions([RUN._replace(inputs=("b", "a"))]) == versions([RUN._replace(inputs=("a", "b"))])


def test_a_file_for_each_study_holds_every_run_of_the_plan(tmp_path: Path) -> None:
    assert called("--out", str(tmp_path / "new")) == 0
    files = {path.stem: json.loads(path.read_text()) for path in (tmp_path / "new").iterdir()}
    assert set(files) == {*STUDIES, "render"}
    book = planned.jobs_of(parameters.load("params.yaml"))
    places = {
        f"results/mini/runs/{study}/{step}{'/' if name else ''}{name}"
        for study, steps in files.items()
        if study != "render"
        for step, runs in steps.items()
        for name in runs
    }
    assert places == set(book)
    job = book["results/mini/runs/poisoning/train/transfer/convex_polytope/deep_knn/ResNet18/seed0"]
    written = files["poisoning"]["train"]["transfer/convex_polytope/deep_knn/ResNet18/seed0"]
    assert written.split()[0] == code_version(*job.modules)


def test_one_setting_changes_the_file_of_its_study_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = parameters.load("params.yaml")
    before = versions(code.today(values))
    values["poisoning"]["filter"]["deep_knn"]["k"] += 1
    after = versions(code.today(values))
    assert {study for study in before if before[study] != after[study]} == {"poisoning"}
    changed = {step for step in before["poisoning"] if before["poisoning"][step] != after["poisoning"][step]}
    assert changed == {"filter", "feature_plane"}  # what reads their files is stale by its inputs


def test_it_prints_what_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert called("lrformer/check_theorems") == 0
    assert set(json.loads(capsys.readouterr().out)) == {"lrformer"}
    with pytest.raises(ValueError, match="found nothing_such"):
        called("nothing_such")


def test_a_study_is_done_when_all_its_runs_are(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The states themselves are tested with `relearn plan`."""
    told: dict[str, state.State] = {}
    asked: list[str] = []

    def states(jobs: Any, records: Any) -> dict[str, state.State]:
        asked[:] = [job.folder for job in jobs]
        return {job.folder: told.get(job.folder, state.State(state.DONE)) for job in jobs}

    monkeypatch.setattr(state, "states", states)
    assert called("--done", "lrformer") == 0
    assert capsys.readouterr().err.startswith("lrformer: 19 runs done")
    told[asked[0]] = state.State(state.STALE, "code")
    assert called("--done", "lrformer") == 1
    assert capsys.readouterr().err == "lrformer: 1 of 19 runs to do\n"
    assert called("--done", "layer_scale") == 0


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (
            ["--done", "--out", "new"],
            "--out new: found with --done, which writes nothing; allowed: one of them",
        ),
        ([""], "target: found '', allowed: "),
        (["lrformer", " "], "target: found ' ', allowed: "),
        (["--done", ""], "target: found '', allowed: "),
        (["--out", "file"], "--out file: found a file, allowed: a folder"),
    ],
)
def test_wrong_use_is_one_line_and_writes_nothing(
    words: list[str],
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name in ("params.yaml", "Snakefile"):
        (tmp_path / name).write_bytes((CHECKOUT / name).read_bytes())
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("x")
    assert cli.main(["code", *words]) == 2
    out, said = capsys.readouterr()
    assert out == "" and said.startswith(f"relearn code: {says}") and said.count("\n") == 1
    assert not Path("new").exists() and Path("file").read_text() == "x"


# -- a job whose code is not the planned one any more refuses to run ----------------------------------------------

SCALE = "mini"


@pytest.fixture(scope="module")
def planned_run() -> tuple[Path, str]:
    """The folder of a planned run, and its code version."""
    job = next(iter(planned.jobs_of(parameters.load("params.yaml", scale=SCALE)).values()))
    return Path(job.folder), code_version(*job.modules)


def test_a_job_started_by_hand_is_not_checked(
    planned_run: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(planned_source.VARIABLE, raising=False)
    planned_source.check(planned_run[0], SCALE, "another")


@pytest.mark.parametrize("part", [slice(None), slice(16, None)], ids=["times and contents", "contents"])
def test_unchanged_files_need_no_versions(
    planned_run: tuple[Path, str], part: slice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(planned_source.VARIABLE, planned_source.mark()[part])
    monkeypatch.setattr(planned, "jobs_of", lambda _: pytest.fail("a version was computed"))
    planned_source.check(planned_run[0], SCALE, "another")


def test_a_changed_file_stops_only_the_jobs_whose_code_it_is(
    planned_run: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, version = planned_run
    monkeypatch.setenv(planned_source.VARIABLE, "0:0")
    planned_source.check(folder, SCALE, version)
    planned_source.check(Path("results/mini/runs/not/planned"), SCALE, "another")
    with pytest.raises(RuntimeError, match=f"{folder}: its code was edited .*{version}, planned another"):
        planned_source.check(folder, SCALE, "another")


def test_a_run_with_a_plug_in_is_always_compared(
    planned_run: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An edit of the plug-in's package leaves the mark as it is."""
    folder, version = planned_run
    monkeypatch.setenv(planned_source.VARIABLE, planned_source.mark())
    with pytest.raises(RuntimeError, match=f"{version}, planned {version}\\+other"):
        planned_source.check(folder, SCALE, f"{version}+other")


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
    (tmp_path / ".#one.py").symlink_to("nobody@nowhere")  # an editor's lock
    (tmp_path / "gone.py").symlink_to("nowhere")
    assert planned_source.contents() == contents
    file.rename(tmp_path / "one.py")
    assert planned_source.contents() != contents
