"""Corruption error: the definition by a slow loop, what it is relative to itself, and what it refuses."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relearn.measures.corruption_error import mean_corruption_accuracy, mean_corruption_error

fractions = st.floats(0.01, 1.0)
tables = st.dictionaries(
    st.sampled_from("abcdef"), st.lists(fractions, min_size=5, max_size=5), min_size=1, max_size=6
)


@given(tables)
def test_the_mean_weighs_every_corruption_alike(table):
    total = 0.0
    for row in table.values():
        total += sum(row) / 5
    assert mean_corruption_accuracy(table) == pytest.approx(total / len(table))


def test_a_corruption_with_fewer_severities_weighs_the_same():
    assert mean_corruption_accuracy({"a": [1.0], "b": [0.0, 0.0, 0.0, 0.0]}) == 0.5


@given(tables, st.floats(0.1, 1.0))
def test_mce_is_one_relative_to_itself_and_scales_with_the_errors(table, factor):
    assert mean_corruption_error(table, table) == pytest.approx(1)
    less = {name: [factor * value for value in row] for name, row in table.items()}
    assert mean_corruption_error(less, table) == pytest.approx(factor)


def test_mce_divides_sums_over_severities_corruption_by_corruption():
    errors, reference = {"a": [0.1, 0.3], "b": [0.5, 0.5]}, {"a": [0.2, 0.2], "b": [0.25, 0.25]}
    assert mean_corruption_error(errors, reference) == pytest.approx((0.4 / 0.4 + 1.0 / 0.5) / 2)
    relative = mean_corruption_error(errors, reference, clean=0.1, reference_clean=0.05)
    assert relative == pytest.approx((0.2 / 0.3 + 0.8 / 0.4) / 2)


@pytest.mark.parametrize(
    ("errors", "reference", "keys", "says"),
    [
        ({"a": [0.1]}, {"b": [0.1]}, {}, "only one of network and reference has a, b"),
        ({"a": [0.1]}, {"a": [0.1, 0.2]}, {}, "a: 1 severities, the reference has 2"),
        ({"a": [0.1]}, {"a": [0.0]}, {}, "a positive one is needed"),
        ({"a": [0.1]}, {"a": [0.3]}, {"clean": 0.1}, "give both"),
        ({"a": [10.0]}, {"a": [0.3]}, {}, "fractions 0 to 1"),
        ({}, {}, {}, "no corruptions"),
        ({"a": []}, {"a": []}, {}, "no severities"),
    ],
)
def test_what_has_no_meaning_is_refused(errors, reference, keys, says):
    with pytest.raises(ValueError, match=says):
        mean_corruption_error(errors, reference, **keys)
