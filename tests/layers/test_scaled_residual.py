"""The residual with one number or none: its formula, who gets a gradient at 0, and DropPath."""

import pytest
import torch

from relearn.layers.scaled_residual import ScaledResidual
from relearn.layers.weighted_residual import WeightedResidual


def pair(*shape: int) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    return torch.randn(shape, dtype=torch.float64), torch.randn(shape, dtype=torch.float64)


@pytest.mark.parametrize(("alpha", "factor"), [(None, 1.0), (0.0, 0.0), (0.25, 0.25), (-1.5, -1.5)])
def test_it_is_the_formula(alpha: float | None, factor: float) -> None:
    x, b = pair(3, 5, 4)
    joint = ScaledResidual(alpha).double()
    torch.testing.assert_close(joint(x, b), x + factor * b, rtol=1e-15, atol=1e-15)
    assert len(list(joint.parameters())) == (alpha is not None)
    if joint.alpha is not None:
        torch.nn.init.constant_(joint.alpha, 7.0)
        torch.testing.assert_close(joint(x, b), x + 7 * b)
        joint.reset_parameters()
    torch.testing.assert_close(joint(x, b), x + factor * b, rtol=1e-15, atol=1e-15)


def test_at_zero_the_number_learns_and_the_branch_does_not() -> None:
    x, b = (one.requires_grad_() for one in pair(2, 3, 4))
    joint = ScaledResidual(0.0).double()
    y = joint(x, b)
    slope = torch.randn_like(y)
    for_x, for_b, for_alpha = torch.autograd.grad(y, (x, b, joint.alpha), slope)
    assert torch.equal(y, x) and torch.equal(for_x, slope) and not for_b.any()
    torch.testing.assert_close(for_alpha, (slope * b).sum())
    parameters = (x, b, joint.alpha)
    assert torch.autograd.gradcheck(
        lambda x, b, a: torch.func.functional_call(joint, {"alpha": a}, (x, b)), parameters
    )


def test_with_one_channel_it_is_the_weighted_residual() -> None:
    x, b = pair(4, 3, 1)
    one, many = ScaledResidual(0.5, drop_path=0.5).double(), WeightedResidual(1, 0.5, drop_path=0.5).double()
    torch.manual_seed(3)
    y = one(x, b)
    torch.manual_seed(3)
    torch.testing.assert_close(y, many(x, b))


@pytest.mark.parametrize("alpha", [None, 0.5])
def test_drop_path_drops_the_branch_of_a_sample_in_training_alone(alpha: float | None) -> None:
    torch.manual_seed(0)
    joint = ScaledResidual(alpha, drop_path=0.3).double()
    x, b = torch.zeros(4000, 2, 3, dtype=torch.float64), torch.ones(4000, 2, 3, dtype=torch.float64)
    factor = 1.0 if alpha is None else alpha
    y = joint(x, b)
    assert bool((y == y[:, :1, :1]).all())
    kept = y[:, 0, 0] != 0
    torch.testing.assert_close(y[kept], torch.full_like(y[kept], factor / 0.7))
    assert abs(float(kept.double().mean()) - 0.7) < 4 * (0.3 * 0.7 / 4000) ** 0.5
    torch.testing.assert_close(joint.eval()(x, b), torch.full_like(y, factor))


def test_precisions_and_refusals() -> None:
    for dtype in (torch.float16, torch.bfloat16):
        joint = ScaledResidual(0.1, drop_path=0.5).to(dtype)
        x = torch.randn(2, 3, 4, dtype=dtype)
        assert joint(x, x).dtype == dtype
    joint = ScaledResidual(0.5)
    with torch.autocast("cpu", torch.bfloat16):
        y = joint(torch.ones(2, 3), torch.ones(2, 3, dtype=torch.bfloat16))
    assert y.dtype == torch.float32 and torch.equal(y, torch.full((2, 3), 1.5))
    with pytest.raises(ValueError, match=r"drop_path: 1\.0 \(allowed: 0 <= p < 1\)"):
        ScaledResidual(drop_path=1.0)
    assert repr(ScaledResidual(0.0, drop_path=0.1)) == "ScaledResidual(alpha=0.0, drop_path=0.1)"
