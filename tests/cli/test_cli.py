"""The command line: one line for every error that a user can cause, inputs by name, a job that is cheap to start."""

import json
import re
import subprocess
import sys
import types
from pathlib import Path

import pytest

import relearn as package
from relearn import cli
from relearn.cli import overview
from relearn.cli.step_inputs import Inputs, Missing, Settings

REPOSITORY = Path(__file__).parents[2]
RUNS = REPOSITORY / "results/published/mini/runs"

PREPARE = json.dumps(
    {"dataset": "digits", "pretrain_per_class": 20, "fine_tune_per_class": 5, "pool_per_class": 8}
)


def relearn(*words, cwd):
    command = [sys.executable, "-m", "relearn.cli", *map(str, words)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=60)


def test_a_step_makes_a_record_and_a_log(tmp_path):
    out = "results/mini/runs/poisoning/prepare_images/digits"
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


def studies_of(step):
    """The studies that have published runs of this step."""
    return {
        path.parent.name
        for scale in ("mini", "small")
        for path in RUNS.parents[1].glob(f"{scale}/runs/*/{step}")
    }


@pytest.mark.parametrize("words", [[], ["--help"], ["-h"]])
def test_help_names_every_verb_and_step_in_one_line(words, capsys):
    assert cli.main(words) == 0
    said = capsys.readouterr().out.splitlines()
    verbs, steps = said[said.index("Verbs:") :], said[said.index(overview.STEPS) :]
    for names, lines in ((cli.VERBS, verbs), (cli.STEPS, steps)):
        for name in names:
            (line,) = (line for line in lines if line.split()[:1] == [name] and line.startswith("    "))
            assert 30 < len(line) <= 118
    assert any("render" in line and "tables, figures" in line for line in verbs)


def test_steps_stand_under_the_study_that_runs_them():
    for title, steps in cli.STEPS_OF.items():
        for step in steps:
            found = studies_of(step)
            if title == "of several studies":
                assert len(found) > 1, step
            else:
                assert found <= {title.split()[0]}, step
    published = {path.name for path in RUNS.glob("*/*")}
    assert published <= set(cli.STEPS) and len(set(cli.STEPS)) == len(cli.STEPS)


@pytest.mark.parametrize("command", ["render", "ui", "craft"])
def test_a_command_explains_itself(command, capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main([command, "--help"])
    said = capsys.readouterr().out
    assert ended.value.code == 0 and said.startswith(f"usage: relearn {command} ")
    assert overview.docstring(command).splitlines()[-1] in said


def test_the_package_is_a_program_and_says_its_version(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "relearn", "--version"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"relearn {package.__version__}\n"


@pytest.mark.parametrize(
    "word,meant", [("rander", "did you mean render? "), ("crft", "did you mean craft? "), ("xyzzy", "")]
)
def test_a_mistyped_verb_is_answered_with_the_nearest(word, meant, capsys):
    assert cli.main([word, "--scale", "mini"]) == 2
    said = capsys.readouterr().err
    assert said == f"relearn: found {word}, no verb or step; {meant}`relearn --help` lists them\n"


# These say in their own words which settings they take, or how many inputs.
OWN_WORDS = {
    "provoke": "batch_size: missing",
    "similarity": "absolute: missing",
    "withstand": "autoattack: missing",
}
OWN_COUNTS = {"provoke": "inputs: 0 of 0", "vote": "0 answers.csv"}
OWN_COUNTS |= dict.fromkeys(("examine", "ascend", "invert"), "input network: none (needed")
DATA = {
    "prepare",
    "folder",
    "corpus",
    "sequences",
    "stream",
    "characters",
}  # they read no file of another step
NEED_NONE = {*DATA, "count", "throughput", "cost", "acquire", "finetune"}
NOT_AT_MINI = {"adapt", "retest"}


@pytest.mark.parametrize("step", cli.STEPS)
def test_a_step_without_its_settings_names_the_first_that_is_missing(step, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    assert cli.main([step, "--settings", "{}", "--out", "x", "--device", "cpu"]) == 2
    said = capfd.readouterr().err.splitlines()[-1]
    pattern = rf"relearn {step}: (--settings: the key \w+|--input \w+ FILE) is missing; found: none; `relearn {step} --help`"
    assert OWN_WORDS[step] in said if step in OWN_WORDS else re.match(pattern, said)


@pytest.mark.parametrize("step", sorted({*cli.STEPS} - NEED_NONE - NOT_AT_MINI))
def test_a_step_without_its_inputs_names_the_first_that_is_missing(step, tmp_path, monkeypatch, capfd):
    """With the settings of a published run."""
    found = (json.loads(path.read_text()) for path in sorted(RUNS.glob(f"*/{step}/**/record.json")))
    record = next(one for one in found if one["inputs"])
    monkeypatch.chdir(tmp_path)
    words = ["--settings", json.dumps(record["settings"]), "--study", record["study"], "--device", "cpu"]
    assert cli.main([step, *words, "--out", "x"]) == 2
    said = capfd.readouterr().err.splitlines()[-1]
    names = [f"--input {name} FILE is missing; found: none" for name in record["inputs"]]
    assert OWN_COUNTS[step] in said if step in OWN_COUNTS else any(name in said for name in names)


def test_a_missing_setting_is_named_with_its_path_and_its_neighbours():
    settings = Settings({"eps": 0.1, "pgd": {"steps": 3}, "nets": [{"name": "a"}]}, "craft")
    assert settings == {"eps": 0.1, "pgd": {"steps": 3}, "nets": [{"name": "a"}]}
    assert settings.get("lr") is None and "lr" not in settings
    for look, says in (
        (lambda: settings["lr"], "the key lr is missing; found: eps, pgd, nets; "),
        (lambda: settings["pgd"]["eps"], "the key pgd.eps is missing; found in pgd: steps; "),
        (lambda: settings["nets"][0]["depth"], "the key nets[0].depth is missing; found in nets[0]: name; "),
        (lambda: Inputs({"data": []}, "craft")["watch"], "--input watch FILE is missing; found: data; "),
    ):
        with pytest.raises(Missing) as error:
            look()
        assert says in str(error.value) and str(error.value).endswith(
            "`relearn craft --help` names what is allowed"
        )


def test_a_step_imports_nothing_that_only_help_needs(tmp_path):
    words = ["prepare", "--settings", PREPARE, "--out", "o", "--device", "cpu"]
    code = (
        f"import sys; from relearn import cli; assert cli.main({words}) == 0;"
        " print(sorted(sys.modules.keys() & {'relearn.cli.overview', 'relearn.params.messages', 'jinja2', 'mlflow'}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_the_command_line_itself_imports_nothing_heavy():
    code = "import sys, relearn.cli; print(sorted(sys.modules.keys() & {'torch','numpy','mlflow','pandas','pydantic'}))"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


@pytest.mark.parametrize(("verb", "watches"), [("render", 1), ("track", 1), ("warm", 0)])
def test_a_verb_ends_with_its_engine(verb, watches, monkeypatch):
    """The warm server must not have a second thread: it asks by itself."""
    calls = []
    module = types.SimpleNamespace(add_arguments=lambda parser: None, main=lambda args: 0)
    monkeypatch.setattr(cli, "_module", lambda name: module)
    monkeypatch.setattr(cli.parents, "watch", lambda: calls.append(verb))
    assert cli.main([verb]) == 0 and len(calls) == watches
