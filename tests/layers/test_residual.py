"""The four joints: their formulas in float64, what they start as, what is trained.

The weighted residual: its formula, what DropPath drops, and its Lipschitz constant.

The residual with one number or none: its formula, who gets a gradient at 0, and DropPath.
"""

import pytest
import torch
from torch import nn

from relearn.layers.residual import KINDS, Residual
from relearn.layers.scaled_residual import ScaledResidual
from relearn.layers.weighted_residual import WeightedResidual


def layer_norm(x: torch.Tensor, eps: float = 1e-5) -> torch.Tensor:
    centred = x - x.mean(-1, keepdim=True)
    return centred / (centred.square().mean(-1, keepdim=True) + eps).sqrt()


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_its_formula(kind: str) -> None:
    torch.manual_seed(0)
    joint = Residual(6, kind).double()
    x, b = torch.randn(2, 3, 6, dtype=torch.float64), torch.randn(2, 3, 6, dtype=torch.float64)
    w, alpha = torch.randn(6, dtype=torch.float64), 0.3
    with torch.no_grad():
        if kind == "w_skip":
            joint.w_skip.copy_(w)
        if kind == "rezero":
            joint.alpha.fill_(alpha)
    expected = {
        "post_ln": layer_norm(x + b),
        "w_skip": layer_norm(w * x + b),
        "rezero": x + alpha * b,
        "no_norm": x + b,
    }[kind]
    torch.testing.assert_close(joint(x, b), expected, rtol=1e-12, atol=1e-12)


def test_w_skip_starts_as_post_ln_and_rezero_as_the_identity() -> None:
    x, b = torch.randn(2, 6), torch.randn(2, 6)
    assert torch.equal(Residual(6, "w_skip")(x, b), Residual(6, "post_ln")(x, b))
    assert torch.equal(Residual(6, "rezero")(x, b), x)


def test_only_the_branch_is_dropped() -> None:
    joint = Residual(4, "no_norm", dropout=0.999)
    torch.manual_seed(0)
    x = torch.randn(5, 4)
    assert torch.equal(joint(x, torch.zeros(5, 4)), x)
    assert int((joint(x, torch.ones(5, 4)) == x).sum()) > 15


def test_a_fixed_skip_is_not_trained_and_an_unknown_kind_is_refused() -> None:
    assert not Residual(4, "w_skip", fixed=True).w_skip.requires_grad
    assert Residual(4, "w_skip").w_skip.requires_grad
    with pytest.raises(ValueError, match=r"pre_ln.*allowed: post_ln"):
        Residual(4, "pre_ln")


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


@pytest.mark.parametrize(
    ("joint", "factor", "kept"),
    [
        (WeightedResidual(3, 0.5, drop_path=0.3, rescale=True), 0.5, 0.5 / 0.7),
        (WeightedResidual(3, 0.5, drop_path=0.3, rescale=False), 0.5, 0.5),
        (ScaledResidual(None, drop_path=0.3), 1.0, 1.0 / 0.7),
        (ScaledResidual(0.5, drop_path=0.3), 0.5, 0.5 / 0.7),
    ],
)
def test_drop_path_takes_whole_branches_of_samples_in_training_alone(joint, factor, kept) -> None:
    torch.manual_seed(0)
    joint = joint.double()
    x, b = torch.zeros(4000, 2, 3, dtype=torch.float64), torch.ones(4000, 2, 3, dtype=torch.float64)
    y = joint.train()(x, b)
    assert bool((y == y[:, :1, :1]).all())  # one decision a sample
    dropped = y[:, 0, 0] == 0
    torch.testing.assert_close(y[~dropped], torch.full_like(y[~dropped], kept))
    assert abs(float(dropped.double().mean()) - 0.3) < 4 * (0.3 * 0.7 / 4000) ** 0.5
    torch.testing.assert_close(joint.eval()(x, b), torch.full_like(y, factor))


def test_the_constant_takes_the_modulus_of_alpha_and_can_be_below_the_bound() -> None:
    def norm(alpha: float, factor: float) -> float:
        joint = WeightedResidual(2, alpha).double().requires_grad_(False)
        x = torch.zeros(1, 2, dtype=torch.float64)
        return float(
            torch.linalg.matrix_norm(torch.func.jacrev(lambda z: joint(z, factor * z))(x)[0, :, 0], 2)
        )

    assert norm(-0.9, -1.0) == pytest.approx(1.9)  # printed: 1 + max(alpha) = 0.1
    assert norm(0.5, -1.0) == pytest.approx(0.5)  # printed, with equality: 1.5


def test_weighted_residual_precisions_and_refusals() -> None:
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


def test_scaled_residual_precisions_and_refusals() -> None:
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
