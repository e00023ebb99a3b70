"""The estimate of the time left, against jobs whose times are known."""

from types import SimpleNamespace

import pytest

from relearn.forecast import planned, single
from snakemake_logger_plugin_relearn import foresight
from snakemake_logger_plugin_relearn.foresight import Foresight, foresee, in_words


def test_nothing_is_shown_while_nothing_is_known() -> None:
    ahead = Foresight(0.0, jobs={1: ("a", None), 2: ("a", None)})
    assert ahead.left(5.0) is None


def test_a_forecast_counts_before_the_first_job_is_done() -> None:
    ahead = Foresight(0.0, cores=2, jobs=dict.fromkeys(range(8), ("a", 30.0)))
    assert ahead.left(0.0) == pytest.approx(8 * 30 / 2)


@pytest.mark.parametrize(("cores", "slower"), [(1, 1.0), (2, 1.0), (2, 3.0), (4, 0.5)])
def test_the_estimate_comes_to_what_is_left_whatever_the_machine(cores: int, slower: float) -> None:
    """Jobs that take ``slower`` times what was foreseen, on so many cores: half-way, the estimate is within a tenth."""
    forecast, count = 100.0, 40
    ahead = Foresight(0.0, cores=cores, jobs=dict.fromkeys(range(count), ("a", forecast)))
    real, now = forecast * slower, 0.0
    for first in range(0, count // 2, cores):
        for job in range(first, first + cores):
            ahead.begin(job, "a", now)
        now += real
        for job in range(first, first + cores):
            assert ahead.finish(job, now) == pytest.approx(real)
    truth = (count // 2) * real / cores
    assert ahead.left(now) == pytest.approx(truth, rel=0.1)


def test_without_a_forecast_each_step_has_its_own_mean() -> None:
    ahead = Foresight(
        0.0, jobs={1: ("long", None), 2: ("short", None), 3: ("long", None), 4: ("short", None)}
    )
    ahead.begin(1, "long", 0.0)
    ahead.finish(1, 1000.0)
    ahead.begin(2, "short", 1000.0)
    ahead.finish(2, 1010.0)
    assert ahead.left(1010.0) == pytest.approx(1010.0, rel=0.05)


def test_it_is_never_less_than_what_is_left_of_the_longest_job() -> None:
    ahead = Foresight(0.0, cores=8, jobs={1: ("a", 600.0), **dict.fromkeys(range(2, 9), ("b", 1.0))})
    ahead.begin(1, "a", 0.0)
    assert ahead.left(100.0) == pytest.approx(500.0)


def test_a_failed_job_is_not_waited_for() -> None:
    ahead = Foresight(0.0, jobs={1: ("a", 60.0), 2: ("a", 60.0)})
    ahead.begin(1, "a", 0.0)
    assert ahead.fail(1, 3.0) == 3.0
    assert ahead.left(0.0) == pytest.approx(60.0)


RECORD = "results/mini/runs/poisoning/train/a/record.json"


def dag() -> SimpleNamespace:
    run = {"study": "poisoning", "step": "train", "settings": "{}"}
    jobs = [
        SimpleNamespace(
            is_shell=True, params=run, output={"record": RECORD}, rule=SimpleNamespace(name="poisoning_train")
        ),
        SimpleNamespace(
            is_shell=True, params={"scale": "mini"}, output={}, rule=SimpleNamespace(name="render")
        ),
        SimpleNamespace(is_shell=False, params={}, output={}, rule=SimpleNamespace(name="all")),
    ]
    return SimpleNamespace(needrun_jobs=lambda: jobs, jobid=jobs.index)


def test_the_jobs_of_a_dag_are_foreseen_by_the_forecast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planned, "jobs_of", lambda values: {values["scale"]: "a job"})
    folder = RECORD.removesuffix("/record.json")
    monkeypatch.setattr(
        single, "job_seconds", lambda jobs: {folder: 21.0 if list(jobs) == ["a job"] else 0.0}
    )
    monkeypatch.setattr(foresight, "FORECAST", {5: ("old", None)})
    foresee(dag(), {"scale": "mini"})
    assert foresight.FORECAST == {0: ("poisoning/train", 21.0), 1: ("render", None)}


def test_a_forecast_that_fails_stops_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foresight, "FORECAST", {})
    foresee(dag(), {"scale": "none"})
    assert foresight.FORECAST == {0: ("poisoning/train", None), 1: ("render", None)}


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.2, "10 s"), (44, "40 s"), (89, "90 s"), (480, "8 min"), (9000, "2.5 h")]
)
def test_durations_are_formatted_for_people(seconds: float, words: str) -> None:
    assert in_words(seconds) == words
