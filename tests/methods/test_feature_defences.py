"""Spectral signatures, activation clustering, EPIC: a slow truth, planted poisons with a control, invariances."""

import itertools

import numpy as np
import pytest
import torch

from relearn.methods.activation_clustering import ActivationClustering, principal_components, two_means
from relearn.methods.epic import Epic, isolated, medoids, residuals, standardised
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
    torch.testing.assert_close(spectral_scores(cross)[0], torch.ones(4, dtype=torch.float64))
    for angle in np.arange(20):  # of equal scores the last goes, whatever rounding does far from the origin
        turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
        kept = SpectralSignatures(0.25).fit_predict(cross.double().numpy() @ turn + 1000, np.zeros(4))
        assert kept.tolist() == [1, 1, 1, -1]
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
    crowd = torch.randn(200, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    own = two_means(crowd)  # not separated; each is nearest to the mean of its own
    gaps = [(crowd - crowd[side].mean(dim=0)).norm(dim=1) for side in (~own, own)]
    assert torch.equal(gaps[1] < gaps[0], own)
    assert two_means(torch.arange(3.0)[:, None]).tolist() == [
        False,
        False,
        True,
    ]  # as near to both: the first


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
    for threshold in (0.35, 0.4):
        assert (ActivationClustering(threshold=threshold).fit_predict(two, np.zeros(10)) == 1).all()
    assert (ActivationClustering(threshold=0.5).fit_predict(two, np.zeros(10)) == [1] * 6 + [-1] * 4).all()


def test_arguments_that_are_out_of_range_are_refused() -> None:
    X, y = planted(1.0)
    with pytest.raises(ValueError, match="components is 0; allowed: an integer >= 1"):
        ActivationClustering(components=0).fit_predict(X, y)
    with pytest.raises(ValueError, match=r"threshold is 0\.6; allowed: 0 < threshold <= 0.5"):
        ActivationClustering(threshold=0.6).fit_predict(X, y)
    with pytest.raises(ValueError, match="fraction is 1; allowed"):
        SpectralSignatures(1).fit_predict(X, y)
    with pytest.raises(ValueError, match=r"rounds is 0; allowed: an integer >= 1"):
        Epic(rounds=0).fit_predict(X, y)
    with pytest.raises(ValueError, match=r"steps is 1\.5; allowed: an integer >= 1"):
        Epic(steps=1.5).fit_predict(X, y)
    with pytest.raises(ValueError, match="fraction is 1; allowed"):
        Epic(fraction=1).fit_predict(X, y)


def distances_of(points: np.ndarray) -> torch.Tensor:
    return torch.cdist(torch.from_numpy(points), torch.from_numpy(points))


def cost(distances: torch.Tensor, chosen: tuple[int, ...]) -> float:
    """What facility location minimises: the distances of all points to the nearest chosen one."""
    return float(distances[:, list(chosen)].min(dim=1).values.sum())


@pytest.mark.parametrize("seed", range(6))
def test_medoids_against_all_choices(seed: int) -> None:
    """Each step is the best addition; all steps save at least 1 - 1/e of what the best choice saves of the first bound."""
    points = np.random.default_rng(seed).normal(size=(9, 2))
    distances = distances_of(points)
    found = medoids(distances, 4).tolist()
    for step in range(1, 5):
        before = tuple(found[: step - 1])
        best = min(cost(distances, (*before, one)) for one in range(9))
        assert cost(distances, tuple(found[:step])) == pytest.approx(best, abs=1e-12)
    bound = 9 * float(distances.max())
    optimum = min(cost(distances, one) for one in itertools.combinations(range(9), 4))
    assert bound - cost(distances, tuple(found)) >= (1 - np.exp(-1)) * (bound - optimum)


def test_medoids_of_clusters_are_one_of_each_like_the_best_of_all_choices() -> None:
    corners = np.array([[0.0, 0], [9, 0], [0, 9]])
    points = np.concatenate([c + 0.3 * RNG.normal(size=(4, 2)) for c in corners])
    distances = distances_of(points)
    costs = {one: cost(distances, one) for one in itertools.combinations(range(12), 3)}
    found, best = tuple(sorted(medoids(distances, 3).tolist())), min(costs, key=lambda one: costs[one])
    assert [one // 4 for one in found] == [one // 4 for one in best] == [0, 1, 2]
    elsewhere = min(value for one, value in costs.items() if {i // 4 for i in one} != {0, 1, 2})
    assert costs[best] <= costs[found] < 2 * costs[best] < elsewhere
    assert len(medoids(distances_of(np.repeat(corners, 5, axis=0)), 7)) == 3  # all points lie on three


def test_a_medoid_is_isolated_if_it_represents_itself_alone() -> None:
    points = np.array([[0.0, 0], [0.1, 0], [0.2, 0], [5, 5], [0.1, 0.1]])
    assert isolated(distances_of(points), 2).tolist() == [False, False, False, True, False]
    assert not isolated(distances_of(points), 1).any()  # one medoid represents all
    beside = np.concatenate([points, [[5.1, 5]]])
    assert not isolated(distances_of(beside), 2).any()  # a control: two of them represent each other


def test_residuals_are_the_gradient_of_the_loss() -> None:
    points, labels = torch.from_numpy(RNG.normal(size=(6, 4))), torch.tensor([0, 1, 2, 2, 1, 0])
    weight = torch.from_numpy(RNG.normal(size=(3, 4))).requires_grad_()
    loss = torch.nn.functional.cross_entropy(points @ weight.T, labels)
    (gradient,) = torch.autograd.grad(loss, weight)
    torch.testing.assert_close(residuals(points, labels, weight.detach()).T @ points / 6, gradient)


@pytest.mark.parametrize(("rounds", "steps"), [(1, 1), (1, 15), (3, 5)])
def test_epic_equals_its_definition_in_loops(rounds: int, steps: int) -> None:
    X, y = np.random.default_rng(0).normal(size=(36, 5)), np.arange(36) % 3
    mean, left = X.mean(axis=0), [*range(36)]
    scale = np.sqrt(((X - mean) ** 2).sum(axis=1).mean())
    phi = np.concatenate([(X - mean) / scale, np.ones((36, 1))], axis=1)
    W, hot = np.zeros((3, 6)), np.eye(3)[y]

    def gradients() -> np.ndarray:
        grown = np.exp(phi @ W.T)
        return grown / grown.sum(axis=1, keepdims=True) - hot

    for _ in range(rounds):
        for _ in range(steps):
            W = W - 2.0 * sum(np.outer(gradients()[j], phi[j]) for j in left) / len(left)
        g, gone = gradients(), []
        for label in (0, 1, 2):
            own = [j for j in left if y[j] == label]
            chosen: list[int] = []
            for _ in range(len(own) * 2 // 5):
                rest = [j for j in own if j not in chosen]
                chosen.append(
                    min(
                        rest,
                        key=lambda new: sum(
                            min(np.linalg.norm(g[j] - g[i]) for i in (*chosen, new)) for j in own
                        ),
                    )
                )
            owners = [min(chosen, key=lambda i: np.linalg.norm(g[j] - g[i])) for j in own]
            gone += [i for i in chosen if owners.count(i) == 1]
        left = [j for j in left if j not in gone]
    kept = Epic(0.4, rounds=rounds, steps=steps).fit_predict(X, y)
    np.testing.assert_array_equal(np.flatnonzero(kept == 1), left)
    if rounds * steps > 1:
        assert len(left) < 36, "a control: some are dropped"


def test_epic_drops_a_poison_amid_the_other_class_and_no_point_of_its_own_class() -> None:
    """A point of class 0 amid class 1 has a gradient of its own; the same point with label 1 is one of many."""
    rng = np.random.default_rng(5)
    X, y = 0.2 * rng.normal(size=(41, 3)), np.repeat([0, 1], [21, 20])
    X[21:, 0] += 3
    X[0, 0] += 3
    poisoned = Epic(0.1, rounds=1).fit_predict(X, y)
    assert poisoned[0] == -1
    y[0] = 1
    assert Epic(0.1, rounds=1).fit_predict(X, y)[0] == 1


def test_epic_ignores_scale_and_shift_and_a_small_class_stays() -> None:
    X, y = planted(3.0)
    kept = Epic().fit_predict(X, y)
    assert (kept == -1).any()
    np.testing.assert_array_equal(Epic().fit_predict(8 * X + 64, y), kept)
    y[:4] = 7
    assert (Epic(0.2).fit_predict(X, y)[:4] == 1).all()
    assert (standardised(torch.full((5, 3), 0.1, dtype=torch.float64))[:, :3] == 0).all()
