"""Progress lines tell the time left; a log gets what the terminal gets, tracebacks too, without a bar's carriage returns."""

import re
import sys

import pytest

from relearn.runs import console


def test_lines_come_at_the_end_and_after_each_interval(capsys, monkeypatch):
    clock = iter([0.0, 4.0, 12.0, 13.0, 16.0])  # made at 0; calls at 4, 12, 13, 16
    monkeypatch.setattr(console.time, "monotonic", lambda: next(clock))
    progress = console.Progress("work")
    for done in range(1, 5):
        progress(done, 4)
    lines = capsys.readouterr().err.splitlines()
    assert lines == ["work: 2/4, 12 s, 12 s left", "work: 4/4, 16 s, 0 s left"]


def test_time_left_of_a_resumed_run_counts_from_where_it_started(capsys, monkeypatch):
    clock = iter([0.0, 10.0, 20.0])
    monkeypatch.setattr(console.time, "monotonic", lambda: next(clock))
    progress = console.Progress("work")
    progress(51, 100)  # fifty steps came from the checkpoint
    progress(52, 100)
    assert capsys.readouterr().err.splitlines()[-1] == "work: 52/100, 20 s, 480 s left"


def test_log_holds_lines_and_traceback_but_no_bar(tmp_path, capsys):
    log = tmp_path / "deep" / "run.log"
    with pytest.raises(RuntimeError), console.tee(log):
        print("to out")
        print("to err", file=sys.stderr)
        sys.stderr.write("\r 50%")
        raise RuntimeError("broken")
    text = log.read_text()
    assert text.startswith("to out\nto err\n") and "50%" not in text
    assert re.search(r"Traceback.*RuntimeError: broken", text, re.S)
    shown = capsys.readouterr()
    assert shown.out == "to out\n" and shown.err == "to err\n\r 50%"
    assert sys.stdout is not log


def test_without_a_log_nothing_changes(capsys):
    before = sys.stdout
    with console.tee(None):
        assert sys.stdout is before
