"""`relearn validate`: what it prints, and its exit code."""

import json
import shutil
from pathlib import Path

import pytest

from relearn import cli
from relearn.params import reading as params
from relearn.studies import parameters
from relearn.studies.parameters import json_schema

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copy(ROOT / "params.yaml", tmp_path)
    shutil.copytree(ROOT / "params", tmp_path / "params")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_good_parameters_are_said_to_be_ok(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["validate"]) == 0
    count = len(params.leaves(parameters.load()))
    assert capsys.readouterr() == (f"ok: params.yaml at scale mini: {count} values\n", "")


def test_another_scale_announces_what_it_hides(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["validate", "--scale", "small"]) == 0
    first, second, *rest = capsys.readouterr().out.splitlines()
    assert first.startswith("ok: params.yaml at scale small: ")
    hidden = params.hidden_by_overlay("params.yaml", "small")
    assert second == f"params/small.yaml overrides {len(hidden)} values of params.yaml:"
    named, section = [], ""
    for line in rest:  # a section begins two columns in, and goes on four columns in
        if not line.startswith("    "):
            section, _, line = line.strip().partition(": ")
        named += [f"{section}.{name}" for name in line.strip().strip(",").split(", ")]
    assert sorted(named) == sorted(hidden) and max(map(len, rest)) <= 120


def test_each_problem_has_a_line_and_the_code_is_2(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = folder / "other.yaml"
    other.write_text((folder / "params.yaml").read_text().replace("k: 50", "k: 5_0").replace("nu:", "mu:"))
    assert cli.main(["validate", "--params", str(other)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    lines = captured.err.splitlines()
    assert all(line.startswith(f"{other}:") for line in lines)
    assert ["deep_knn.k: found 5_0" in lines[0], "one_class_svm.mu: unknown key" in lines[-1]] == [True, True]
    assert len(lines) == 3  # the wrong spelling, the unknown key, the key that it left missing


def test_a_missing_file_is_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["validate", "--params", "no.yaml"]) == 2
    assert capsys.readouterr().err.startswith("no.yaml: cannot be read (")


def test_the_schema_is_printed_as_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["validate", "--schema"]) == 0
    assert json.loads(capsys.readouterr().out) == json_schema()
