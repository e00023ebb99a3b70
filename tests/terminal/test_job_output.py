"""Where the words of a job go: into its log alone, when Snakemake shows one line a job."""

import os
from pathlib import Path

import pytest

from relearn import cli
from relearn.runs import console


def words(folder: Path) -> list[str]:
    call = ["lrformer", "check_theorems", "--settings", '{"protocol": "none"}', "--label", "protocol=none"]
    return [*call, "--out", str(folder / "out"), "--log", str(folder / "logs/one.log")]


@pytest.mark.parametrize("alone", [True, False])
def test_a_failing_job_says_why_in_its_log_and_only_there_if_asked(
    alone: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(console.WRITE_TO, "log" if alone else "terminal")
    assert cli.main(words(tmp_path)) == 2
    said = capfd.readouterr()
    log = (tmp_path / "logs/one.log").read_text()
    assert "Traceback" in log
    if alone:
        assert (said.out, said.err) == ("", "")
        assert log.splitlines()[-1].startswith("relearn lrformer check_theorems: ")
        assert log.count("Traceback (most recent call last)") == 1
    else:
        assert said.err.splitlines()[-1].startswith("relearn lrformer check_theorems: ")


def test_what_a_child_process_says_is_in_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(console.WRITE_TO, "log")
    log = tmp_path / "a" / "one.log"
    with console.to_log_alone(log):
        os.system("echo from below")
        print("from Python")
    print("afterwards")
    assert log.read_text() == "from below\nfrom Python\n"
    assert capfd.readouterr().out == "afterwards\n"


def test_a_log_that_cannot_be_written_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(console.WRITE_TO, "log")
    (tmp_path / "logs/one.log").mkdir(parents=True)
    assert cli.main(words(tmp_path)) in (3, 4)
    said = capfd.readouterr().err
    assert said.count("\n") == 1 and "one.log" in said and "Traceback" not in said
