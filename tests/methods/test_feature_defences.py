"""Spectral signatures and activation clustering: a slow truth, planted poisons with a control, invariances."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from relearn.methods.activation_clustering import ActivationClustering, principal_components, two_means
from relearn.methods.spectral_signatures import SpectralSignatures, spectral_scores

RNG = np.random.default_rng(0)


def planted(shift: float, poisons: int = 5, n: int = 50, d: int = 20) -> tuple[np.ndarray, np.ndarray]:
    """Two classes of n points; the first ``poisons`` points of class 0 are shifted along one direction."""
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(2 * n, d)), np.repeat([0, 1], n)
    X[n:] += 4
    X[:poisons, 0] += shift
    return X, y


def test_scores_are_those_of_an_eigendecomposition_in_numpy() -> None:
    X = RNG.normal(size=(30, 7)) * np.arange(1, 8)
    centred = X - X.mean(axis=0)
    vector = np.linalg.eigh(centred.T @ centred)[1][:, -1]
    scores, _ = spectral_scores(torch.from_numpy(X))
    np.testing.assert_allclose(scores, (centred @ vector) ** 2, rtol=1e-9)


def test_equal_singular_values_give_the_norm_in_their_space() -> None:
    """Four points on the axes: both directions are top, whatever basis is chosen."""
    cross = torch.tensor([[1.0, 0], [-1, 0], [0, 1], [0, -1]])
    turned = cross @ torch.tensor([[0.6, 0.8], [-0.8, 0.6]])
    for points in (cross, turned):
        torch.testing.assert_close(spectral_scores(points)[0], torch.ones(4, dtype=torch.float64))
    stretched = cross * torch.tensor([1.0, 2.0])  # a control: one direction is larger
    torch.testing.assert_close(
        spectral_scores(stretched)[0], torch.tensor([0.0, 0, 4, 4], dtype=torch.float64)
    )


@pytest.mark.parametrize("defence", [SpectralSignatures(0.1), ActivationClustering()])
def test_planted_poisons_are_found_and_hidden_ones_are_not(
    defence: SpectralSignatures | ActivationClustering,
) -> None:
    kept = defence.fit_predict(*planted(30.0)) == 1
    assert not kept[:5].any() and kept[5:50].all()
    hidden = defence.fit_predict(*planted(0.0)) == 1
    assert hidden[:5].any()


@pytest.mark.parametrize("defence", [SpectralSignatures(0.2), ActivationClustering()])
def test_a_rotation_a_shift_and_another_order_change_nothing(
    defence: SpectralSignatures | ActivationClustering,
) -> None:
    X, y = planted(30.0)
    kept = defence.fit_predict(X, y)
    turn = np.linalg.qr(RNG.normal(size=(X.shape[1],) * 2))[0]
    np.testing.assert_array_equal(defence.fit_predict(X @ turn + 7, y), kept)
    order = RNG.permutation(len(y))
    np.testing.assert_array_equal(defence.fit_predict(X[order], y[order]), kept[order])


def test_two_means_finds_the_best_of_all_splits_of_separated_points() -> None:
    points = np.concatenate([RNG.normal(size=(5, 2)), RNG.normal(size=(4, 2)) + 9])

    def cost(second: np.ndarray) -> float:
        parts = (points[~second], points[second])
        return sum(((part - part.mean(axis=0)) ** 2).sum() for part in parts if len(part))

    best = min((np.array(one) for one in itertools.product([False, True], repeat=9)), key=cost)
    found = two_means(torch.from_numpy(points)).numpy()
    assert (found == best).all() or (found == ~best).all()


def test_components_keep_distances_and_rounding_is_no_direction() -> None:
    X = torch.from_numpy(RNG.normal(size=(12, 5)))
    torch.testing.assert_close(
        torch.cdist(principal_components(X, 5), principal_components(X, 5)), torch.cdist(X, X)
    )
    same = torch.full((12, 5), 0.1, dtype=torch.float32)
    assert (principal_components(same, 3) == 0).all()
    assert (ActivationClustering().fit_predict(same, np.zeros(12)) == 1).all()


def test_the_smaller_cluster_stays_if_it_is_large_and_goes_if_it_is_small() -> None:
    two = np.concatenate([np.zeros((6, 2)), np.full((4, 2), 5.0)])
    assert (ActivationClustering(threshold=0.35).fit_predict(two, np.zeros(10)) == 1).all()
    assert (ActivationClustering(threshold=0.5).fit_predict(two, np.zeros(10)) == [1] * 6 + [-1] * 4).all()


def test_arguments_that_are_out_of_range_are_refused() -> None:
    X, y = planted(1.0)
    with pytest.raises(ValueError, match="components is 0; allowed: an integer >= 1"):
        ActivationClustering(components=0).fit_predict(X, y)
    with pytest.raises(ValueError, match=r"threshold is 0\.6; allowed: 0 < threshold <= 0.5"):
        ActivationClustering(threshold=0.6).fit_predict(X, y)
    with pytest.raises(ValueError, match="fraction is 1; allowed"):
        SpectralSignatures(1).fit_predict(X, y)
