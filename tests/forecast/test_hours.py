"""List scheduling on small graphs whose best schedule is known.

The corrected model: what a forecast rests on, how its range narrows, and its efficiencies; the memory of a job.
"""

import math
from dataclasses import replace

import numpy as np
import pytest

from relearn.forecast import footprint as sizes
from relearn.forecast.amount import Amount
from relearn.forecast.correction import (
    ELSEWHERE,
    FLOOR,
    QUANTILE,
    SHARED,
    Correction,
    Forecast,
    _log_spread,
    total,
)
from relearn.forecast.evidence import Row, made_on
from relearn.forecast.fitting import efficiencies
from relearn.forecast.machine import Machine
from relearn.forecast.schedule import schedule
from relearn.studies.family import Needs
from relearn.studies.work import FORWARD, INPUT, TRAIN, Counts, Job, Pass, Work


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


def test_two_runs_of_a_scale_are_too_few_for_a_ratio_of_its_own_and_one_for_a_spread() -> None:
    many = [row("mini", name, 3.0) for name in "abc"]
    few = [*many[:2], row("small", "d", 30.0), row("small", "e", 30.0)]

    def forecast(rows: list[Row]) -> Forecast | None:
        return Correction(SLOW, ONES, rows, "mini").of("s", "train", "", "new", Amount(0, 0, 0, 10))

    assert forecast(many) == (pytest.approx(3.0), FLOOR, SHARED, "scale")
    found = forecast(few)
    assert found is not None and found[2:] == (ELSEWHERE, "other scales")
    assert found.seconds == pytest.approx(66 / 4)
    assert forecast(many[:1]) == (pytest.approx(3.0), ELSEWHERE, ELSEWHERE, "other scales")


def test_the_memory_of_a_step_is_the_largest_of_its_runs() -> None:
    rows = [
        row("mini", name, 1.0)._replace(memory_mb=mb) for name, mb in (("a", 100), ("b", 300), ("c", 200))
    ]
    found = Correction(SLOW, ONES, [*rows, row("small", "d", 1.0)], "mini").memory
    assert found == {("mini", "s", "train"): 300, ("small", "s", "train"): 100}


def test_the_efficiencies_are_those_with_which_the_runs_were_made() -> None:
    """Of the five terms, and a further one of bfloat16 for convolutions and products together."""
    true = (2.0, 0.5, 3.0, 1.5, 4.0, 1.7)
    shape = made_on(row("mini", "a", 1.0))
    rates = (shape.convolutions, shape.products, shape.bandwidth, shape.calls)
    rows = []
    for at, seconds in enumerate([(9, 1, 1, 1), (1, 9, 1, 1), (1, 1, 9, 1), (1, 1, 1, 9), (1, 1, 1, 1)]):
        amount = Amount(*(share * rate for share, rate in zip(seconds, rates)))
        for precision in ("fp32", "bf16"):
            made = row("mini", f"{at}", 1.0)._replace(amount=amount, precision=precision)
            half = true[5] if precision == "bf16" else 1.0
            terms = made_on(made).terms(amount)
            cpu_s = sum(
                factor * term for factor, term in zip((half * true[0], half * true[1], *true[2:5]), terms)
            )
            rows.append(made._replace(cpu_s=cpu_s))
    short = row("mini", "short", 0.01)._replace(amount=rows[0].amount)  # measures the clock, not the work
    assert efficiencies([*rows, short]) == pytest.approx(true, rel=1e-3)
    with pytest.raises(ValueError, match="records: found 5 with a known amount of work, allowed: at least 6"):
        efficiencies([*rows[:5], short, row("mini", "unknown", 1.0, calls=0)])


@pytest.mark.parametrize(
    ("mode", "bytes_held"),
    [
        (FORWARD, 4 * 1e8 + 6 * 1e7 / 20),  # the weights, and what one of the 20 operations moves
        (INPUT, 4 * 1e8 + 0.4 * 6 * 1e7),  # a backward pass keeps a share of all that is moved
        (TRAIN, 16 * 1e8 + 0.4 * 6 * 1e7),  # and to train, a weight has a gradient and two moments
    ],
)
def test_memory_is_that_of_the_largest_pass_unless_past_runs_measured_it(
    monkeypatch: pytest.MonkeyPatch, mode: tuple[float, float], bytes_held: float
) -> None:
    large, small = (Counts(moved=1e7, calls=20.0, weights=weights) for weights in (1e8, 1e6))
    work = Work([Pass(small, 9.0, 6.0, FORWARD), Pass(large, 1.0, 6.0, mode), Pass(small, 1.0, 1.0, FORWARD)])
    monkeypatch.setattr(sizes, "work_of", lambda job: work)
    job = replace(graph({"a": []})[0], outputs=("weights.safetensors", "features.safetensors", "trials.csv"))
    found = sizes.footprint(job, {("small", "s", "a"): 7.0})
    assert found.memory_mb == pytest.approx(sizes.PROCESS_MB + bytes_held / 1e6)
    assert found.disk_mb == pytest.approx(400.0, rel=1e-3)  # one file of weights, four bytes each
    assert sizes.footprint(job, {("mini", "s", "a"): 7.0}).memory_mb == 7.0


@pytest.mark.parametrize("count", [2, 3, 5, 20])
def test_the_range_from_few_records_contains_a_further_one_in_four_of_five_cases(count: int) -> None:
    """The plain standard deviation of three records contains a further one in two of three cases."""
    rng = np.random.default_rng(3)
    logs = rng.normal(0.0, 0.5, (4000, count + 1))
    middle, further = logs[:, :-1].mean(axis=1), logs[:, -1]
    spreads = np.array([_log_spread(list(np.exp(one))) for one in logs[:, :-1]])
    plain = logs[:, :-1].std(axis=1, ddof=1)
    inside, before = (np.mean(np.abs(further - middle) <= QUANTILE * one) for one in (spreads, plain))
    assert inside == pytest.approx(0.8, abs=0.025)
    assert before < 0.68 or count > 3
