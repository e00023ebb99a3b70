"""Learning rates over time: fixed points, warm-up, what is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relearn.methods.schedules import SCHEDULES, learning_rate, vaswani_peak

OF_WHAT_IS_LEFT = [name for name in SCHEDULES if name != "inverse_sqrt"]


@pytest.mark.parametrize("step,expected", [(0, 0.4), (50, 0.2), (100, 0.0)])
@pytest.mark.parametrize("schedule", ["cosine", "linear"])
def test_cosine_and_linear_pass_their_three_fixed_points(schedule, step, expected):
    assert learning_rate(0.4, schedule, step, 100) == pytest.approx(expected)


def test_cosine_and_linear_differ_between_their_fixed_points():
    """At a quarter: (1 + cos 45 degrees) / 2 and 3 / 4."""
    assert learning_rate(1.0, "cosine", 25, 100) == pytest.approx((1 + 0.5**0.5) / 2)
    assert learning_rate(1.0, "linear", 25, 100) == pytest.approx(0.75)


def test_step_schedule_divides_by_ten_at_each_milestone():
    rates = [learning_rate(1.0, "step", t, 10, (4, 7)) for t in range(10)]
    assert rates == pytest.approx([1.0] * 4 + [0.1] * 3 + [0.01] * 3)


@given(schedule=st.sampled_from(OF_WHAT_IS_LEFT), warmup=st.integers(1, 20), more=st.integers(1, 50))
def test_warm_up_is_linear_and_what_follows_is_the_schedule_of_what_is_left(schedule, warmup, more):
    rates = [learning_rate(0.3, schedule, t, warmup + more, (), warmup) for t in range(warmup + more + 1)]
    assert rates[:warmup] == pytest.approx([0.3 * (t + 1) / warmup for t in range(warmup)])
    assert rates[warmup:] == pytest.approx([learning_rate(0.3, schedule, t, more) for t in range(more + 1)])
    assert rates[warmup - 1] == pytest.approx(0.3)


def test_milestones_count_from_the_very_beginning():
    assert learning_rate(1.0, "step", 6, 10, (6,), 5) == pytest.approx(0.1)
    assert learning_rate(1.0, "step", 5, 10, (6,), 5) == pytest.approx(1.0)


def test_the_last_value_stays():
    assert [learning_rate(1.0, name, 200, 100) for name in ("cosine", "linear", "constant")] == [
        0.0,
        0.0,
        1.0,
    ]


@given(gamma=st.floats(0.1, 3.0), dim=st.integers(1, 1024), warmup=st.integers(1, 50), t=st.integers(1, 500))
def test_inverse_sqrt_is_the_published_formula_from_its_first_step(gamma, dim, warmup, t):
    printed = gamma / dim**0.5 * min(t**-0.5, t * warmup**-1.5)
    peak = vaswani_peak(gamma, dim, warmup)
    for steps in (1, 100):  # the schedule's length plays no part
        assert learning_rate(peak, "inverse_sqrt", t - 1, steps, (), warmup) == pytest.approx(
            printed, rel=1e-12
        )


def test_inverse_sqrt_peaks_at_the_end_of_its_warm_up_with_gamma_in_the_peak():
    rates = [learning_rate(0.2, "inverse_sqrt", t, 40, (), 9) for t in range(40)]
    assert max(rates) == rates[8] == pytest.approx(0.2) and rates[35] == pytest.approx(0.1)
    assert vaswani_peak(2.0, 16, 25) == pytest.approx(0.1)
    assert [learning_rate(1.0, "inverse_sqrt", t, 9) for t in (0, 3)] == pytest.approx([1.0, 0.5])


@pytest.mark.parametrize("key", ["gamma", "dim", "warmup_steps"])
def test_a_peak_needs_positive_numbers(key):
    with pytest.raises(ValueError, match=f"{key}: found 0, allowed is more than 0"):
        vaswani_peak(**{"gamma": 1.0, "dim": 4, "warmup_steps": 4, key: 0})


def test_unknown_schedule_names_what_is_allowed():
    with pytest.raises(
        ValueError, match="found 'square', allowed are cosine, step, constant, linear, inverse_sqrt"
    ):
        learning_rate(1.0, "square", 0, 1)
    with pytest.raises(ValueError, match="warmup_steps: found -1"):
        learning_rate(1.0, "cosine", 0, 1, (), -1)
