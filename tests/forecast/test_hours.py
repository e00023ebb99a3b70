"""List scheduling on small graphs whose best schedule is known.

The corrected model: what a forecast rests on, and how its range narrows.
"""

import math
from dataclasses import replace

import pytest

from relearn.forecast.amount import Amount
from relearn.forecast.correction import QUANTILE, Correction, Forecast, total
from relearn.forecast.evidence import Row
from relearn.forecast.machine import Machine
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


SLOW = Machine(name="slow", convolutions=10.0, products=10.0, bandwidth=10.0, calls=10.0, start_s=0.0)
ONES = (1.0,) * 6


def row(scale: str, run: str, cpu_s: float, calls: float = 10.0, step: str = "train") -> Row:
    amount = None if calls == 0 else Amount(0.0, 0.0, 0.0, calls)
    return Row(scale, "s", step, "", run, "", cpu_s, cpu_s, 100, "slow", "fp32", amount)


def test_a_run_that_was_made_is_its_own_forecast() -> None:
    fixed = Correction(SLOW, ONES, [row("mini", "a", 7.0)], "mini")
    found = fixed.of("s", "train", "", "a", Amount(0, 0, 0, 10))
    assert found is not None
    assert (found.seconds, found.basis) == (7.0, "run")


def test_the_ratio_of_sums_of_the_same_scale_counts_first() -> None:
    rows = [row("mini", name, 3.0) for name in "abc"] + [row("small", name, 50.0) for name in "def"]
    here = Correction(SLOW, ONES, rows, "mini").of("s", "train", "", "new", Amount(0, 0, 0, 20))
    there = Correction(SLOW, ONES, rows, "paper").of("s", "train", "", "new", Amount(0, 0, 0, 20))
    assert here is not None and there is not None
    assert here.seconds == pytest.approx(6.0)  # 3 seconds for each modelled second
    assert (here.basis, there.basis) == ("scale", "other scales")
    assert there.seconds == pytest.approx(2 * 159 / 6)
    assert there.shared > here.shared  # another scale says less


def test_a_step_that_nobody_has_run_rests_on_the_model_alone() -> None:
    found = Correction(SLOW, ONES, [], "mini").of("s", "train", "", "new", Amount(0, 0, 0, 20))
    assert found is not None
    assert (found.seconds, found.basis) == (pytest.approx(2.0), "model")
    _, low, high = total([found])
    assert math.sqrt(high / low) >= SLOW.spread


def test_a_step_without_a_formula_takes_the_mean_of_its_runs() -> None:
    rows = [row("mini", name, seconds, calls=0) for name, seconds in (("a", 1.0), ("b", 3.0))]
    fixed = Correction(SLOW, ONES, rows, "mini")
    found = fixed.of("s", "train", "", "new", None)
    assert found is not None
    assert (found.seconds, found.basis) == (2.0, "scale")
    assert fixed.of("s", "unheard_of", "", "new", None) is None


def test_own_errors_average_out_and_shared_ones_stay() -> None:
    one = Forecast(1.0, 0.5, 0.1, "scale")
    _, low1, high1 = total([one])
    _, low, high = total([one] * 100)
    assert high1 / low1 == pytest.approx(math.exp(2 * QUANTILE * math.hypot(0.5, 0.1)))
    assert high / low == pytest.approx(math.exp(2 * QUANTILE * math.hypot(0.05, 0.1)))
    assert total([]) == (0.0, 0.0, 0.0)


FAST_IN_HALF = replace(SLOW, bf16_convolutions=40.0, bf16_products=20.0)


def test_bf16_changes_convolutions_and_products_only() -> None:
    """Seconds by hand: 10 operations each take 10/10 in fp32; in bf16 10/40 and 10/20, times the factor of bf16."""
    amount = Amount(10.0, 10.0, 10.0, 10.0)
    factors = (1.0, 1.0, 1.0, 1.0, 1.0, 2.0)
    whole = Correction(FAST_IN_HALF, factors, [], "mini").model(amount)
    half = Correction(FAST_IN_HALF.at("bf16"), factors, [], "mini").model(amount)
    assert whole == pytest.approx(4.0) and half == pytest.approx(2 * (0.25 + 0.5) + 2.0)
    uncalibrated = Correction(SLOW.at("bf16"), ONES, [], "mini").model(amount)
    assert uncalibrated == pytest.approx(whole)  # without rates of bf16, those of fp32


def test_a_run_in_one_precision_is_evidence_for_the_other() -> None:
    amount = Amount(10.0, 0.0, 0.0, 0.0)
    made = row("mini", "a", 3.0)._replace(amount=amount)
    asked = FAST_IN_HALF.at("bf16")
    found = Correction(asked, ONES, [made], "mini", made_on=lambda _: FAST_IN_HALF).of(
        "s", "train", "", "a", amount
    )
    same = Correction(FAST_IN_HALF, ONES, [made], "mini").of("s", "train", "", "a", amount)
    assert found is not None and same is not None
    assert (found.seconds, same.seconds) == (pytest.approx(0.75), 3.0)
    assert found.shared > same.shared
