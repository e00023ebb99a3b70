"""What a crash leaves is named; what is safe is cleared; what is sound or alive is left alone."""

import fcntl
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from relearn import cli
from relearn.cli import adopt, recover
from relearn.runs import provenance, record, record_file
from relearn.runs.atomic_files import Holder, Lock

CHECKOUT = Path(__file__).resolve().parents[2]
RUNS = Path("results/mini/runs/poisoning")


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout in which a dry run takes no time; tests/workflow/test_targets.py has real ones."""
    for name in recover.CHECKOUT:
        shutil.copy(CHECKOUT / name, tmp_path / name)
    monkeypatch.setattr(recover, "refusal", lambda command: None)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RELEARN_CACHE", str(tmp_path / "cache"))
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


def test_validation_images_cut_short_are_removed_unless_they_may_be_written(
    capsys: pytest.CaptureFixture[str], project: Path
) -> None:
    folder = project / "cache/validation"
    folder.mkdir(parents=True)
    ended = subprocess.Popen(["true"])
    ended.wait()
    dead, recent, living, whole = (
        folder / name
        for name in (
            *(
                f".validation-{at}.npy.{pid}.part"
                for at, pid in enumerate((ended.pid, ended.pid, os.getpid()))
            ),
            "validation-0.npy",
        )
    )
    for file in (dead, recent, living, whole):
        file.write_bytes(b"half")
        if file is not recent:
            os.utime(file, (0, 0))
    found = f"partly decoded validation images in {folder}"
    left = f"{found}: 2 may still be written, left alone"
    assert said(capsys, "--dry-run") == (0, [f"{found}: 1", left, GO_ON]) and dead.exists()
    assert said(capsys) == (0, [f"{found}: 1, removed", left, GO_ON])
    assert sorted(folder.iterdir()) == sorted((recent, living, whole))
    assert said(capsys) == (0, [left, GO_ON])


def test_the_lock_that_a_running_adopt_holds_stays(capsys: pytest.CaptureFixture[str]) -> None:
    lock = Path(".snakemake/locks/0.input.lock")
    lock.parent.mkdir(parents=True)
    lock.write_text("x\n")
    with Lock(adopt.LOCK):
        code, lines = said(capsys)
    assert code == 4 and lock.exists()
    assert lines[:2] == [
        f"running: relearn adopt, process {os.getpid()}",
        "Snakemake's lock: held, see above",
    ]
    assert said(capsys)[0] == 0 and not lock.exists()


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


def test_what_starts_while_it_reads_stops_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading takes minutes where there are many artefacts."""
    torn, meanwhile, unsound = done("torn"), run("alive"), recover.unsound
    (torn / "record.json").write_text("{")

    def slow(root: Path, *, quick: bool) -> dict[Path, str]:
        found = unsound(root, quick=quick)
        meanwhile.__enter__()
        return found

    monkeypatch.setattr(recover, "unsound", slow)
    code, lines = said(capsys)
    meanwhile._lock.__exit__(None, None, None)
    assert code == 4 and lines[0] == f"running: pretrain alive seed0, process {os.getpid()}"
    assert (torn / "record.json").exists()


def test_what_is_written_while_it_reads_is_left_alone(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    torn, unsound = done("torn"), recover.unsound
    (torn / "record.json").write_text("{")

    def slow(root: Path, *, quick: bool) -> dict[Path, str]:
        found = unsound(root, quick=quick)
        done("torn")
        return found

    monkeypatch.setattr(recover, "unsound", slow)
    code, lines = said(capsys)
    assert code == 0 and lines[0].endswith("it has changed since, so it is left alone")
    assert record.read(torn)["labels"] == {"name": "torn"}


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
    assert found == ([("snakemake", Holder(child.pid))] if engine else [])


def test_an_engine_on_another_machine_holds_its_lock(capsys: pytest.CaptureFixture[str]) -> None:
    """Its process is not in this machine's /proc, and its pid may be another process's here."""
    lock = Path(".snakemake/locks/0.input.lock")
    lock.parent.mkdir(parents=True)
    lock.write_text("x\n")
    engine = recover.ENGINE_LOCKS / "login-7.lock"
    with Lock(engine):  # of this process, whose command has another name
        assert said(capsys)[1][0] == f"running: snakemake, process {os.getpid()}" and lock.exists()
        engine.write_text("7 login\n")
        assert said(capsys) == (
            4,
            [
                "running: snakemake, process 7 on login",
                "Snakemake's lock: held, see above",
                "go on: wait for them; then `relearn recover`",
            ],
        )
        assert lock.exists()
    assert said(capsys)[1][0] == "Snakemake's lock: no running process holds it; removed"
    assert not lock.exists() and not engine.exists()


@pytest.mark.parametrize("name", recover.CHECKOUT)
def test_outside_a_checkout_it_refuses_in_one_line(
    capsys: pytest.CaptureFixture[str], project: Path, name: str
) -> None:
    (done("torn") / "record.json").write_text("{")
    (project / name).unlink()
    assert cli.main(["recover"]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("relearn recover: ") and name in err and err.count("\n") == 1
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


START: dict[str, Any] = {
    "t": 1.0,
    "event": "start",
    "step": "pretrain",
    "labels": {"name": "a"},
    "seed": 0,
    "inputs": {},
    "code": {"version": "v"},
    "started": "2026-01-01T00:00:00+00:00",
}
SPOOL = Path("results/mini/spool/0123456789abcdef.jsonl")
HUGE = "1" + 400 * "0"


def spooled(*lines: Any) -> None:
    SPOOL.parent.mkdir(parents=True, exist_ok=True)
    texts = (line if isinstance(line, str) else json.dumps(line) for line in lines)
    SPOOL.write_text("".join(f"{text}\n" for text in texts))


def without(key: str) -> dict[str, Any]:
    return {name: value for name, value in START.items() if name != key}


@pytest.mark.parametrize(
    ("lines", "fault"),
    [
        *(([{**START, "labels": odd}], "line 1: labels is ") for odd in (["a"], None, 5, "text")),
        *(([{**START, "inputs": odd}], "line 1: inputs is ") for odd in (["a"], None, {"a": 5}, {"a": [5]})),
        *(([{**START, "code": odd}], "line 1: code is ") for odd in (["a"], None, {})),
        *(([{**START, "step": odd}], "line 1: step is ") for odd in (["a"], None)),
        *(
            ([without(key)], f"line 1: {key} is missing")
            for key in ("step", "labels", "seed", "code", "inputs", "started")
        ),
        ([[], "torn", {**START, "labels": []}], "line 3: labels is "),
        ([START, {"t": 2, "event": "end", "cpu_s": "abc"}], "line 2: "),
        ([START, {"t": 2, "event": "end", "cpu_s": [1]}], "line 2: "),
        ([START, {"t": 2, "event": "pause"}], "line 2: "),
        ([START, {"t": 2, "event": ["start"]}], "line 2: "),
        ([START, {"t": 2, "step": 1, "metrics": {"a_frac": None}}], "line 2: "),
        ([START, {"t": 2, "step": 1, "metrics": {"a_frac": [1]}}], "line 2: "),
        ([START, f'{{"t": {HUGE}, "step": 1, "metrics": {{}}}}'], "line 2: "),
        ([START, {"t": 2, "step": 1, "metrics": {"a": 1}}, "[" * 100_000], "line 3: "),
    ],
)
@pytest.mark.parametrize("dry", [True, False])
def test_a_spool_that_cannot_be_resumed_is_put_aside(
    lines: list[Any], fault: str, dry: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    spooled(*lines)
    aside = SPOOL.with_name(SPOOL.name + ".aside")
    code, told = said(capsys, *["--dry-run"] * dry)
    assert code == 0 and len(told) == 2 and told[1] == GO_ON
    assert told[0].startswith(f"{'unsound' if dry else 'put aside'}: {SPOOL}: {fault}"), told
    assert SPOOL.exists() == dry and aside.exists() != dry
    if not dry:
        assert said(capsys) == (0, [GO_ON])


@pytest.mark.parametrize(
    "line",
    [
        *([], ["event"], ["event", "t"], "event", '"event"', 5, None, True, {}, {"event": "start"}, {"t": 1}),
        *({"t": "1", "event": "start"}, {"t": 1, "step": 1}, {"t": 1, "step": "1", "metrics": {}}),
        *({"t": 1, "step": 1, "metrics": []}, {"t": 1, "step": None, "metrics": {}}),
        {"t": [], "event": "end"},
    ],
)
def test_a_line_of_another_shape_is_skipped(line: Any, capsys: pytest.CaptureFixture[str]) -> None:
    spooled(line, START, line, {"t": 2, "step": 7, "metrics": {"loss": 0.5}}, line)
    code, told = said(capsys)
    assert (code, told) == (
        0,
        ["unfinished: pretrain a seed0: ended without a message, last step 7; starts again", GO_ON],
    )
    spooled(line)
    assert said(capsys)[1] == [f"unfinished: {SPOOL}: no start line in it; the run starts again", GO_ON]


@pytest.mark.parametrize("odd", [["a\nb"], {"why": "a"}, "a\nb", "\ud800", 5, None])
def test_reasons_and_labels_of_any_shape_stay_on_one_line(
    odd: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    spooled({**START, "labels": {"name": odd}}, {"t": 2, "event": "end", "status": ["FAILED"], "reason": odd})
    code, told = said(capsys)
    assert code == 0 and len(told) == 2 and told[0].startswith("unfinished: pretrain ")


def sealed(body: dict[str, Any]) -> str:
    return json.dumps({**body, "sha256": record_file.checksum(body)})


@pytest.mark.parametrize(
    "change",
    [
        *({"outputs": odd} for odd in ([], None, 5, "text", {"a.bin": 5}, {"a.bin": {}}, {"a.bin": None})),
        *({"inputs": odd} for odd in ([1], None, 5, {"a": 5}, {"a": [5]}, {"a": [{}]}, {"a": [{"path": 5}]})),
    ],
)
def test_a_sealed_record_of_another_shape_is_put_aside(
    change: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    file = done("odd") / "record.json"
    done("reader", ("odd/a.bin",))
    file.write_text(sealed({**json.loads(file.read_text()), **change}))
    for words in (["--dry-run", "--quick"], ["--quick"] if "inputs" in change else []):
        code, told = said(capsys, *words)
        assert code == 0 and told[-1] == GO_ON
    assert not file.exists() and file.with_name("record.json.aside").exists()
    assert any(line.startswith(f"put aside: {file}: ") for line in told)


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "[1]",
        "5",
        "null",
        '"text"',
        "true",
        "{}",
        "",
        "[" * 100_000,
        '{"schema": [1]}',
        "\udcff",
        "NAN",
        "HUGE",
    ],
)
def test_a_record_of_any_content_is_put_aside(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    file = done("odd") / "record.json"
    whole = json.loads(file.read_text())
    text = {
        "NAN": json.dumps({**whole, "seed": float("nan")}),
        "HUGE": json.dumps({**whole, "sha256": 5}),
    }.get(text, text)
    file.write_text(text, encoding="utf-8", errors="surrogateescape")
    code, told = said(capsys)
    assert code == 0 and len(told) == 2 and told[0].startswith(f"put aside: {file}: ")
    assert not file.exists() and said(capsys) == (0, [GO_ON])


def test_what_was_put_aside_before_does_not_stop_it(capsys: pytest.CaptureFixture[str]) -> None:
    file = done("torn") / "record.json"
    file.write_text("{")
    (file.with_name("record.json.aside") / "kept").mkdir(parents=True)
    code, told = said(capsys)
    assert code == 0 and told[0].startswith(f"unsound: {file}: torn") and "cannot be put aside: " in told[0]
    folder = RUNS / "folder/.a.tmp"
    folder.mkdir(parents=True)
    assert said(capsys)[0] == 0 and folder.is_dir()


@pytest.mark.parametrize("text", ["", "[]", "5 6", "null", "{}", "\udcff", "9" * 5000, "12\n"])
@pytest.mark.parametrize("held", [True, False])
def test_a_lock_of_any_content(text: str, held: bool, capsys: pytest.CaptureFixture[str]) -> None:
    """A held lock without a process id stops it; its advice must not be `kill 0`, which ends the caller's own group."""
    lock = Path("results/mini/work") / f"{SPOOL.stem}.lock"
    lock.parent.mkdir(parents=True)
    lock.write_text(text, encoding="utf-8", errors="surrogateescape")
    spooled({**START, "labels": []})
    with lock.open() as file:
        if held:
            fcntl.flock(file, fcntl.LOCK_EX)
        code, told = said(capsys)
    assert code == (4 if held else 0)
    if held:
        assert told[0].startswith(f"running: run {SPOOL.stem}, process ") and SPOOL.exists()
        assert ("`kill 12`" in told[-1]) == (text == "12\n") and "kill 0" not in told[-1]


def test_a_dry_run_that_ends_without_a_word_is_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    ended = subprocess.CompletedProcess([], -9, "", "")
    monkeypatch.setattr(recover.subprocess, "run", lambda *_, **__: ended)
    assert recover.refusal(["snakemake"]) == "it ended with status -9 and no message"
