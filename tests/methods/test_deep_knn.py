"""Deep k-NN: algorithm 2 by hand, scikit-learn's vote, the k > 2 n rule, sweeps, stacks, replication."""

from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.neighbors import KNeighborsClassifier, NearestNeighbors

from relearn.methods.deep_knn import DeepKNN, replicate


def by_hand(X, y, k, *, include_self=False, label_ties="keep"):
    """Algorithm 2, a point at a time, in float64."""
    X = np.asarray(X, dtype=np.float64)
    answer = []
    for i in range(len(X)):
        squared = ((X - X[i]) ** 2).sum(1)
        squared[i] = -1 if include_self else np.inf
        votes = Counter(y[j] for j in np.argsort(squared, kind="stable")[:k])
        modes = [label for label, count in votes.items() if count == max(votes.values())]
        if label_ties == "smallest":
            modes = [min(modes)]
        answer.append(1 if y[i] in modes else -1)
    return np.array(answer)


@st.composite
def sets(draw, lattice):
    n = draw(st.integers(2, 40))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    shape = (n, draw(st.integers(1, 3)))
    X = rng.integers(0, 3, size=shape).astype(float) if lattice else rng.normal(size=shape)
    return X, rng.integers(0, draw(st.integers(1, 4)), size=n)


@settings(max_examples=60)
@given(st.data())
def test_equals_the_algorithm_by_hand(data):
    """On the lattice nearly all distances and many votes tie."""
    X, y = data.draw(sets(lattice=data.draw(st.booleans())))
    include_self = data.draw(st.booleans())
    k = data.draw(st.integers(1, len(y) if include_self else len(y) - 1))
    block = data.draw(st.one_of(st.none(), st.integers(1, len(y))))
    for label_ties in ("keep", "smallest"):
        found = DeepKNN(k, include_self, label_ties, block).fit_predict(X, y)
        np.testing.assert_array_equal(
            found, by_hand(X, y, k, include_self=include_self, label_ties=label_ties)
        )


def blobs(seed, n=300, classes=4, d=16, apart=1.5):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, n)
    return (rng.normal(size=(n, d)) + apart * np.eye(classes, d)[y]).astype(np.float32), y


@pytest.mark.parametrize("k", [1, 2, 5, 50, 300])
def test_the_published_rule_is_scikit_learns_classifier_on_its_own_training_set(k):
    X, y = blobs(k)
    voted = KNeighborsClassifier(k, algorithm="brute").fit(X, y).predict(X)
    found = DeepKNN(k, include_self=True, label_ties="smallest").fit_predict(X, y)
    np.testing.assert_array_equal(found == 1, voted == y)
    assert k == 1 or (found == -1).any()


@pytest.mark.parametrize("k", [1, 2, 5, 50, 299])
def test_without_the_point_itself_it_is_scikit_learns_leave_one_out_neighbourhood(k):
    X, y = blobs(100 + k)
    around = y[NearestNeighbors(algorithm="brute").fit(X).kneighbors(n_neighbors=k, return_distance=False)]
    votes = (around[:, :, None] == np.arange(4)).sum(1)
    found = DeepKNN(k).fit_predict(X, y)
    np.testing.assert_array_equal(found == 1, votes[np.arange(len(y)), y] == votes.max(1))
    assert (found == -1).any()


def poisoned(poisons=5, n=50, d=8):
    """Two classes far apart; the last points bear label 0 at the edge of class 1, in a heap of their own."""
    rng = np.random.default_rng(0)
    clean = rng.normal(size=(2 * n, d)) + 20 * np.repeat([[0.0], [1.0]], n, axis=0)
    heap = rng.normal(size=(poisons, d)) * 0.01 + 20 + 5 * np.eye(d)[0]
    return np.concatenate([clean, heap]), np.concatenate([np.repeat([0, 1], n), np.zeros(poisons, int)])


@pytest.mark.parametrize("include_self", [False, True])
def test_poisons_go_exactly_when_k_outgrows_them(include_self):
    """k > 2 n_poison with the point itself; without it a poison has one ally less: k > 2 (n_poison - 1)."""
    X, y = poisoned()
    is_poison = np.arange(len(y)) >= 100
    limit = 2 * 5 if include_self else 2 * 4
    for k in range(1, 50):
        found = DeepKNN(k, include_self).fit_predict(X, y)
        assert (found[is_poison] == (-1 if k > limit else 1)).all(), k
        assert (found[~is_poison] == 1).all()


@settings(max_examples=30)
@given(st.data())
def test_a_sweep_is_a_fit_for_each_k(data):
    X, y = data.draw(sets(lattice=data.draw(st.booleans())))
    include_self = data.draw(st.booleans())
    most = len(y) if include_self else len(y) - 1
    ks = data.draw(st.lists(st.integers(1, most), min_size=1, max_size=6))
    detector = DeepKNN(include_self=include_self, block=data.draw(st.integers(1, len(y))))
    found = detector.sweep(X, y, ks)
    assert found.shape == (len(ks), len(y)) and found.dtype == np.int64
    for row, k in zip(found, ks):
        np.testing.assert_array_equal(row, DeepKNN(k, include_self).fit_predict(X, y))


def test_a_sweep_over_a_stack_has_a_row_for_each_set_and_k():
    stack = np.stack([blobs(seed, n=60)[0] for seed in range(3)])
    labels = np.stack([blobs(seed, n=60)[1] for seed in range(3)])
    ks = [7, 2, 59]
    found = DeepKNN().sweep(stack, labels, ks)
    assert found.shape == (3, 3, 60)
    for t in range(3):
        np.testing.assert_array_equal(found[t], DeepKNN().sweep(stack[t], labels[t], ks))
    np.testing.assert_array_equal(
        DeepKNN().sweep(stack, labels[0], ks)[1], DeepKNN().sweep(stack[1], labels[0], ks)
    )
    assert DeepKNN().sweep(stack[:0], labels[0], ks).shape == (0, 3, 60)


@settings(max_examples=20)
@given(st.integers(0, 2**32), st.integers(1, 39))
def test_order_labels_and_motions_do_not_matter(seed, k):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(40, 3)), rng.integers(0, 3, 40)
    kept = DeepKNN(k).fit_predict(X, y)
    order = rng.permutation(40)
    np.testing.assert_array_equal(DeepKNN(k).fit_predict(X[order], y[order]), kept[order])
    renamed = np.array(["frog", "automobile", "ship"])[y]
    np.testing.assert_array_equal(DeepKNN(k).fit_predict(X, renamed), kept)
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    np.testing.assert_array_equal(DeepKNN(k).fit_predict(3.7 * X @ turn + 100, y), kept)


def test_with_all_others_as_neighbours_the_largest_class_stays():
    """k = n - 1: a point of the class of 5 sees 4 of its own against 4 of the other, and ties keep it."""
    X = np.random.default_rng(0).normal(size=(9, 2))
    np.testing.assert_array_equal(DeepKNN(8).fit_predict(X, [0] * 5 + [1] * 4), [1] * 5 + [-1] * 4)
    np.testing.assert_array_equal(DeepKNN(9, True).fit_predict(X, [0] * 5 + [1] * 4), [1] * 5 + [-1] * 4)
    np.testing.assert_array_equal(DeepKNN(8).fit_predict(X, [3] * 9), [1] * 9)


def test_a_class_of_one_point_goes_and_so_do_all_poison_or_none():
    X, y = poisoned(poisons=1)
    assert DeepKNN(5).fit_predict(X, y)[-1] == -1
    assert (DeepKNN(5).fit_predict(X[:100], y[:100]) == 1).all()  # no poison: nothing to drop
    assert (DeepKNN(5).fit_predict(X, np.zeros(101)) == 1).all()


@pytest.mark.parametrize(
    ("detector", "match"),
    [
        (DeepKNN(10), "k is 10; allowed: 1 to 9"),
        (DeepKNN(11, include_self=True), "k is 11; allowed: 1 to 10"),
        (DeepKNN(0), "k is 0"),
        (DeepKNN(-1), "k is -1"),
        (DeepKNN(3, label_ties="largest"), "label_ties is 'largest'; allowed: keep, smallest"),
        (DeepKNN(3, block=-2), "block is -2"),
        (DeepKNN(3, block=2.5), r"block is 2\.5; allowed: .* a whole number"),
        (DeepKNN("3"), "k is '3'; allowed: a whole number"),
    ],
)
def test_wrong_parameters_are_refused_when_used_not_when_stored(detector, match):
    with pytest.raises((TypeError, ValueError), match=match):
        detector.fit_predict(np.random.default_rng(0).normal(size=(10, 2)), np.arange(10) % 2)


def test_a_sweep_refuses_any_wrong_k_before_it_searches():
    X, y = blobs(0, n=20)
    with pytest.raises(ValueError, match="k is 20"):
        DeepKNN().sweep(X, y, [3, 20])
    for ks in ([], 5):
        with pytest.raises(ValueError, match=r"ks is .*; allowed: a list of one k or more"):
            DeepKNN().sweep(X, y, ks)
    np.testing.assert_array_equal(DeepKNN().sweep(X, y, iter([3, 5])), DeepKNN().sweep(X, y, [3, 5]))
    with pytest.raises(TypeError, match=r"k is 2\.5"):
        DeepKNN().sweep(X, y, [2.5])


@settings(max_examples=50)
@given(st.lists(st.sampled_from("abcd"), min_size=1, max_size=40), st.booleans())
def test_replication_makes_all_classes_as_large_as_the_largest(labels, random):
    y = np.array(labels)
    indices = replicate(y, np.random.default_rng(0) if random else None)
    sizes = Counter(labels)
    most = max(sizes.values())
    assert Counter(y[indices].tolist()) == dict.fromkeys(sizes, most)
    np.testing.assert_array_equal(indices[: len(y)], np.arange(len(y)))
    # every point of a class stands N / n_c times, rounded down or up
    for index, times in Counter(indices.tolist()).items():
        assert most // sizes[labels[index]] <= times <= -(-most // sizes[labels[index]])
    if not random:
        np.testing.assert_array_equal(indices, replicate(y))
        tiled = {c: np.resize(np.flatnonzero(y == c), most) for c in sizes}  # repeated, cut to N
        assert Counter(indices.tolist()) == Counter(np.concatenate(list(tiled.values())).tolist())


def test_replication_saves_a_small_class_that_plain_votes_drop():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(50, 4)), rng.normal(size=(5, 4)) + 30])
    y = np.repeat([0, 1], [50, 5])
    assert (DeepKNN(20).fit_predict(X, y)[50:] == -1).all()
    indices = replicate(torch.from_numpy(y))
    assert (DeepKNN(20).fit_predict(X[indices], y[indices])[:55] == 1).all()
    assert len(replicate([])) == 0


@pytest.mark.parametrize(
    ("labels", "said"), [([0.0, np.nan], "y: holds NaN"), ([[0, 1], [1, 1]], r"y: shape \(2, 2\)")]
)
def test_labels_that_are_none_are_not_replicated(labels, said):
    for some in (labels, torch.tensor(labels)):
        with pytest.raises(ValueError, match=said):
            replicate(some)
