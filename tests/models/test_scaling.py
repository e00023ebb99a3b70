"""Factor 1 is the published network; smaller factors shrink in step and never to nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relearn.models.scaling import LEAST_CHANNELS, repeats, scaled

counts = st.integers(1, 4096)
factors = st.floats(0.01, 4.0)


@given(counts)
def test_factor_one_changes_nothing(count):
    assert scaled(count, 1.0) == count
    assert repeats(count, 1.0) == count


@given(counts, factors)
def test_result_is_the_nearest_integer_above_the_floor(count, factor):
    channels, blocks = scaled(count, factor), repeats(count, factor)
    assert channels >= min(count, LEAST_CHANNELS)
    assert blocks >= 1
    assert abs(channels - count * factor) <= 0.5 or channels == min(count, LEAST_CHANNELS)
    assert abs(blocks - count * factor) <= 0.5 or blocks == 1


@given(counts, factors, factors)
def test_a_larger_factor_never_gives_less(count, one, other):
    low, high = sorted((one, other))
    assert scaled(count, low) <= scaled(count, high)
    assert repeats(count, low) <= repeats(count, high)


def test_half_is_rounded_up_not_to_even():
    assert [scaled(count, 0.5) for count in (9, 11, 13)] == [5, 6, 7]
    assert [repeats(count, 0.5) for count in (1, 3, 5)] == [1, 2, 3]


@pytest.mark.parametrize("count", [1, 2, 3])
def test_layers_published_below_the_floor_stay_as_published(count):
    assert scaled(count, 0.1) == count
