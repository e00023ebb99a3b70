"""The corrected model: what a forecast rests on, and how its range narrows."""

from __future__ import annotations

import math

import pytest

from relearn.forecast.amount import Amount
from relearn.forecast.correction import QUANTILE, Correction, Forecast, total
from relearn.forecast.evidence import Row
from relearn.forecast.machine import Machine

SLOW = Machine(name="slow", convolutions=10.0, products=10.0, bandwidth=10.0, calls=10.0, start_s=0.0)
ONES = (1.0,) * 5


def row(scale: str, run: str, cpu_s: float, calls: float = 10.0, step: str = "train") -> Row:
    amount = None if calls == 0 else Amount(0.0, 0.0, 0.0, calls)
    return Row(scale, "s", step, "", run, "", cpu_s, cpu_s, 100, "slow", amount)


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
