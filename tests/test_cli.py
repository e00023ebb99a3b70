"""The command line: one line for every error that a user can cause, inputs by name, a job that is cheap to start."""

import json
import subprocess
import sys

import pytest

from relearn import cli

PREPARE = json.dumps(
    {"dataset": "digits", "pretrain_per_class": 20, "fine_tune_per_class": 5, "pool_per_class": 8}
)


def relearn(*words, cwd):
    command = [sys.executable, "-m", "relearn.cli", *map(str, words)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=60)


def test_a_step_makes_a_record_and_a_log(tmp_path):
    out = "results/mini/runs/poisoning/prepare/digits"
    done = relearn(
        *("prepare", "--settings", PREPARE, "--out", out, "--label", "dataset=digits"),
        *("--device", "cpu", "--log", "run.log"),
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    record = json.loads((tmp_path / out / "record.json").read_text())
    assert (record["step"], record["labels"], record["outcome"]) == ("prepare", {"dataset": "digits"}, "ok")
    assert (tmp_path / "run.log").is_file()


@pytest.mark.parametrize(
    "words,code,says",
    [
        (
            ["prepare", "--settings", PREPARE, "--out", "o", "--input", "data", "gone"],
            3,
            "--input data: no file gone",
        ),
        (["prepare", "--settings", "{", "--out", "o"], 2, "--settings"),
        (["prepare", "--settings", PREPARE, "--out", "o", "--label", "x"], 2, "allowed is name=value"),
        (["prepare", "--settings", PREPARE.replace("digits", "digit"), "--out", "o"], 2, "digits"),
        (["prepare", "--settings", PREPARE, "--out", "o", "--device", "tpu"], 2, "tpu"),
    ],
)
def test_errors_are_one_line_that_names_the_fault(words, code, says, tmp_path):
    done = relearn(*words, cwd=tmp_path)
    assert done.returncode == code and says in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


def test_an_empty_input_is_an_input_that_the_run_does_not_have(monkeypatch, tmp_path):
    (tmp_path / "a").write_text("x")
    seen = {}

    class Step:
        NEEDS_TORCH = False

        @staticmethod
        def run(run, settings, inputs, device, precision):
            seen.update(inputs)
            run.finish({})

    monkeypatch.setattr(cli, "_module", lambda name: Step)
    monkeypatch.chdir(tmp_path)
    words = ["train", "--settings", "{}", "--out", "runs/o", "--input", "data", "a", "--input", "kept"]
    assert cli.main([*words, "--device", "cpu"]) == 0
    assert [str(path) for path in seen["data"]] == ["a"] and "kept" not in seen


def test_the_command_line_itself_imports_nothing_heavy():
    code = "import sys, relearn.cli; print(sorted(sys.modules.keys() & {'torch','numpy','mlflow','pandas','pydantic'}))"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"
