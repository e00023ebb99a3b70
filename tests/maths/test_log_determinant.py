"""Log-determinants: of linear maps and of invertible blocks, exact and estimated, with the variance and the gradient."""

import pytest
import torch
from torch import nn

from relearn.layers.invertible_residual import InvertibleResidual
from relearn.layers.l2_attention import L2Attention
from relearn.maths.log_determinant import estimate, exact


def jacobian_log_det(block, x):
    full = torch.autograd.functional.jacobian(lambda z: block(z[None])[0], x).reshape(x.numel(), x.numel())
    return torch.linalg.slogdet(full).logabsdet


def attention_block(c=0.9):
    torch.manual_seed(0)
    return InvertibleResidual(L2Attention(4, 2, contractive="inf", fused=False), c=c).double().eval()


def mlp_block(norm=0.6, dim=6):
    torch.manual_seed(0)
    inner = nn.Sequential(nn.Linear(dim, 8), nn.Tanh(), nn.Linear(8, dim)).double()
    with torch.no_grad():
        for one in (inner[0], inner[2]):
            one.weight.div_(torch.linalg.matrix_norm(one.weight, 2))
    return InvertibleResidual(inner, c=norm, lipschitz=1.0, norm="two")


@pytest.mark.parametrize("made", [attention_block, mlp_block])
def test_exact_is_that_of_the_whole_jacobian(made):
    block = made()
    x = torch.randn(3, 2, 4, dtype=torch.float64) if made is attention_block else torch.randn(3, 6).double()
    found = block.log_det(x)
    expected = torch.stack([jacobian_log_det(block, one) for one in x])
    torch.testing.assert_close(found.value, expected)
    assert found.draws == 0 and (found.variance == 0).all() and found.terms == x[0].numel()
    alone = InvertibleResidual(block.branch, c=block.c, lipschitz=0.9, norm="two", batched=False)
    torch.testing.assert_close(alone.log_det(x[0]).value, expected[:1])


def test_the_estimate_is_unbiased_and_knows_its_variance():
    """Many independent estimates: their mean is the truth within its error, and their spread is what they state."""
    torch.manual_seed(0)
    inner = nn.Linear(6, 6).double()
    turn = torch.linalg.qr(torch.randn(6, 6, dtype=torch.float64)).Q
    values = torch.linspace(0.2, 1, 6, dtype=torch.float64)
    inner.weight.data.copy_(turn * values @ turn.T)
    block = InvertibleResidual(inner, c=0.8, lipschitz=1.0, norm="two")
    truth = (0.8 * values).log1p().sum()
    x = torch.randn(2, 6, dtype=torch.float64)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        torch.testing.assert_close(block.log_det(x, method="exact").value, truth.expand(2))
        more = dict(method="estimate", draws=8, always=1, generator=generator)
        found = [block.log_det(x, **more) for _ in range(300)]
    drawn = torch.stack([one.value for one in found])
    error = (drawn.var(0) / 300).sqrt()
    assert ((drawn.mean(0) - truth).abs() < 4 * error).all()
    stated = torch.stack([one.variance for one in found]).mean(0)
    assert ((stated / drawn.var(0) - 1).abs() < 0.4).all()
    cut = 0.8 * values - (0.8 * values) ** 2 / 2  # a series cut after two terms would be seen
    assert ((cut.sum() - truth).abs() > 8 * error).all()


def test_the_gradient_is_that_of_finite_differences_and_the_estimates_are_unbiased_too():
    block, x = mlp_block(), torch.randn(2, 6, dtype=torch.float64)
    weight = block.branch[0].weight
    (slope,) = torch.autograd.grad(block.log_det(x).value.sum(), weight)
    with torch.no_grad():
        step = torch.randn_like(weight)
        values = []
        for h in (1e-5, -1e-5):
            weight.add_(h * step)
            values.append(block.log_det(x).value.sum())
            weight.sub_(h * step)
    torch.testing.assert_close((slope * step).sum(), (values[0] - values[1]) / 2e-5, rtol=1e-6, atol=1e-9)
    generator = torch.Generator().manual_seed(2)
    found = torch.stack(
        [
            torch.autograd.grad(
                block.log_det(x, method="estimate", draws=4, generator=generator).value.sum(), weight
            )[0]
            for _ in range(100)
        ]
    )
    error = (found.mean(0) - slope).norm() / (found.var(0).sum() / 100).sqrt()
    assert error < 2


def test_gradients_in_the_input_and_for_an_attention():
    block = attention_block()
    x = torch.randn(2, 2, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda z: block.log_det(z).value, x)


def test_large_samples_are_estimated_and_fused_attention_suffices_without_gradients():
    torch.manual_seed(0)
    block = InvertibleResidual(L2Attention(8, 2, contractive="inf"), c=0.9).eval()
    x = torch.randn(2, 40, 8)
    with torch.no_grad():
        found = block.log_det(x, draws=3, generator=torch.Generator().manual_seed(0))
        again = block.log_det(x, draws=3, generator=torch.Generator().manual_seed(0))
        truth = block.log_det(x, method="exact").value
    assert found.draws == 3 and found.terms >= 12 and torch.equal(found.value, again.value)
    assert ((found.value - truth).abs() < 6 * found.variance.sqrt() + 1e-5).all()


def test_wrong_arguments_are_refused():
    x = torch.randn(2, 6, dtype=torch.float64)
    block = mlp_block()
    for given, said in (
        (dict(method="fast"), "method: 'fast'"),
        (dict(method="estimate", draws=0), "draws 0"),
        (dict(method="estimate", keep=1.0), "keep 1.0"),
        (dict(method="estimate", guaranteed=False), "keep: None without a guarantee"),
    ):
        with pytest.raises(ValueError, match=said):
            block.log_det(x, **given)
    wild = InvertibleResidual(nn.Linear(6, 6).double(), c=1.0, lipschitz=lambda _: 1.5, norm="two")
    with pytest.raises(ValueError, match="allowed with a guarantee"):
        wild.log_det(x)
    with pytest.raises(ValueError, match=r"signs \[-1.0, -1.0, -1.0\]"):
        exact(lambda z: -3 * z, torch.randn(3, 1, dtype=torch.float64))
    with pytest.raises(ValueError, match="shape"):
        estimate(lambda z: z[:, :1], x, draws=1, keep=0.5)


def test_an_undefined_gradient_passes_through_the_inverse():
    block = mlp_block()
    y = torch.randn(2, 6, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda z: (block.inverse(z), z * 2), y, check_undefined_grad=True)


def test_inference_mode_is_refused_and_no_grad_is_not():
    block, x = mlp_block(), torch.randn(2, 6, dtype=torch.float64)
    with torch.no_grad():
        assert (block.log_det(x).value != 0).all()
    with torch.inference_mode():
        for given in (dict(method="exact"), dict(method="estimate")):
            with pytest.raises(
                ValueError, match=r"^inference_mode: found on, [^\n]*allowed: torch\.no_grad$"
            ):
                block.log_det(x, **given)
        assert torch.equal(block.inverse(block(x)).round(decimals=6), x.round(decimals=6))
