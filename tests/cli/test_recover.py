"""What a crash leaves is named; what is safe is cleared; what is sound or alive is left alone."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from relearn import cli
from relearn.cli import recover
from relearn.runs import provenance, record

CHECKOUT = Path(__file__).resolve().parents[2]
RUNS = Path("results/mini/runs/poisoning")


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout in which a dry run takes no time; tests/workflow/test_targets.py has real ones."""
    for name in recover.CHECKOUT:
        shutil.copy(CHECKOUT / name, tmp_path / name)
    monkeypatch.setattr(recover, "refusal", lambda command: None)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(provenance, "_git", lambda *_: None)
    return tmp_path


def run(name: str, inputs: tuple[str, ...] = (), text: str = "bytes") -> record.Run:
    """A run that is not entered yet; `finish` it with `done`."""
    what: dict[str, Any] = {
        "study": "poisoning",
        "paper": "zhu2022",
        "step": "pretrain",
        "labels": {"name": name},
    }
    what |= {"scale": "mini", "seed": 0, "settings": {"text": text}, "code_version": "v"}
    return record.Run(
        RUNS / name, inputs={"data": [RUNS / file for file in inputs]} if inputs else None, **what
    )


def done(name: str, inputs: tuple[str, ...] = (), text: str = "bytes") -> Path:
    with run(name, inputs, text) as made:
        made.output("a.bin").write_text(text)
        made.finish({})
    return made.out


def said(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, list[str]]:
    code = cli.main(["recover", *words])
    return code, capsys.readouterr().out.splitlines()


GO_ON = "go on: `snakemake --cores all` or `dvc repro`; finished runs stay, unfinished ones resume"


def test_where_nothing_is_wrong_nothing_is_touched(capsys: pytest.CaptureFixture[str], project: Path) -> None:
    done("first")
    done("second", ("first/a.bin",))
    before = {path: path.stat().st_mtime_ns for path in project.rglob("*")}
    assert said(capsys) == (0, [GO_ON])
    assert {path: path.stat().st_mtime_ns for path in project.rglob("*")} == before


@pytest.mark.parametrize("dry", [True, False])
def test_each_kind_of_fault_is_named_and_cleared_once(capsys: pytest.CaptureFixture[str], dry: bool) -> None:
    torn, edited, spoilt, sound = (done(name) for name in ("torn", "edited", "spoilt", "sound"))
    behind = done("behind", ("sound/a.bin",))
    done("sound", text="other bytes")
    (torn / "record.json").write_text("{")
    (edited / "record.json").write_text((edited / "record.json").read_text().replace("mini", "tiny", 1))
    (spoilt / "a.bin").write_text("spoilt")
    orphan = sound / ".record.json.999999.tmp"
    orphan.write_text("half")
    lock = Path(".snakemake/locks/0.input.lock")
    lock.parent.mkdir(parents=True)
    lock.write_text("x\n")

    words = ["--dry-run"] if dry else []
    code, lines = said(capsys, *words)
    word = "unsound" if dry else "put aside"
    assert code == 0 and lines[-1] == GO_ON
    for name, fault in (
        ("torn/record.json", "torn, not complete JSON"),
        ("edited/record.json", "edited, its content does not match its sha256"),
        ("spoilt/a.bin", "torn or edited, its bytes do not match the record's sha256"),
        ("behind/record.json", "made from results/mini/runs/poisoning/sound/a.bin with sha256 "),
    ):
        assert any(line.startswith(f"{word}: {RUNS / name}: {fault}") for line in lines), (name, lines)
    assert sum(line.startswith(word) for line in lines) == 4
    assert lock.exists() == orphan.exists() == dry
    for folder in (torn, edited, spoilt, behind):
        assert (folder / "record.json").exists() == dry and (folder / "record.json.aside").exists() != dry
    assert (sound / "record.json").exists()
    if not dry:
        assert said(capsys) == (0, [GO_ON])


def test_unfinished_runs_are_reported_with_their_checkpoints(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match="lr"), run("failed"):
        raise ValueError("lr is nothing")
    killed = run("killed")
    killed.__enter__()
    killed.log(7, loss=0.5)
    (killed.work / "fit").mkdir()
    (killed.work / "fit/0.json").write_text("{}")
    killed._lock.__exit__(None, None, None)
    _, lines = said(capsys)
    assert sorted(lines[:-1]) == [
        "unfinished: pretrain failed seed0: FAILED (ValueError: lr is nothing); starts again",
        "unfinished: pretrain killed seed0: ended without a message, last step 7; resumes from its checkpoint",
    ]


def test_the_last_step_is_the_greatest_of_all_curves(capsys: pytest.CaptureFixture[str]) -> None:
    killed = run("killed")
    killed.__enter__()
    for step in (3, 12):
        killed.log(step, loss=0.5)
    killed.log(7, accuracy_frac=0.5)  # evaluated less often
    killed._lock.__exit__(None, None, None)
    assert ", last step 12; starts again" in said(capsys)[1][0]


def test_while_a_job_lives_nothing_is_changed(capsys: pytest.CaptureFixture[str]) -> None:
    torn = done("torn")
    (torn / "record.json").write_text("{")
    with run("alive") as alive:
        code, lines = said(capsys)
        assert code == 4 and f"running: pretrain alive seed0, process {os.getpid()}" in lines
        assert f"`kill {os.getpid()}`" in lines[-1] and (torn / "record.json").exists()
        assert any(line.startswith("unsound: ") for line in lines)
        alive.finish({})
    assert said(capsys)[0] == 0 and not (torn / "record.json").exists()


def test_quick_reads_no_artefact(capsys: pytest.CaptureFixture[str]) -> None:
    spoilt = done("spoilt")
    (spoilt / "a.bin").write_text("spoilt")
    assert said(capsys, "--quick") == (0, [GO_ON]) and (spoilt / "record.json").exists()


@pytest.mark.parametrize(
    ("name", "here", "engine"),
    [("snakemake", True, True), ("snakemake", False, False), ("relearn", True, False)],
)
def test_an_engine_is_known_by_its_name_and_folder(
    tmp_path: Path, name: str, here: bool, engine: bool
) -> None:
    """A Python program of that name, as a console script is; one of another folder, or another program, is not."""
    program = tmp_path / "bin" / name
    program.parent.mkdir()
    program.write_text("print('ready', flush=True)\nimport time\ntime.sleep(60)\n")
    folder = tmp_path if here else tmp_path / "bin"
    command = [sys.executable, str(program), "--cores", "snakemake"]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None and child.stdout.readline() == "ready\n"
        found = recover.engines_alive()
        child.kill()
    assert found == ([("snakemake", child.pid)] if engine else [])


@pytest.mark.parametrize("name", recover.CHECKOUT)
def test_outside_a_checkout_it_refuses_in_one_line(
    capsys: pytest.CaptureFixture[str], project: Path, name: str
) -> None:
    (done("torn") / "record.json").write_text("{")
    (project / name).unlink()
    assert cli.main(["recover"]) == 2
    assert capsys.readouterr() == (
        "",
        f"relearn recover: {name}: no such file; start this in the root of the checkout\n",
    )
    assert (RUNS / "torn/record.json").exists()


def test_each_scale_that_was_touched_gets_its_command(capsys: pytest.CaptureFixture[str]) -> None:
    (done("torn") / "record.json").write_text("{")
    Path("results/mini").rename("results/small")
    ways = ["go on: `snakemake --cores all --config scale=small`; finished runs stay, unfinished ones resume"]
    code, lines = said(capsys)
    assert code == 0 and lines[-1:] == ways and lines[0].startswith("put aside: results/small/runs/")
    (done("torn") / "record.json").write_text("{")
    with pytest.raises(ValueError, match="stopped"), run("unfinished"):
        raise ValueError("stopped")
    assert said(capsys)[1][-1] == GO_ON


def test_a_command_that_snakemake_refuses_is_not_advised(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = []
    monkeypatch.setattr(recover, "refusal", lambda command: tried.append(command) or "MissingInput: a.csv")
    assert said(capsys) == (
        2,
        [
            "cannot go on: Snakemake refuses `snakemake --cores all`: MissingInput: a.csv; fix that first",
        ],
    )
    assert tried == [["snakemake", "--cores", "all"]]


def test_without_snakemake_the_script_is_advised(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recover.importlib.util, "find_spec", lambda name: None)
    assert said(capsys) == (
        0,
        ["go on: Snakemake is not installed here; start the script of `relearn jobs` again"],
    )


def test_parameters_that_cannot_run_are_named(capsys: pytest.CaptureFixture[str], project: Path) -> None:
    text = (project / "params.yaml").read_text()
    (project / "params.yaml").write_text(text.replace("scale: mini", "scale: minni"))
    assert cli.main(["recover"]) == 2
    found = capsys.readouterr().err
    assert found.startswith("relearn recover: params.yaml:") and "nearest: mini" in found
