"""List scheduling on small graphs whose best schedule is known."""

from __future__ import annotations

from relearn.forecast.schedule import schedule
from relearn.studies.family import Needs
from relearn.studies.work import Job


def graph(edges: dict[str, list[str]], threads: dict[str, int] | None = None) -> list[Job]:
    """Jobs by name, each with the jobs that it reads."""
    book: dict[str, Job] = {}
    for name, before in edges.items():
        book[name] = Job(
            study="s",
            step=name,
            scale="mini",
            seed=0,
            labels={},
            settings={},
            folder=name,
            inputs={"data": [f"{one}/x.csv" for one in before]},
            needs=Needs(mem_mb=1, minutes=1, threads=(threads or {}).get(name, 1)),
            book=book,
        )
    return list(book.values())


def test_the_longest_chain_goes_first() -> None:
    jobs = graph({"short1": [], "short2": [], "a": [], "b": ["a"], "c": ["b"]})
    seconds = {"short1": 3.0, "short2": 3.0, "a": 2.0, "b": 2.0, "c": 2.0}
    found = schedule(jobs, seconds, 2)
    assert found.wall_s == 6.0  # a, b, c beside short1, short2; a short one first would take 8
    assert found.chain_s == 6.0
    assert [job.step for job in found.chain] == ["a", "b", "c"]


def test_one_core_takes_the_sum_and_many_the_longest_chain() -> None:
    jobs = graph({"a": [], "b": ["a"], "c": ["a"], "d": ["b", "c"]})
    seconds = {"a": 1.0, "b": 2.0, "c": 5.0, "d": 1.0}
    assert schedule(jobs, seconds, 1).wall_s == 9.0
    assert schedule(jobs, seconds, 8).wall_s == schedule(jobs, seconds, 8).chain_s == 7.0


def test_a_job_of_two_threads_waits_for_both_cores() -> None:
    jobs = graph({"wide": [], "a": [], "b": []}, {"wide": 2})
    assert schedule(jobs, {"wide": 1.0, "a": 1.0, "b": 1.0}, 2).wall_s == 2.0
    assert schedule(jobs, {"wide": 1.0, "a": 1.0, "b": 1.0}, 1).wall_s == 3.0  # no more than there are


def test_no_job_takes_no_time() -> None:
    assert schedule([], {}, 2) == (0.0, 0.0, [])
