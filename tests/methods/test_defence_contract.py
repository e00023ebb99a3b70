"""What every defence promises: the habits of an outlier detector, whatever it thinks of the points."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch
from sklearn.base import clone

from relearn.methods import DEFENCES, load

# For 60 points; a defence that is not named here has its defaults.
ARGUMENTS = {
    "deep_knn": {"k": 5},
    "l2_outliers": {"fraction": 0.2},
    "one_class_svm": {"nu": 0.2},
    "random_eviction": {"fraction": 0.2, "seed": 3},
}


@pytest.fixture(params=sorted(DEFENCES))
def name(request):
    return request.param


@pytest.fixture
def defence(name):
    return load(DEFENCES, name)(**ARGUMENTS.get(name, {}))


def points(n=60, d=6, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    return (rng.normal(size=(n, d)) + 2 * np.eye(3, d)[y]).astype(np.float32), y


def test_arguments_are_those_of_defences():
    assert set(ARGUMENTS) <= set(DEFENCES)


def test_answers_one_or_minus_one_for_every_point(defence):
    X, y = points()
    kept = defence.fit_predict(X, y)
    assert isinstance(kept, np.ndarray) and kept.shape == (60,) and kept.dtype == np.int64
    assert set(kept.tolist()) == {1, -1}


def test_is_deterministic_and_leaves_no_trace(defence):
    X, y = points()
    before, parameters, state = (X.copy(), y.copy()), defence.get_params(), str(np.random.get_state())
    torch_state = torch.get_rng_state()
    first = defence.fit_predict(X, y)
    np.testing.assert_array_equal(defence.fit_predict(X, y), first)
    np.testing.assert_array_equal(clone(defence).fit_predict(X, y), first)
    assert (before[0] == X).all() and (y == before[1]).all() and defence.get_params() == parameters
    assert str(np.random.get_state()) == state and torch.equal(torch.get_rng_state(), torch_state)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_leaves_the_callers_features_alone_also_in_a_crowd(defence, dtype):
    X, y = np.repeat(points(n=3)[0].astype(dtype), 40, axis=0), np.arange(120) % 2
    before = X.copy()
    defence.fit_predict(X, y)
    tensor = torch.from_numpy(X)
    defence.fit_predict(tensor, y)
    np.testing.assert_array_equal(X, before)


def test_arrays_and_tensors_give_the_same(defence):
    X, y = points()
    kept = defence.fit_predict(X, y)
    features = torch.from_numpy(X).requires_grad_()
    np.testing.assert_array_equal(defence.fit_predict(features, torch.from_numpy(y)), kept)
    np.testing.assert_array_equal(defence.fit_predict(X.tolist(), y.tolist()), kept)
    np.testing.assert_array_equal(defence.fit_predict(X[:, ::-1][:, ::-1], y), kept)


def test_labels_may_be_anything_that_can_be_told_apart(defence):
    X, y = points()
    kept = defence.fit_predict(X, y)
    for names in (np.array([-5, 17, 1000]), np.array(["cat", "dog", "frog"]), np.array([0.5, 1.5, 2.5])):
        np.testing.assert_array_equal(defence.fit_predict(X, names[y]), kept)


def test_a_stack_is_one_answer_for_each_set(name, defence):
    X, y = np.stack([points(seed=seed)[0] for seed in range(3)]), points()[1]
    kept = defence.fit_predict(X, y)
    assert kept.shape == (3, 60) and kept.dtype == np.int64
    np.testing.assert_array_equal(defence.fit_predict(torch.from_numpy(X), np.stack([y] * 3)), kept)
    for t in range(1 if name == "random_eviction" else 3):  # its sets have draws of their own
        np.testing.assert_array_equal(defence.fit_predict(X[t], y), kept[t])
    assert defence.fit_predict(X[:0], y).shape == (0, 60)


def test_the_constructor_only_stores(name):
    nonsense = {parameter: object() for parameter in load(DEFENCES, name)().get_params()}
    stored = load(DEFENCES, name)(**nonsense)
    assert vars(stored) == nonsense == stored.get_params()


def test_scikit_learns_clone_works(defence):
    copy = clone(defence)
    assert type(copy) is type(defence) and copy is not defence and copy.get_params() == defence.get_params()
    name, value = next(iter(defence.get_params().items()))
    assert copy.set_params(**{name: value}) is copy
    with pytest.raises(ValueError, match="has no parameter 'nonsense'; allowed: "):
        copy.set_params(nonsense=1)


def test_features_that_are_not_finite_are_refused_by_row(defence):
    X, y = points()
    X[[7, 30]] = np.nan
    with pytest.raises(ValueError, match="rows 7, 30"):
        defence.fit_predict(X, y)


def test_labels_that_are_too_few_are_refused(defence):
    X, y = points()
    with pytest.raises(ValueError, match=r"y has shape \(59,\)"):
        defence.fit_predict(X, y[:-1])


def test_an_empty_set(name, defence):
    """Nothing to decide: an empty answer; but Deep k-NN has no k that is allowed."""
    if name == "deep_knn":
        with pytest.raises(ValueError, match="k is 5; allowed: 1 to 0"):
            defence.fit_predict(np.zeros((0, 4)), [])
    else:
        kept = defence.fit_predict(np.zeros((0, 4)), [])
        assert kept.shape == (0,) and kept.dtype == np.int64


def test_a_class_of_one_point_and_a_set_of_one_class(defence):
    X, y = points()
    y[0] = 99
    assert set(defence.fit_predict(X, y).tolist()) <= {1, -1}
    assert (defence.fit_predict(X, np.full(60, 4)) == 1).sum() > 30


def test_constant_features(defence):
    X, y = np.full((60, 4), 0.1, np.float32), points()[1]
    kept = defence.fit_predict(X, y)
    np.testing.assert_array_equal(defence.fit_predict(X + 5, y), kept)
    assert set(kept.tolist()) <= {1, -1}


def test_duplicates_of_one_point_under_many_labels(defence):
    X, y = points()
    X[:12] = X[0]
    np.testing.assert_array_equal(defence.fit_predict(X, y), defence.fit_predict(X.copy(), y))


def test_no_defence_imports_scikit_learn_before_it_is_asked():
    names = ", ".join(target.partition(":")[0] for target in DEFENCES.values())
    asks = (
        f"import sys, {names}; print([m for m in ('sklearn', 'pandas', 'scipy.stats') if m in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", asks], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


@pytest.mark.gpu
def test_a_gpu_gives_the_same(defence):
    X, y = points()
    np.testing.assert_array_equal(
        defence.fit_predict(torch.from_numpy(X).cuda(), torch.from_numpy(y).cuda()), defence.fit_predict(X, y)
    )
