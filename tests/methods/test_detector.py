"""What the defences share: parameters, shares, and how features and labels are taken in."""

import math
from decimal import Decimal

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from relearn.methods import DEFENCES, load
from relearn.methods.detector import Detector, as_features, as_labels, nearest_of_row, share_of
from relearn.testing import DefenceContract


@given(st.integers(0, 99_999), st.integers(0, 10_000))
def test_a_share_is_that_of_the_decimal_number(units, count):
    fraction = units / 100_000
    exact = Decimal(units) * count / 100_000
    assert share_of(fraction, count) == math.floor(exact)
    assert share_of(fraction, count, "ceil") == math.ceil(exact)


def test_where_floats_alone_would_be_one_off():
    assert share_of(0.29, 100) == 29 != math.floor(0.29 * 100)
    assert share_of(0.07, 100, "ceil") == 7 != math.ceil(0.07 * 100)


class Stub(Detector):
    def __init__(self, first=1, second="a"):
        self.first = first
        self.second = second

    def _keep(self, X, y, member):
        return y == member


def test_parameters_follow_the_constructor():
    stub = Stub(5)
    assert stub.get_params() == {"first": 5, "second": "a"} == stub.get_params(deep=False)
    assert stub.set_params(second="b") is stub and stub.second == "b"
    assert repr(stub) == "Stub(first=5, second='b')"
    with pytest.raises(ValueError, match="Stub has no parameter 'third'; allowed: first, second"):
        stub.set_params(third=0)


def test_a_set_of_a_stack_knows_its_place_and_labels_are_codes():
    found = Stub().fit_predict(np.zeros((2, 3, 1)), [10, 5, 10])
    np.testing.assert_array_equal(found, [[-1, 1, -1], [1, -1, 1]])


@pytest.mark.parametrize(
    ("given_", "dtype"),
    [
        (np.zeros((2, 2), np.int32), torch.float64),
        (np.zeros((2, 2), np.float16), torch.float32),
        (np.zeros((2, 2), np.float32), torch.float32),
        (torch.zeros(2, 2, dtype=torch.bfloat16), torch.float32),
        (torch.zeros(2, 2, dtype=torch.uint8), torch.float64),
        ([[0.0, 1.0], [2.0, 3.0]], torch.float64),
    ],
)
def test_features_are_widened(given_, dtype):
    assert as_features(given_).dtype == dtype


def test_arrays_that_may_not_be_written_are_taken():
    array = np.zeros((3, 2))
    array.flags.writeable = False
    assert as_features(array).shape == (3, 2)
    assert as_features(np.asfortranarray(np.ones((3, 2)))[::-1]).shape == (3, 2)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_features_that_are_not_finite_are_refused_by_row(value):
    X = np.zeros((20, 2))
    X[[3, 11], 1] = value
    with pytest.raises(ValueError, match="X has NaN or infinite features in rows 3, 11; all"):
        as_features(X)
    X[:, 0] = value
    with pytest.raises(ValueError, match="rows 0, 1, 2, 3, 4 and 15 more"):
        as_features(torch.from_numpy(X))
    with pytest.raises(ValueError, match=r"rows \(1, 0\)"):
        as_features(np.array([[[0.0]], [[value]]]))


def test_large_but_finite_features_pass():
    assert as_features(np.full((9, 2), 3e38, np.float32)).shape == (9, 2)


@pytest.mark.parametrize("shape", [(3,), (1, 2, 3, 4), (3, 0)])
def test_shapes_that_are_no_sets_are_refused(shape):
    with pytest.raises(ValueError, match=r"allowed: \(n, d\) or a stack"):
        as_features(np.zeros(shape))


@pytest.mark.parametrize("given_", [np.ones((3, 2)) * 1j, torch.ones(3, 2, dtype=torch.complex64)])
def test_complex_features_are_refused(given_):
    with pytest.raises(ValueError, match=r"X has dtype torch\.complex"):
        as_features(given_)


def test_labels_become_codes():
    X = torch.zeros(4, 1)
    np.testing.assert_array_equal(as_labels(["b", "a", "b", "c"], X), [1, 0, 1, 2])
    np.testing.assert_array_equal(as_labels(torch.tensor([-7, 300, -7, 5]), X), [0, 2, 0, 1])
    assert as_labels([1, 2, 3, 4], torch.zeros(5, 4, 1)).shape == (5, 4)


@pytest.mark.parametrize("y", [[1, 2, 3], [[1, 2, 3, 4]], 5])
def test_labels_that_do_not_fit_are_refused(y):
    with pytest.raises(ValueError, match=r"allowed for y: \(4,\)"):
        as_labels(y, torch.zeros(4, 1))
    with pytest.raises(ValueError, match=r"allowed for y: \(2, 4\) or \(4,\)"):
        as_labels([1, 2], torch.zeros(2, 4, 1))


def test_labels_that_are_nan_are_refused():
    with pytest.raises(ValueError, match="NaN labels"):
        as_labels([0.0, np.nan], torch.zeros(2, 1))
    with pytest.raises(ValueError, match="NaN labels"):
        as_labels(np.array(["cat", np.nan, np.nan], dtype=object)[1:], torch.zeros(2, 1))


def test_of_a_row_the_nearest_are_taken_and_ties_go_to_the_smaller_index():
    distance = torch.tensor([[0.3, 0.1, 0.2, 0.1 + 1e-9, 0.2 - 1e-9]], dtype=torch.float64)
    tie = torch.tensor([1e-6], dtype=torch.float64)
    assert nearest_of_row(distance, 1, tie).nonzero()[:, 1].tolist() == [1]
    assert nearest_of_row(distance, 3, tie).nonzero()[:, 1].tolist() == [1, 2, 3]
    without = nearest_of_row(distance, 3, 0 * tie)  # the nearer one of the two
    assert without.nonzero()[:, 1].tolist() == [1, 3, 4]


# For 60 points; a defence that is not named here has its defaults.
ARGUMENTS = {
    "deep_knn": {"k": 5},
    "l2_outliers": {"fraction": 0.2},
    "one_class_svm": {"nu": 0.2},
    "random_eviction": {"fraction": 0.2, "seed": 3},
}


def contract_of(name: str) -> type[DefenceContract]:
    class Contract(DefenceContract):
        draws = name == "random_eviction"
        accepts_no_points = name != "deep_knn"

        def make(self):
            return load(DEFENCES, name)(**ARGUMENTS.get(name, {}))

    return Contract


globals().update({f"Test_{name}": contract_of(name) for name in DEFENCES})


def test_arguments_are_those_of_defences():
    assert set(ARGUMENTS) <= set(DEFENCES)


def test_deep_knn_has_no_allowed_k_for_an_empty_set():
    with pytest.raises(ValueError, match="k is 5; allowed: 1 to 0"):
        load(DEFENCES, "deep_knn")(k=5).fit_predict(np.zeros((0, 4)), [])
