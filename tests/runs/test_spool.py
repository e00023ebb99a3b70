"""The event spool: what is read equals what was logged, however often the writer was killed."""

import json
import math
import os
import tempfile
from pathlib import Path
from typing import Any, NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relearn.runs import spool

STEPS = st.lists(st.tuples(st.integers(0, 5), st.sampled_from("ab"), st.floats()), max_size=6)


def begin(path: Path, fresh: bool = False) -> spool.Spool:
    writer = spool.Spool(path)
    writer.begin({"started": "2026-01-01T00:00:00.000000+00:00", "inputs": {}}, fresh)
    return writer


def refuse_constant(name: str) -> NoReturn:
    raise AssertionError(f"{name} is no JSON")


@given(st.lists(st.tuples(STEPS, st.sampled_from(["end", "kill", "tear"])), min_size=1, max_size=4))
def test_the_later_value_of_a_step_wins_over_all_attempts(
    attempts: list[tuple[list[tuple[int, str, float]], str]],
) -> None:
    """The slow truth: walk through all that reached the disk; a torn line is the one that never counted."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "spool" / "run.jsonl"
        truth: dict[tuple[str, int], float] = {}
        for values, ending in attempts:
            writer = begin(path)
            for index, (step, key, value) in enumerate(values):
                writer.metrics(step, {key: value})
                if ending == "tear" and index == len(values) - 1:
                    with open(path, "rb+") as file:
                        file.truncate(path.stat().st_size - 5)
                else:
                    truth[key, step] = value
            if ending == "end":
                writer.end(spool.FAILED, "some reason")
        for line in path.read_bytes().splitlines():
            if line.startswith(b"{") and line.endswith(b"}"):
                json.loads(line, parse_constant=refuse_constant)
        story = spool.tell(path)
        assert story is not None
        assert story.attempts == len(attempts)
        assert story.status == (spool.FAILED if attempts[-1][1] == "end" else spool.RUNNING)
        assert {place: value for place, (_, value) in story.points.items()} == {
            place: value for place, value in truth.items() if math.isfinite(value)
        }
        assert len(story.strange) == sum(not math.isfinite(value) for value in truth.values())


def test_every_prefix_yields_only_its_complete_lines(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    writer = begin(path)
    for step in range(3):
        writer.metrics(step, {"loss": step / 7})
    writer.end(spool.FINISHED)
    content = path.read_bytes()
    ends = [0] + [index + 1 for index, byte in enumerate(content) if byte == ord("\n")]
    for size in range(len(content) + 1):
        whole = max(end for end in ends if end <= size)
        story = spool.tell(path, size)
        if whole == 0:
            assert story is None
        else:
            assert story is not None
            assert (story.size, len(story.points)) == (whole, min(ends.index(whole) - 1, 3))
            assert story.status == (spool.FINISHED if size == len(content) else spool.RUNNING)


def test_a_new_attempt_after_any_cut_loses_at_most_the_cut_line(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    writer = begin(path)
    writer.metrics(0, {"loss": 0.5})
    writer.metrics(1, {"loss": 0.25})
    content = path.read_bytes()
    first = content.index(b"\n") + 1
    for size in range(first, len(content) + 1):
        path.write_bytes(content[:size])
        begin(path).metrics(7, {"loss": 0.125})
        story = spool.tell(path)
        assert story is not None and story.attempts == 2
        kept = content[:size].count(b"\n") - 1
        # a cut that took only the line's end leaves a whole line
        kept += content[:size].endswith(b"}}")
        assert sorted(step for _, step in story.points) == [*range(kept), 7]


def test_a_fresh_execution_forgets_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    writer = begin(path)
    writer.metrics(3, {"loss": 0.5})
    writer.end(spool.FINISHED)
    begin(path, fresh=True)
    story = spool.tell(path)
    assert story is not None
    assert (story.attempts, story.points, story.status) == (1, {}, spool.RUNNING)


def test_time_spent_adds_up_over_attempts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([100.0, 103.0, 200.0, 210.0, 220.0])
    monkeypatch.setattr(spool.time, "time", lambda: next(clock))
    path = tmp_path / "run.jsonl"
    begin(path).metrics(0, {"loss": 0.5}, cpu_s=2.5)  # 100 … 103, killed without a word
    writer = begin(path)  # 200 … 220
    writer.metrics(1, {"loss": 0.5})
    writer.end(spool.KILLED, "stopped by SIGTERM", cpu_s=15.0)
    story = spool.tell(path)
    assert story is not None
    assert story.spent == {"wall_s": 23.0, "cpu_s": 17.5, "device_s": 0.0}
    assert (story.status, story.reason, story.ended) == (spool.KILLED, "stopped by SIGTERM", 220.0)


def test_the_device_time_of_all_attempts_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([100.0, 103.0, 200.0, 220.0])
    monkeypatch.setattr(spool.time, "time", lambda: next(clock))
    writer = spool.Spool(tmp_path / "run.jsonl")
    writer.begin({"machine": {"device": "cuda:0"}}, fresh=True)  # 100 … 103, killed without a word
    writer.metrics(0, {"loss": 0.5})
    writer = spool.Spool(tmp_path / "run.jsonl")
    writer.begin({"machine": {"device": "cuda:0"}}, fresh=False)  # 200 … 220
    writer.end(spool.KILLED, "stopped by SIGTERM", cpu_s=15.0, device_s=19.0)
    story = spool.tell(tmp_path / "run.jsonl")
    assert story is not None and story.spent == {"wall_s": 23.0, "cpu_s": 15.0, "device_s": 22.0}


def test_a_full_disk_loses_lines_and_not_the_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run.jsonl"
    writer = begin(path)
    writer.metrics(0, {"loss": 0.5})
    write = os.write

    def full(descriptor: int, content: Any) -> int:
        return write(descriptor, content[:10])

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        writer.metrics(1, {"loss": 0.25})
        patch.setattr(os, "write", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
        writer.metrics(2, {"loss": 0.25})
    writer.metrics(3, {"loss": 0.125})
    writer.end(spool.FINISHED)
    story = spool.tell(path)
    assert writer.lost == 2 and writer.fault == "No space left on device"
    assert story is not None and story.status == spool.FINISHED
    assert sorted(step for _, step in story.points) == [0, 3]


def test_foreign_lines_are_skipped(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    writer = begin(path)
    with open(path, "ab") as file:
        file.write(b'null\n[]\n{}\n{"t": 1}\n{"t": "x", "event": "end"}\n{"t": 1, "step": "a"}\n\xff\n')
    writer.metrics(0, {"loss": 0.5})
    story = spool.tell(path)
    assert story is not None and list(story.points) == [("loss", 0)] and story.status == spool.RUNNING
    path.write_bytes(b'{"t": 1, "step": 1, "metrics": {"loss": 1}}\n')
    assert spool.tell(path) is None and spool.tell(tmp_path / "absent.jsonl") is None


def test_lines_are_taken_between_start_and_end_only(tmp_path: Path) -> None:
    writer = begin(tmp_path / "run.jsonl")
    writer.end(spool.FINISHED)
    with pytest.raises(ValueError, match="between start and end"):
        writer.metrics(0, {"loss": 0.5})
