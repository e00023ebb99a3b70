"""The command line: one line for every error that a user can cause, inputs by name, a job that is cheap to start."""

import importlib
import json
import re
import socket
import subprocess
import sys
import types
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import relearn as package
from relearn import cli
from relearn.cli import docs, overview, warm
from relearn.cli.step_inputs import Inputs, Missing, settings_of
from relearn.params.reading import SCALES
from relearn.studies.study import all_studies, load

REPOSITORY = Path(__file__).parents[2]
STEPS = [(study.name, step) for study in all_studies() for step in study.steps]

STEP = ("poisoning", "prepare_images")
PREPARE = json.dumps(
    {"dataset": "digits", "pretrain_per_class": 20, "fine_tune_per_class": 5, "pool_per_class": 8}
)


def relearn(*words, cwd):
    command = [sys.executable, "-m", "relearn", *map(str, words)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=60)


def test_a_step_makes_a_record_and_a_log(tmp_path):
    out = "results/mini/runs/poisoning/prepare_images/digits"
    done = relearn(
        *("poisoning", "prepare_images", "--settings", PREPARE, "--out", out, "--label", "dataset=digits"),
        *("--device", "cpu", "--log", "run.log"),
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    record = json.loads((tmp_path / out / "record.json").read_text())
    assert (record["step"], record["labels"], record["outcome"]) == (
        "prepare_images",
        {"dataset": "digits"},
        "ok",
    )
    assert (tmp_path / "run.log").is_file()


@pytest.mark.parametrize(
    "words,code,says",
    [
        (
            [*STEP, "--settings", PREPARE, "--out", "o", "--input", "data", "gone"],
            3,
            "--input data: no file gone",
        ),
        ([*STEP, "--settings", "{", "--out", "o"], 2, "--settings"),
        ([*STEP, "--settings", PREPARE, "--out", "o", "--label", "x"], 2, "allowed is name=value"),
        ([*STEP, "--settings", PREPARE.replace("digits", "digit"), "--out", "o"], 2, "digits"),
        ([*STEP, "--settings", PREPARE, "--out", "o", "--device", "tpu"], 2, "tpu"),
    ],
)
def test_errors_are_one_line_that_names_the_fault(words, code, says, tmp_path):
    done = relearn(*words, cwd=tmp_path)
    assert done.returncode == code and says in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr and "usage" not in done.stderr


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (
            ["plan", "--cores", "many"],
            "relearn plan: argument --cores: invalid int value: 'many'; `relearn plan --help` ",
        ),
        (["list", "--nothing"], "relearn list: unrecognized arguments: --nothing; "),
        (["reproduce"], "relearn reproduce: the following arguments are required: target; "),
        (["reproduce", "all", "--cores", "0"], "--cores: found 0, allowed: all, or a number of at least 1"),
        (["reproduce", "all", "--scale", "bogus"], "bogus"),
        (["reproduce", "all", "kim2020"], "found all with other targets, allowed: all alone"),
        (["render", "--cores", "0"], "--cores: found 0, allowed: at least 1"),
        (
            ["render", "--artefact", "kim2020.table9"],
            "--artefact: found kim2020.table9, nearest: kim2020.table",
        ),
        (
            ["plan", "claim:cp_beats_fc", "--study", "freelb"],
            "--study freelb: no run of claim:cp_beats_fc is of it",
        ),
        *(
            ([verb, "--scale", ""], f"relearn {verb}: --scale: found '', allowed: mini, small, medium, paper")
            for verb in ("list", "adopt", "pack")
        ),
        (
            ["adopt", "README.md"],
            "adopt: README.md: found a file, allowed: a folder of records, or files home.*.part",
        ),
        (["scoreboard", "--short", "--pages", "x"], "--pages x: found with --short, which writes nothing"),
        (["scoreboard", "--short", "--out", "x"], "--out x: found with --short, which writes nothing"),
        (["show", ""], "found an empty name"),
        (["power", ""], "claim: found ''"),
        (
            ["poisoning", "train", "--settings", "{}", "--out", "x", "--threads", "0"],
            "argument --threads: found '0', allowed is a whole number of at least 1",
        ),
        (["poisoning", "train", "--seed", "-1"], "--seed: found '-1', allowed is a whole number from 0 to"),
        (["robustness", "--seed", str(2**32)], "--seed: found '4294967296', allowed is a whole number from"),
        (["poisoning", "train", "--scale", "tiny"], "--scale: invalid choice: 'tiny' (choose from "),
        (["evaluate-text", "--threads", "0"], "--threads: found '0', allowed is a whole number"),
        *(
            ([*verb.split(), "--out", "README.md"], "--out README.md: found a file")
            for verb in ("evaluate-filter x", "evaluate-poisons x", "evaluate-text x --task sst2")
        ),
        (
            ["track", "--uri", "sqlite:///"],
            "tracking URI: found sqlite:///, allowed: sqlite:///PATH/mlflow.db",
        ),
        (["track", "--uri", "sqlite:////tmp"], "tracking URI: found sqlite:////tmp, allowed: "),
        (["track", "--uri", "sqlite://"], "tracking URI: found sqlite://, allowed: "),
    ],
)
def test_wrong_use_of_a_verb_is_one_line(words, says, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(REPOSITORY)
    published = REPOSITORY / "results/published/mini"
    where = {
        "render": ["--root", str(tmp_path), "--from", str(published)],
        "power": ["--root", str(published)],
    }
    assert cli.main([*words, *where.get(words[0], [])]) == 2
    said = capsys.readouterr()
    assert says in said.err and said.err.count("\n") == 1


@pytest.mark.parametrize(
    ("command", "status"),
    [
        ("relearn --version >&-", 0),
        ("relearn --version > /dev/full", 4),
        ("relearn plan --help > /dev/full", 4),
        ("LC_ALL=C PYTHONCOERCECLOCALE=0 PYTHONUTF8=0 relearn reproduce --help > out", 0),
    ],
)
def test_the_output_may_be_closed_full_or_ascii(command, status, tmp_path):
    text = command.replace("relearn", f"{sys.executable} -m relearn", 1)
    done = subprocess.run(text, shell=True, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == status and done.stderr.count("\n") == (status != 0), done.stderr


def test_an_empty_input_is_an_input_that_the_run_does_not_have(monkeypatch, tmp_path):
    (tmp_path / "a").write_text("x")
    seen = {}

    class Step:
        NEEDS_TORCH = False
        Settings = dict[str, Any]

        @staticmethod
        def run(run, settings, inputs, device, precision):
            seen.update(inputs)
            run.finish({})

    monkeypatch.setattr(cli, "import_module", lambda name: Step)
    monkeypatch.chdir(tmp_path)
    words = [
        "poisoning",
        "train",
        "--settings",
        "{}",
        "--out",
        "runs/o",
        "--input",
        "data",
        "a",
        "--input",
        "kept",
    ]
    assert cli.main([*words, "--device", "cpu"]) == 0
    assert [str(path) for path in seen["data"]] == ["a"] and "kept" not in seen


@pytest.mark.parametrize("words", [[], ["--help"], ["-h"]])
def test_help_names_every_verb_and_step_in_one_line(words, capsys):
    assert cli.main(words) == 0
    assert cli.SCALES == SCALES
    said = capsys.readouterr().out.splitlines()
    verbs, steps = said[said.index("Verbs:") :], said[said.index(overview.STEPS) :]
    per_study = Counter(step for _, step in STEPS)
    for lines, names in ((verbs[: verbs.index("")], Counter(cli.VERBS)), (steps, per_study)):
        commands = [line for line in lines if line.startswith("    ")]
        assert Counter(line.split()[0] for line in commands) == names
        assert all(30 < len(line) <= 118 for line in commands)
        assert all(line[32].islower() or line[33].isupper() for line in commands)
    assert any("render" in line and "tables, figures" in line for line in verbs)


@pytest.mark.parametrize("command", ["render", "ui", "poisoning craft"])
def test_a_command_explains_itself(command, capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["relearn", *command.split(), "--help"])
    assert cli.main([*command.split(), "--help"]) == 0
    said = capsys.readouterr().out
    assert said.startswith(f"usage: relearn {command} ")
    *_, name = command.split()
    module = f"relearn.cli.{name.replace('-', '_')}" if name in cli.VERBS else load("poisoning").steps[name]
    assert overview.docstring(module).splitlines()[-1] in said


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
    "word,meant",
    [("rander", "did you mean render? "), ("poisning", "did you mean poisoning? "), ("xyzzy", "")],
)
def test_a_mistyped_verb_is_answered_with_the_nearest(word, meant, capsys):
    assert cli.main([word, "--scale", "mini"]) == 2
    said = capsys.readouterr().err
    assert said == f"relearn: found {word}, no verb or study; {meant}`relearn --help` lists them\n"


OWN_WORDS = {("lipsformer", "count_params_flops"): "network is None; allowed: "}  # one of two keys
TAKE_NONE = {
    ("poisoning", "toy_example"),
    ("freelb", "check_gradient"),
    ("gradinit", "count_params"),
}  # no settings


@pytest.mark.parametrize(("study", "step"), [one for one in STEPS if one not in TAKE_NONE])
def test_a_step_without_its_settings_names_the_first_that_is_missing(
    study, step, tmp_path, monkeypatch, capfd
):
    monkeypatch.chdir(tmp_path)
    assert cli.main([study, step, "--settings", "{}", "--out", "x", "--device", "cpu"]) == 2
    said = capfd.readouterr().err.splitlines()[-1]
    words = f"relearn {study} {step}"
    if (study, step) in OWN_WORDS:
        assert said.startswith(f"{words}: {OWN_WORDS[study, step]}")
        return
    assert re.match(rf"{words}: --settings: the key \w+ is missing; found: none; `{words} --help`", said)


def test_a_mistyped_step_is_answered_with_the_nearest(capsys):
    assert cli.main(["poisoning", "crft", "--settings", "{}"]) == 2
    said = capsys.readouterr().err
    assert (
        said == "relearn: found crft, no step of poisoning; did you mean craft? `relearn --help` lists them\n"
    )


def test_a_missing_input_is_named_beside_those_that_are_there():
    with pytest.raises(Missing) as error:
        Inputs({"data": []}, "craft")["watch"]
    says = "--input watch FILE is missing; found: data; `relearn craft --help` names what is allowed"
    assert str(error.value) == says


def test_a_step_imports_nothing_that_only_help_needs(tmp_path):
    words = [*STEP, "--settings", PREPARE, "--out", "o", "--device", "cpu"]
    code = (
        f"import sys; from relearn import cli; assert cli.main({words}) == 0;"
        " print(sorted(sys.modules.keys() & {'relearn.cli.overview', 'relearn.params.messages', 'jinja2', 'mlflow'}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(("verb", "watches"), [("render", 1), ("track", 1), ("warm", 0)])
def test_a_verb_ends_with_its_engine(verb, watches, monkeypatch):
    """The warm server must not have a second thread: it asks by itself."""
    calls = []
    module = types.SimpleNamespace(add_arguments=lambda parser: None, main=lambda args: 0)
    monkeypatch.setattr(cli, "import_module", lambda name: module)
    monkeypatch.setattr(cli.parents, "watch", lambda: calls.append(verb))
    assert cli.main([verb]) == 0 and len(calls) == watches


# places where a verb cannot write its folder or socket --------------------------------------------------------------


linux_alone = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="warm starts need Linux")


@pytest.mark.parametrize("out", ["file", "file/below"])
def test_a_file_is_no_folder_of_docs(
    out: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(docs, "material", lambda root: pytest.fail("it works already"))
    (tmp_path / "file").write_text("x")
    assert cli.main(["docs", "--out", str(tmp_path / out)]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"relearn docs: --out {tmp_path / out}: found a file")
    assert said.endswith("allowed: a folder\n") and said.count("\n") == 1


@pytest.mark.parametrize(
    ("names", "status"), [("", 0), ("mkdocs.yml pages site", 0), ("pages", 2), ("mkdocs.yml a", 2)]
)
def test_a_folder_of_other_files_is_none_of_docs(names, status, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(docs, "material", lambda root: None)
    monkeypatch.setattr("relearn.report.site.build.write", lambda *_: [])
    for name in names.split():
        (tmp_path / name).touch()
    assert cli.main(["docs", "--out", str(tmp_path)]) == status
    assert ("found a folder with other files" in capsys.readouterr().err) == bool(status)


@linux_alone
@pytest.mark.parametrize(
    ("place", "code", "says"),
    [
        ("file", 2, "found a file, allowed: a new path, or a socket that no server listens at"),
        ("folder", 2, "found a folder, allowed: a new path, or a socket that no server listens at"),
        ("nowhere/socket", 3, "no folder {0}/nowhere"),
        ("file/socket", 3, "no folder {0}/file"),
    ],
)
def test_what_is_no_socket_is_refused_at_once(
    place: str,
    code: int,
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(warm, "load", lambda: pytest.fail("it imports"))
    (tmp_path / "file").write_text("x")
    (tmp_path / "folder").mkdir()
    assert cli.main(["warm", "--socket", str(tmp_path / place)]) == code
    said = capsys.readouterr().err
    assert said == f"relearn warm: --socket {tmp_path / place}: {says.format(tmp_path)}\n"


@linux_alone
def test_a_dead_socket_and_a_new_path_are_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as one:
        one.bind("dead")
    for place in ("dead", "new"):
        warm.check_socket(Path(place))


# commands outside the package ------------------------------------------------------------------------------------------------


def test_the_benchmark_of_a_jobs_start_calls_steps_that_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Path(__file__).parents[2] / "benchmarks"
    monkeypatch.syspath_prepend(str(folder))
    import start

    for _, _, command in start.steps():
        package, study, step, *options = command[2:]
        module = importlib.import_module(load(study).steps[step])
        settings_of(module, json.loads(options[options.index("--settings") + 1]), step)
        assert package == "relearn"
