"""The random-feature head: its kernel, the posterior of the weights against plain linear algebra, and distance awareness."""

import math

import pytest
import torch
from torch import Tensor

from relearn.layers.random_feature_gp import RandomFeatureGP


def head(dim: int = 3, classes: int = 4, features: int = 20, **given) -> RandomFeatureGP:
    torch.manual_seed(0)
    return RandomFeatureGP(dim, classes, features, **given).double()


def normal(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_features_and_logits_are_the_formula() -> None:
    layer = head(length_scale=2.5)
    x = normal(1, 2, 5, 3)
    for b in range(2):
        for n in range(5):
            for i in range(20):
                turn = float(layer.weight[i] @ x[b, n]) / 2.5 + float(layer.phase[i])
                found = float(layer.features(x)[b, n, i])
                assert found == pytest.approx(math.sqrt(2 / 20) * math.cos(turn), abs=1e-12)
    torch.testing.assert_close(layer(x), layer.features(x) @ layer.out.weight.T)
    assert layer(x).shape == (2, 5, 4)


@pytest.mark.parametrize("scale", [1.0, 3.0])
def test_the_kernel_is_gaussian_with_the_length_scale(scale: float) -> None:
    x, y = normal(1, 6, 4), normal(2, 6, 4)
    found = torch.zeros(6, dtype=torch.float64)
    for seed in range(30):
        torch.manual_seed(seed)
        layer = RandomFeatureGP(4, 2, 500, length_scale=scale).double()
        found += (layer.features(x) * layer.features(y)).sum(-1) / 30
    expected = torch.exp(-(x - y).square().sum(-1) / (2 * scale**2))
    torch.testing.assert_close(found, expected, rtol=0, atol=0.04)  # five standard deviations of the mean
    assert (expected < 0.5).any() == (scale < 2)


def test_weights_and_phases_are_drawn_as_stated_and_frozen() -> None:
    layer = head(dim=100, features=500, classes=2)
    assert (
        float(layer.weight.std()) == pytest.approx(1, abs=0.015) and abs(float(layer.weight.mean())) < 0.015
    )
    low, high = layer.phase.aminmax()
    assert 0 <= float(low) < 0.05 and 2 * math.pi - 0.05 < float(high) <= 2 * math.pi
    assert [name for name, _ in layer.named_parameters()] == ["out.weight"]


@pytest.mark.parametrize("per_class", [False, True])
def test_precision_variance_and_mean_field_by_plain_linear_algebra(per_class: bool) -> None:
    layer = head(ridge=0.7, per_class=per_class)
    train, test = normal(3, 30, 3), normal(4, 2, 6, 3)
    layer.fit(train.split(7))
    p = layer(train).softmax(-1)
    phi, phi_test = layer.features(train), layer.features(test)
    for k in range(4):
        share = p[:, k] if per_class else p.max(-1).values
        precision = 0.7 * torch.eye(20, dtype=torch.float64)
        for one, weight in zip(phi, share * (1 - share)):
            precision = precision + weight * torch.outer(one, one)
        covariance = torch.linalg.inv(precision)
        expected = torch.einsum("bnm,ml,bnl->bn", phi_test, covariance, phi_test)
        column = k if per_class else 0
        torch.testing.assert_close(layer.variance(test)[..., column], expected, rtol=1e-9, atol=1e-12)
        logits = layer(test)[..., k] / torch.sqrt(1 + math.pi / 8 * expected)
        torch.testing.assert_close(layer.mean_field_logits(test)[..., k], logits, rtol=1e-9, atol=1e-12)


def test_the_covariance_is_the_inverse_of_the_hessian_of_the_loss() -> None:
    """Σ_k^{-1} is the block of class k in the Hessian of cross-entropy plus ridge/2 |β|², by automatic differentiation."""
    layer = head(features=5, classes=3, ridge=0.3, per_class=True)
    x = normal(5, 12, 3)
    phi, target = layer.features(x), torch.arange(12) % 3

    def loss(beta: Tensor) -> Tensor:
        return (
            torch.nn.functional.cross_entropy(phi @ beta.T, target, reduction="sum")
            + 0.15 * beta.square().sum()
        )

    hessian = torch.func.jacrev(torch.func.jacrev(loss))(layer.out.weight.detach())
    layer.fit([x])
    for k in range(3):
        torch.testing.assert_close(layer.precision[k], hessian[k, :, k], rtol=1e-9, atol=1e-11)


def test_the_shared_variance_is_below_that_of_every_class() -> None:
    shared, each = head(), head(per_class=True)
    x = normal(6, 40, 3)
    for one in (shared, each):
        one.fit([x])
    test = normal(7, 9, 3)
    assert (shared.variance(test) <= each.variance(test) * (1 + 1e-12)).all()
    assert (shared.variance(test) < 0.999 * each.variance(test)).any()


def test_a_precision_is_that_of_its_epoch_alone() -> None:
    """Batches do not matter; a second fit forgets the first; the variance only falls as points come."""
    x, far = normal(8, 24, 3), normal(9, 5, 3)
    one, other = head(), head()
    one.fit([x])
    other.fit([far])
    other.fit(x.split(5))
    torch.testing.assert_close(one.precision, other.precision)
    assert int(one.seen) == int(other.seen) == 24
    before = one.variance(far)
    one.accumulate(far)
    assert (one.variance(far) < before).all() and int(one.seen) == 29
    assert (before <= 2 / one.ridge).all()  # |Φ|² <= 2


def test_far_from_the_data_the_variance_is_larger_and_the_softmax_flatter() -> None:
    layer = head(dim=2, classes=3, features=500)
    with torch.no_grad():
        layer.out.weight.mul_(30)
    layer.fit([0.3 * normal(10, 400, 2)])
    near, far = 0.3 * normal(11, 50, 2), 8 + 0.3 * normal(12, 50, 2)
    assert float(layer.variance(near).max()) < 0.5 * float(layer.variance(far).min())
    ratio = layer.mean_field_logits(far) / layer(far)
    assert (ratio < layer.mean_field_logits(near) / layer(near)).all()


def test_no_variance_before_a_fit_nor_after_a_reset() -> None:
    layer = head()
    x = normal(13, 5, 3)
    for call in (layer.variance, layer.mean_field_logits):
        with pytest.raises(RuntimeError, match="no point in the precision"):
            call(x)
    with pytest.raises(RuntimeError, match="fit: no point"):
        layer.fit([])
    layer.accumulate(x)
    assert layer.variance(x).shape == (5, 1)
    copy = head()
    copy.load_state_dict(layer.state_dict())
    torch.testing.assert_close(copy.variance(x), layer.variance(x))
    layer.reset_precision()
    with pytest.raises(RuntimeError, match="no point"):
        layer.variance(x)


def test_the_features_hold_their_lipschitz_bound() -> None:
    layer = head(dim=6, features=9, length_scale=0.5)
    bound, largest = float(layer.feature_bound()), 0.0
    for x in normal(14, 200, 6):
        largest = max(largest, float(torch.linalg.matrix_norm(torch.func.jacrev(layer.features)(x), ord=2)))
    assert 0.5 * bound < largest <= bound


def test_gradients_reach_beta_and_the_input_also_through_the_variance() -> None:
    layer = head()
    layer.fit([normal(15, 10, 3)])
    x = normal(16, 4, 3).requires_grad_()
    assert torch.autograd.gradcheck(layer.variance, (x,))
    layer(x).square().sum().backward()
    assert x.grad is not None and layer.out.weight.grad is not None and not layer.precision.requires_grad


def test_under_autocast_it_computes_in_float32() -> None:
    torch.manual_seed(0)
    layer = RandomFeatureGP(64, 3, 128)
    x = 10 * torch.randn(16, 64)
    layer.fit([x])
    with torch.autocast("cpu", torch.bfloat16):
        found, logits = layer.variance(x), layer(x)
        layer.accumulate(x)
    assert found.dtype == logits.dtype == torch.float32
    torch.testing.assert_close(logits, layer(x))
    assert torch.isfinite(layer(x.bfloat16())).all()


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({"classes": 1}, "classes: 1"),
        ({"features": 0}, "features: 0"),
        ({"length_scale": 0.0}, "length_scale: 0"),
        ({"ridge": -1.0}, "ridge: -1"),
        ({"mean_field": -0.1}, "mean_field: -0.1"),
    ],
)
def test_wrong_arguments_are_refused(given: dict, found: str) -> None:
    with pytest.raises(ValueError, match=found):
        RandomFeatureGP(**{"dim": 3, "classes": 2} | given)
    with pytest.raises(ValueError, match="x: shape"):
        head()(normal(0, 5, 4))


def test_it_can_be_counted_on_the_meta_device() -> None:
    with torch.device("meta"):
        assert RandomFeatureGP(3, 2, 8)(torch.empty(5, 3)).shape == (5, 2)


@pytest.mark.parametrize("per_class", [False, True])
def test_one_point_is_a_row_of_a_batch(per_class):
    torch.manual_seed(0)
    layer, x = RandomFeatureGP(3, 4, 8, per_class=per_class), torch.randn(5, 3)
    layer.fit([*x])
    one_by_one = layer.precision.clone()
    layer.fit([x])
    torch.testing.assert_close(one_by_one, layer.precision)
    for call in (layer, layer.variance, layer.mean_field_logits):
        torch.testing.assert_close(call(x[0]), call(x)[0])
        torch.testing.assert_close(call(x.view(5, 1, 3)), call(x)[:, None])
