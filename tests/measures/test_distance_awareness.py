"""Rays away from the data: their geometry, analytic heads, a Gaussian process that returns to its prior, a dense head that does not."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from relearn.layers.random_feature_gp import RandomFeatureGP
from relearn.measures.distance_awareness import (
    Along,
    along_rays,
    directions,
    feature_scale,
    monotone_share,
    rise,
)

ONE = torch.tensor(1.0)


def normal(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@settings(max_examples=20)
@given(st.integers(0, 1000), st.sampled_from([(5,), (3, 4, 4)]))
def test_a_ray_moves_a_point_by_one_deviation_a_coordinate(seed, shape):
    u = directions(torch.zeros(7, *shape, dtype=torch.float64), seed=seed)
    count = math.prod(shape)
    torch.testing.assert_close(u.flatten(1).norm(dim=1), torch.full((7,), count**0.5, dtype=torch.float64))
    assert not torch.equal(u[0], u[1])
    torch.testing.assert_close(u.float(), directions(torch.zeros(7, *shape), seed=seed))


def test_directions_prefer_no_side():
    u = directions(torch.zeros(4000, 3, dtype=torch.float64), seed=0)
    # the mean of u u^T over the sphere of radius sqrt(3) is the identity
    torch.testing.assert_close(u.T @ u / 4000, torch.eye(3, dtype=torch.float64), atol=0.08, rtol=0)
    assert float(u.mean(0).abs().max()) < 0.08


def test_the_points_shown_lie_on_the_rays():
    points, scale = normal(0, 4, 2, 3, 3), torch.tensor([0.5, 2.0], dtype=torch.float64).reshape(2, 1, 1)
    shown = []

    def outputs(x):
        shown.append(x)
        return x.flatten(1), None

    path = along_rays(outputs, points, scale, [0.0, 1.0, 3.0], seed=5)
    torch.testing.assert_close(shown[0], points)
    torch.testing.assert_close(shown[1] - points, scale * directions(points, seed=5))
    torch.testing.assert_close(shown[2] - points, 3 * (shown[1] - points))
    assert [point.distance for point in path] == [0.0, 1.0, 3.0]
    assert all(point.variance is None for point in path)
    assert float(shown[2].abs().max()) > 1  # not cut


def test_a_dense_head_grows_sure_far_out():
    # logits t (w u, 0) + ...: at great t the entropy is that of a hard decision
    weight = normal(1, 3, 6)
    path = along_rays(lambda x: (x @ weight.T, None), normal(2, 50, 6), ONE, [0, 1, 10, 1000], seed=0)
    assert path[-1].entropy_nats < 0.02 < path[0].entropy_nats
    assert rise(path) < 0 and monotone_share(path) <= 1 / 3


def test_a_head_that_knows_its_distance_rises_to_the_greatest_entropy():
    def outputs(x):
        return torch.stack([5 * torch.exp(-x.norm(dim=1)), torch.zeros(len(x))], 1), x.square().sum(
            1, keepdim=True
        )

    path = along_rays(outputs, torch.zeros(3, 4, dtype=torch.float64), ONE, [0.0, 0.5, 1.0, 50.0], seed=0)
    assert [point.variance for point in path] == pytest.approx([0.0, 1.0, 4.0, 1e4])
    assert path[0].entropy_nats == pytest.approx(
        float(torch.distributions.Bernoulli(logits=torch.tensor(5.0).double()).entropy())
    )
    assert path[-1].entropy_nats == pytest.approx(math.log(2)) and path[-1].max_share == pytest.approx(1)
    assert monotone_share(path) == 1
    assert rise(path) == pytest.approx(math.log(2) - path[0].entropy_nats)


def test_a_gaussian_process_returns_to_its_prior():
    torch.manual_seed(0)
    head = RandomFeatureGP(4, 3, features=2000, length_scale=2.0, ridge=0.5).double()
    with torch.no_grad():
        head.out.weight.zero_()
    data = normal(3, 300, 4)
    head.fit([data])

    def outputs(x):
        return head.mean_field_logits(x), head.variance(x)

    path = along_rays(outputs, data[:40], feature_scale(data), [0.0, 1.0, 2.0, 4.0, 40.0], seed=0)
    variances = [point.variance for point in path]
    assert variances == sorted(variances) and variances[0] < 0.3
    assert variances[-1] == pytest.approx(1 / 0.5, rel=0.05)  # |Phi|^2 / ridge, |Phi|^2 about 1
    assert all(point.max_share == pytest.approx(1) for point in path)  # logits 0: uniform everywhere


def test_the_same_seed_walks_the_same_rays():
    points = normal(4, 5, 3)
    one, two, other = (
        along_rays(lambda x: (x, None), points, ONE, [0.0, 2.0], seed=seed) for seed in (1, 1, 2)
    )
    assert one == two and one[0] == other[0] and one[1] != other[1]


def test_the_scale_of_features_is_the_root_of_their_mean_variance():
    features = normal(5, 4000, 2) * torch.tensor([1.0, 7.0]) + 100
    assert float(feature_scale(features)) == pytest.approx(5.0, rel=0.05)  # sqrt((1 + 49) / 2)
    with pytest.raises(ValueError, match=r"1 points \(allowed: at least 2, for a spread\)"):
        feature_scale(features[:1])


def test_the_share_of_steps_that_do_not_fall():
    def of(*entropies):
        return [Along(float(at), value, value, None) for at, value in enumerate(entropies)]

    assert monotone_share(of(0.1, 0.2, 0.2, 0.1)) == pytest.approx(2 / 3)
    assert rise(of(0.3, 0.9, 0.1)) == pytest.approx(-0.2)
    with pytest.raises(ValueError, match="1 distances"):
        monotone_share(of(0.1))


@pytest.mark.parametrize(
    ("points", "scale", "distances", "message"),
    [
        (0, 1.0, [0.0], "0 points, 1 distances"),
        (2, 1.0, [], "2 points, 0 distances"),
        (2, 1.0, [0.0, 2.0, 2.0], r"distances: \[0.0, 2.0, 2.0\] \(allowed: ascending, not below 0\)"),
        (2, 1.0, [-1.0], "not below 0"),
        (2, 0.0, [0.0], "a coordinate does not vary"),
    ],
)
def test_bad_rays_are_refused(points, scale, distances, message):
    with pytest.raises(ValueError, match=message):
        along_rays(lambda x: (x, None), torch.zeros(points, 2), torch.tensor(scale), distances, seed=0)
