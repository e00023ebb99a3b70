"""Progress: every item once, a line per interval in a log, a bar on a terminal."""

from __future__ import annotations

import sys

import pytest

from relearn import interrupt, progress


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def test_a_log_gets_a_line_per_interval_and_one_at_the_end(
    capsys: pytest.CaptureFixture[str], clock: list[float]
) -> None:
    seen = []
    for item in progress.progress(10, "craft"):
        seen.append(item)
        clock[0] += 4.0
    assert seen == list(range(10))
    assert capsys.readouterr().err.splitlines() == [
        "craft: 3/10, 12 s, 28 s left",
        "craft: 6/10, 24 s, 16 s left",
        "craft: 9/10, 36 s, 4 s left",
        "craft: 10/10, 40 s",
    ]


def test_an_unknown_length_has_no_time_left(capsys: pytest.CaptureFixture[str], clock: list[float]) -> None:
    assert list(progress.progress(iter("abc"), "read")) == ["a", "b", "c"]
    assert list(progress.progress([], "none")) == []
    assert capsys.readouterr().err.splitlines() == ["read: 3, 0 s", "none: 0/0, 0 s"]


def test_a_terminal_gets_a_bar(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    assert list(progress.progress("ab", "craft")) == ["a", "b"]
    assert "craft: 100%" in capsys.readouterr().err


def test_every_turn_is_a_safe_point(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interrupt, "_requested", 15)
    with pytest.raises(interrupt.Interrupted):
        list(progress.progress(3, "craft"))
