"""Settings that have changed since the runs of a claim were made."""

from typing import Any

import pytest

from relearn.report import outdated
from relearn.report.runs import Run


def run(folder: str, step: str = "train", **settings: Any) -> Run:
    return Run({"step": step, "settings": settings}, folder)


def test_runs_with_the_planned_settings_have_no_line() -> None:
    made = run("a", steps=5, sizes=[1, 2], optimiser={"lr": 0.1})
    assert outdated.lines([made], lambda _: {"steps": 5, "sizes": (1, 2), "optimiser": {"lr": 0.1}}) == []


def test_each_step_counts_its_runs_and_names_the_commonest_settings_first() -> None:
    made = [run("a", steps=5, rate=0.1), run("b", steps=5, rate=0.2), run("c", "prepare", size=3)]
    planned = {"a": {"steps": 6, "rate": 0.2}, "b": {"steps": 6, "rate": 0.2}, "c": {"size": 3}}
    assert outdated.lines(made, planned.get) == [
        "2 of 2 runs of train were made with other settings than planned now: steps 5, now 6; rate 0.1, now 0.2"
    ]


def test_a_run_that_is_no_longer_planned_and_a_setting_of_one_side_do_not_count() -> None:
    made = [run("gone", steps=5), run("here", steps=5, old=1)]
    assert outdated.lines(made, {"here": {"steps": 5, "new": 2}}.get) == []
    assert outdated.lines(made, {"here": {"steps": 7, "new": 2}}.get) == [
        "1 of 1 run of train was made with other settings than planned now: steps 5, now 7"
    ]


@pytest.mark.parametrize(
    ("was", "now", "shown"),
    [
        ({"optimiser": {"lr": 0.1}}, {"optimiser": {"lr": 1e-3}}, "optimiser.lr 0.1, now 0.001"),
        ({"sizes": list(range(40))}, {"sizes": [1]}, "sizes others, now [1]"),
        (
            dict.fromkeys("abcde", 1),
            dict.fromkeys("abcde", 2),
            "a 1, now 2; b 1, now 2; c 1, now 2 and 2 more",
        ),
    ],
)
def test_what_a_line_shows(was: dict[str, Any], now: dict[str, Any], shown: str) -> None:
    (line,) = outdated.lines([run("a", **was)], lambda _: now)
    assert line.endswith(f"planned now: {shown}")
