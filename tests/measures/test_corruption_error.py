"""Corruption error: the definition by a slow loop, what it is relative to itself, and what it refuses.

mCE against AlexNet: 1 for AlexNet itself, homogeneous, each corruption weighs as its reference says.
"""

import csv
import math
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from relearn.data.corruptions import NAMES
from relearn.measures.corruption_error import mean_corruption_accuracy, mean_corruption_error
from relearn.measures.imagenet_mce import ALEXNET, imagenet_mce

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


FACTS = Path(os.environ.get("RELEARN_MIRROR", ""), "facts", "alexnet_mce_norm.csv")
SPREAD = (-0.2, -0.1, 0.0, 0.1, 0.2)  # over severities, mean 0


def errors(share: float = 1.0) -> dict[str, list[float]]:
    return {name: [share * mean + one * (1 - mean) for one in SPREAD] for name, mean in ALEXNET.items()}


def test_alexnet_itself_is_1_and_half_its_errors_one_half() -> None:
    assert imagenet_mce(errors()) == pytest.approx(1.0, abs=1e-12)
    assert imagenet_mce(errors(0.5)) == pytest.approx(0.5, abs=1e-12)


def test_a_slow_mean() -> None:
    rng = np.random.default_rng(0)
    drawn = {name: rng.random(5).tolist() for name in ALEXNET}
    slow = math.fsum(np.mean(drawn[name]) / ALEXNET[name] for name in ALEXNET) / 15
    assert imagenet_mce(drawn) == pytest.approx(slow, rel=1e-12)
    plain = float(np.mean(list(drawn.values())))
    assert abs(imagenet_mce(drawn) - plain) > 0.05, "the mean that is not normalised is another number"


def test_an_easy_corruption_weighs_more() -> None:
    """0.1 more error counts 0.1 / (15 E): more on brightness, which AlexNet finds easiest, than on impulse noise."""
    rises = {}
    for name in ("brightness", "impulse_noise"):
        more = errors(0.5)
        more[name] = [value + 0.1 for value in more[name]]
        rises[name] = imagenet_mce(more) - imagenet_mce(errors(0.5))
        assert rises[name] == pytest.approx(0.1 / (15 * ALEXNET[name]), rel=1e-9)
    assert rises["brightness"] > rises["impulse_noise"]


@pytest.mark.skipif(not FACTS.is_file(), reason="RELEARN_MIRROR names no folder with the published errors")
def test_the_errors_are_the_published_ones() -> None:
    with FACTS.open(newline="") as file:
        assert {name: float(value) for name, value in list(csv.reader(file))[1:]} == ALEXNET


def test_the_corruptions_are_those_of_the_generator() -> None:
    assert tuple(ALEXNET) == NAMES and all(0 < value < 1 for value in ALEXNET.values())


def test_wrong_arguments_are_refused() -> None:
    for change, said in (
        ({"fog": [0.5] * 4}, "fog: 4 severities; allowed: 5"),
        ({"fog": [0.5] * 4 + [1.5]}, "fog: 1.5; allowed: fractions"),
        ({"speckle_noise": [0.5] * 5}, "corruption 'speckle_noise' is missing or unknown"),
    ):
        with pytest.raises(ValueError, match=said):
            imagenet_mce(errors() | change)
    less = errors()
    del less["snow"]
    with pytest.raises(ValueError, match="corruption 'snow' is missing or unknown"):
        imagenet_mce(less)
