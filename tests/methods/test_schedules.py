"""Learning rates over time: fixed points, warm-up, what is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relearn.methods.schedules import SCHEDULES, learning_rate


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


@given(schedule=st.sampled_from(SCHEDULES), warmup=st.integers(1, 20), more=st.integers(1, 50))
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


def test_unknown_schedule_names_what_is_allowed():
    with pytest.raises(ValueError, match="found 'square', allowed are cosine, step, constant, linear"):
        learning_rate(1.0, "square", 0, 1)
    with pytest.raises(ValueError, match="warmup_steps: found -1"):
        learning_rate(1.0, "cosine", 0, 1, (), -1)
