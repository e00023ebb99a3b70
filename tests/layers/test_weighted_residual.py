"""The weighted residual: its formula, what DropPath drops, and its Lipschitz constant."""

import pytest
import torch
from torch import nn

from relearn.layers.weighted_residual import WeightedResidual


@pytest.mark.parametrize(("axis", "shape"), [(-1, (3, 5, 4)), (1, (3, 4, 5, 6)), (2, (3, 5, 4))])
def test_every_channel_has_its_own_weight(axis: int, shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    joint = WeightedResidual(4, 0.2, axis=axis).double()
    x, b = torch.randn(shape, dtype=torch.float64), torch.randn(shape, dtype=torch.float64)
    torch.testing.assert_close(joint(x, b), x + 0.2 * b, rtol=1e-6, atol=1e-7)
    nn.init.normal_(joint.alpha)
    y = joint(x, b).movedim(axis, 0)
    for c in range(4):
        expected = x.movedim(axis, 0)[c] + joint.alpha[c] * b.movedim(axis, 0)[c]
        torch.testing.assert_close(y[c], expected, rtol=1e-12, atol=1e-12)
    joint.reset_parameters()
    assert joint.alpha.tolist() == pytest.approx([0.2] * 4)


@pytest.mark.parametrize(("rescale", "kept"), [(True, 0.5 / (1 - 0.3)), (False, 0.5)])
def test_drop_path_takes_whole_branches_of_samples_in_training_alone(rescale: bool, kept: float) -> None:
    torch.manual_seed(0)
    joint = WeightedResidual(3, 0.5, drop_path=0.3, rescale=rescale).double()
    x, b = torch.zeros(4000, 2, 3, dtype=torch.float64), torch.ones(4000, 2, 3, dtype=torch.float64)
    y = joint(x, b)
    assert bool((y == y[:, :1, :1]).all())  # one decision a sample
    dropped = y[:, 0, 0] == 0
    torch.testing.assert_close(y[~dropped], torch.full_like(y[~dropped], kept))
    assert abs(float(dropped.double().mean()) - 0.3) < 4 * (0.3 * 0.7 / 4000) ** 0.5
    joint.eval()
    torch.testing.assert_close(joint(x, b), torch.full_like(y, 0.5))


def test_the_constant_takes_the_modulus_of_alpha_and_can_be_below_the_bound() -> None:
    def norm(alpha: float, factor: float) -> float:
        joint = WeightedResidual(2, alpha).double().requires_grad_(False)
        x = torch.zeros(1, 2, dtype=torch.float64)
        return float(
            torch.linalg.matrix_norm(torch.func.jacrev(lambda z: joint(z, factor * z))(x)[0, :, 0], 2)
        )

    assert norm(-0.9, -1.0) == pytest.approx(1.9)  # printed: 1 + max(alpha) = 0.1
    assert norm(0.5, -1.0) == pytest.approx(0.5)  # printed, with equality: 1.5


def test_precisions_and_refusals() -> None:
    for dtype in (torch.float16, torch.bfloat16):
        joint = WeightedResidual(4, 0.1, drop_path=0.5).to(dtype)
        x = torch.randn(2, 3, 4, dtype=dtype)
        assert joint(x, x).dtype == dtype
    with pytest.raises(ValueError, match=r"drop_path: 1\.0 \(allowed: 0 <= p < 1\)"):
        WeightedResidual(4, 0.1, drop_path=1.0)
    with pytest.raises(ValueError, match="4 channels at axis -1"):
        WeightedResidual(4, 0.1)(torch.zeros(2, 1), torch.zeros(2, 1))
    with pytest.raises(ValueError, match="allowed: the same"):
        WeightedResidual(4, 0.1)(torch.zeros(2, 4), torch.zeros(1, 4))
