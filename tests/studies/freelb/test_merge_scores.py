"""merge_scores: the accuracy over the samples of several tasks is the mean weighted by their sizes."""

from __future__ import annotations

from pathlib import Path

import pytest

from .runs import Bench
from .test_ensemble import Answer, answers


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    made = Bench(tmp_path, "merge_scores", {"members": [{"task": "easy"}, {"task": "hard"}]})
    made.runs.mkdir(parents=True)
    return made


def rows(part: str, right: int, size: int, known: bool = True) -> list[Answer]:
    """Of ``size`` samples of three candidates ``right`` are answered correctly."""
    label = "2" if known else ""
    return [(part, str(place), label, "0 1 3" if place < right else "0 4 3") for place in range(size)]


def files(bench: Bench, *tables: list[Answer]) -> dict[str, list[Path]]:
    return {"answers": [answers(bench.runs.parent / f"{place}.csv", one) for place, one in enumerate(tables)]}


def test_sizes_weigh(bench: Bench) -> None:
    easy = [*rows("dev", 6, 8), *rows("test", 3, 4, known=False)]
    hard = [*rows("dev", 1, 2), *rows("test", 1, 4, known=False)]
    found = bench.run("merged", inputs=files(bench, easy, hard))
    assert found["outcome"] == "ok"
    assert found["metrics"] == {"dev_accuracy_frac": 7 / 10, "dev_samples_count": 10}
    table = {(row["task"], float(row["accuracy_frac"])) for row in bench.rows("merged", "scores.csv")}
    assert table == {("easy", 0.75), ("hard", 0.5), ("merged", 0.7)}


def test_a_member_without_answers(bench: Bench) -> None:
    silent: list[Answer] = [("dev", "0", "1", "")]
    found = bench.run("silent", inputs=files(bench, rows("dev", 1, 2), silent))
    assert found["outcome"] == "diverged" and not found["metrics"]


def test_one_member_is_nothing_to_merge(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    bench.run("one", code=2, inputs=files(bench, rows("dev", 1, 2)))
    assert "members: 2 with 1 answers.csv (allowed: as many, at least 2)" in capsys.readouterr().err
