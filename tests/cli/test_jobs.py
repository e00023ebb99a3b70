"""The printed script runs under a plain shell, in order, skips what is done and stops where a job fails."""

import os
import re
import shlex
import subprocess
import tarfile
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from relearn.cli import jobs, pack
from relearn.cli.jobs import Job, in_order, job_of, script

# A program in place of `relearn`: it notes its words and writes what a record holds of run and code.
STAND_IN = """\
#!/bin/sh
echo "$*" >> calls.txt
[ -e fail ] && exit 7
eval "out=\\${$#}"
printf '{\\n "run": "%s",\\n "code": {"version": "%s"}\\n}\\n' "$RUN" "$CODE" > "$out"
"""


def command(job: Job) -> str:
    """What a rule would say; the last word is the record."""
    assert job.record is not None
    return f"RUN={job.run} CODE={job.code} relearn {job.step} --label 'a b' {shlex.quote(job.record)}"


def job_at(name: str, *inputs: Job, **changes: Any) -> Job:
    record = f"results/mini/runs/poisoning/train/{name}/record.json"
    plain = Job(
        rule="train",
        command="",
        inputs=tuple(path for job in inputs for path in job.outputs),
        outputs=(record,),
        logs=(f"results/mini/logs/train/{name}.log",),
        record=record,
        study="poisoning",
        step="train",
        labels={"attack": name},
        scale="mini",
        seed=0,
        settings={"lr": 0.1},
        code="0123456789abcdef",
        named_inputs={},
    )
    job = replace(plain, **changes)
    return replace(job, command=command(job))


class Shell:
    """A folder with nothing but a POSIX shell and the stand-in."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "bin").mkdir()
        program = root / "bin" / "relearn"
        program.write_text(STAND_IN)
        program.chmod(0o755)
        self.env = {"PATH": f"{root / 'bin'}{os.pathsep}/usr/bin{os.pathsep}/bin"}

    def __call__(self, *plan: Job) -> tuple[int, list[str]]:
        """Run the script; return its status and the records of the jobs that it started, in order."""
        (self.root / "jobs.sh").write_text(script(plan))
        calls = self.root / "calls.txt"
        calls.unlink(missing_ok=True)
        done = subprocess.run(
            ["sh", "jobs.sh"], cwd=self.root, env=self.env, capture_output=True, text=True, check=False
        )
        lines = calls.read_text().splitlines() if calls.exists() else []
        return done.returncode, [line.split()[-1] for line in lines]


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def records(*plan: Job) -> list[str | None]:
    return [job.record for job in plan]


def test_jobs_run_once_and_in_order(shell: Shell) -> None:
    first = job_at("it's one")  # a name that needs quoting
    second, third = job_at("two", first), job_at("three")
    assert shell(first, second, third) == (
        0,
        [path.split()[-1] for path in map(str, records(first, second, third))],
    )
    assert shell(first, second, third) == (0, [])


def test_other_settings_other_code_or_a_newer_input_run_again(shell: Shell) -> None:
    first = job_at("one")
    second = job_at("two", first)
    assert shell(first, second) == (0, records(first, second))
    changed = job_at("two", first, settings={"lr": 0.2})
    assert changed.run != second.run
    assert shell(first, changed) == (0, records(changed))
    edited = job_at("two", first, settings={"lr": 0.2}, code="fedcba9876543210")
    assert shell(first, edited) == (0, records(edited))
    assert first.record is not None
    later = time.time() + 5
    os.utime(shell.root / first.record, (later, later))
    assert shell(first, edited) == (0, records(edited))


def test_a_missing_output_is_made_again_if_another_job_reads_it(shell: Shell) -> None:
    first = job_at("one")
    weights, history = (first.record.replace("record.json", name) for name in ("weights.bin", "history.csv"))
    first = replace(first, outputs=(*first.outputs, weights, history))
    second = replace(job_at("two"), inputs=(weights,))
    for name in (first.record, weights):  # the stand-in writes only the record
        (shell.root / name).parent.mkdir(parents=True, exist_ok=True)
        (shell.root / name).touch()
    assert shell(first, second) == (0, records(first, second))
    assert shell(first, second) == (0, [])
    (shell.root / weights).unlink()
    assert shell(first, second) == (0, records(first))


def test_a_failing_job_stops_the_script_with_its_status(shell: Shell) -> None:
    first, second = job_at("one"), job_at("two")
    (shell.root / "fail").touch()
    assert shell(first, second) == (7, records(first))
    (shell.root / "fail").unlink()
    assert shell(first, second) == (0, records(first, second))


def test_a_job_without_a_record_always_runs(shell: Shell) -> None:
    drawn = replace(job_at("all"), rule="render", outputs=("results/mini/page",))
    drawn = replace(drawn, record=None, command="relearn render results/mini/page")
    for _ in range(2):
        assert shell(drawn) == (0, ["results/mini/page"])


def test_without_the_program_the_checkout_serves(shell: Shell) -> None:
    """Where `relearn` is not installed, the module is called, with the checkout's sources on its path."""
    program = (shell.root / "bin" / "relearn").rename(shell.root / "bin" / "python3")
    program.write_text(STAND_IN.replace('"$*"', '"$PYTHONPATH $*"'))
    first = job_at("one")
    assert shell(first) == (0, records(first))
    said = (shell.root / "calls.txt").read_text()
    assert said == f"src -m relearn train --label a b {first.record}\n"


def test_the_script_is_plain() -> None:
    first = job_at("one")
    text = script([first, job_at("two", first)], " --scale mini poisoning")
    assert "relearn jobs --scale mini poisoning: 2 jobs" in text
    absolute = [word for word in text.split() if re.match(r"[^#]?[<>]*/\w", word)]
    assert [word for word in absolute if "/dev/null" not in word] == []
    checked = subprocess.run(["sh", "-n"], input=text, text=True, capture_output=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, "")


class Names(list[str]):
    """Snakemake's list of files, some of them named."""

    record: str


def snakemake_job(shellcmd: str, record: str | None = None) -> SimpleNamespace:
    output = Names([record or "results/mini/report.html"])
    if record:
        output.record = record
    return SimpleNamespace(
        rule=SimpleNamespace(name="train", lineno=3),
        shellcmd=shellcmd,
        input=["in.a", "in.b"],
        output=output,
        log=["x.log"],
        params=SimpleNamespace(code="0123456789abcdef"),
        resources={"mem_mb": 8000, "gpu": 1, "runtime": "TBD"},
    )


def test_a_job_is_read_from_its_command_as_the_program_reads_it() -> None:
    job = job_of(
        snakemake_job(
            'relearn poisoning train --settings \'{"lr":0.1,"milestones":[1]}\' --code 0123456789abcdef'
            " --input data in.a --input kept --input victims in.a in.b"
            " --label attack=clean --label victim=ResNeXt29-2x64d --seed 3 --threads 1 --scale small"
            " --device auto --precision fp32 --out $(dirname results/small/r/record.json) --log 'x.log'",
            "results/small/r/record.json",
        )
    )
    assert (job.study, job.step, job.scale, job.seed) == ("poisoning", "train", "small", 3)
    assert job.labels == {"attack": "clean", "victim": "ResNeXt29-2x64d"}
    assert job.settings == {"lr": 0.1, "milestones": [1]}
    assert job.named_inputs == {"data": ("in.a",), "victims": ("in.a", "in.b")}
    assert (job.code, job.folder) == ("0123456789abcdef", "results/small/r")
    assert (job.mem_mb, job.gpu) == (8000, 1)
    drawn = job_of(snakemake_job("relearn render --root results/mini > x.log 2>&1"))
    assert (drawn.record, drawn.study, drawn.step, drawn.folder) == (None, "", "render", "results/mini")


def test_the_order_is_the_dags_and_the_same_every_time() -> None:
    def named(name: str, line: int) -> SimpleNamespace:
        return SimpleNamespace(rule=SimpleNamespace(name=name, lineno=line), output=[name], name=name)

    layers = [[named("c", 9), named("a", 1)], [named("b", 2)]]
    for order in (layers, [layers[0][::-1], layers[1]]):
        built = SimpleNamespace(dag=SimpleNamespace(toposorted=lambda order=order: order))
        assert [job.name for job in in_order(built)] == ["a", "c", "b"]


def test_outside_a_checkout_the_error_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no such file; start this in the root") as caught:
        jobs.plan(root=tmp_path)
    assert "\n" not in str(caught.value)


def test_a_mistyped_target_is_answered_with_the_nearest() -> None:
    assert jobs.unknown("gradiniit").startswith("no target or file gradiniit; did you mean gradinit? ")
    assert (
        jobs.unknown("results/a.json") == "no target or file results/a.json; `relearn list` names the targets"
    )


@pytest.mark.parametrize("several", ["", " --processes 2"])
def test_a_packed_job_keeps_only_what_does_not_depend_on_the_machine(several: str) -> None:
    """Only trainings on several GPUs name their processes."""
    line = f"relearn gradinit initialise --settings '{{}}' --seed 1{several} --threads 2 --device cpu --precision bf16"
    found = pack.words_of(replace(job_at("x"), command=f"{line} --out there --log one.log"))
    assert found == ["gradinit", "initialise", "--settings", "{}", "--seed", "1"]


@pytest.fixture
def pack_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The options of a pack, with an older one in its place."""
    job = replace(job_at("x"), command="relearn poisoning train --out there")
    monkeypatch.setattr(pack.jobs, "plan", lambda *_: [job])
    monkeypatch.setattr(pack, "to_do", list)
    monkeypatch.setattr(pack, "data", lambda left: [("data/a.bin", Path(__file__))])
    for name in ("pack.tar", "pack.data.1.part", "other.data.0.part"):
        (tmp_path / name).write_text("older")
    return SimpleNamespace(study=[], scale=None, out=tmp_path / "pack.tar", check=False, part_mib=40)


@pytest.mark.parametrize("part", [(pack, "data"), (pack.jobs_file, "text")])
def test_an_interrupted_pack_leaves_what_was_there(
    part: Any, pack_words: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pack, "SOURCE", tmp_path / "no source")
    before = {path.name: path.read_text() for path in tmp_path.iterdir()}
    with monkeypatch.context() as patched, pytest.raises(TypeError):
        patched.setattr(*part, None)
        pack.main(pack_words)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == before
    assert pack.main(pack_words) == 0
    assert {path.name for path in tmp_path.iterdir()} == {"pack.tar", "other.data.0.part"}


def test_a_pack_has_a_place_before_anything_is_prepared(
    pack_words: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pack, "prepare", lambda left: pytest.fail("it prepares"))
    for out in (pack_words.out / "new.tar", pack_words.out.parent):
        with pytest.raises(ValueError, match=r"^--out .*: found a (file|folder), allowed: a f"):
            pack.main(SimpleNamespace(**{**vars(pack_words), "out": out}))


def test_the_files_of_a_pack_have_its_time_and_nobodys_name(
    pack_words: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Extracted over an older pack, an edit of the same size must not run from the older one's bytecode."""
    source, began = tmp_path / "src/relearn/a.py", int(time.time())
    source.parent.mkdir(parents=True)
    source.write_text("A = 1\n")
    monkeypatch.setattr(pack, "SOURCE", tmp_path / "src")
    assert pack.main(pack_words) == 0
    with tarfile.open(pack_words.out) as tar:
        members = {member.name: member for member in tar}
    assert members["src/relearn/a.py"].mtime >= began
    assert "pack.data.0.part" in members
    assert {(one.uname, one.gname, one.uid, one.gid) for one in members.values()} == {("", "", 0, 0)}
