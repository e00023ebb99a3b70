"""Back and forth through the block, the stated guarantee, the gradient of the inverse function."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from relearn.layers.dot_product_attention import DotProductAttention
from relearn.layers.invertible_residual import InvertibleResidual
from relearn.layers.l2_attention import L2Attention


class Bounded(nn.Module):
    """tanh of a linear map: Lip_inf is the largest absolute row sum of W; states it as an attention would."""

    def __init__(self, dim: int, seed: int = 0) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.weight = nn.Parameter(torch.randn(dim, dim, generator=generator, dtype=torch.float64))
        self.asked: list[int] = []

    def forward(self, x: Tensor, shift: float = 0.0) -> Tensor:
        return torch.tanh(x @ self.weight.to(x.dtype).T + shift)

    def lipschitz_bound(self, length: int, p: str = "inf") -> Tensor:
        self.asked.append(length)
        return self.weight.abs().sum(1).max() if p == "inf" else torch.linalg.matrix_norm(self.weight, 2)


def block(rate: float = 0.9, dim: int = 4, norm: str = "inf", seed: int = 0) -> InvertibleResidual:
    branch = Bounded(dim, seed)
    return InvertibleResidual(branch, c=rate / float(branch.lipschitz_bound(1, norm).detach()), norm=norm)


@given(st.floats(0.0, 0.95), st.integers(1, 5), st.integers(0, 100), st.sampled_from(["inf", "two"]))
@settings(max_examples=30)
def test_back_and_forth(rate, dim, seed, norm):
    one = block(rate, dim, norm, seed)
    x = 3 * torch.randn(2, 3, dim, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    y = one(x).detach()
    torch.testing.assert_close(y, x + one.c * one.branch(x), rtol=0, atol=0)
    assert one.rate(x) == pytest.approx(rate)
    assert one.branch.asked[-1] == 3  # the bound of this length
    for tolerance in (1e-3, 1e-9):
        off = (one.inverse(y, tolerance=tolerance).detach() - x).reshape(2, -1)
        error = torch.linalg.vector_norm(off, math.inf if norm == "inf" else 2, dim=1)
        assert float(error.max()) <= tolerance
    torch.testing.assert_close(one.inverse(y), x, rtol=0, atol=1e-11)
    torch.testing.assert_close(one(one.inverse(y)), y, rtol=0, atol=1e-11)


def test_the_number_of_updates_follows_from_the_rate():
    """With one update less than the rate asks for, the identity as branch (where the rate is exact) misses the tolerance."""
    one = InvertibleResidual(nn.Identity(), c=0.5, lipschitz=1.0)
    y = torch.ones(1, 1, 1, dtype=torch.float64)
    # residual of x_k: 0.5^(k+1); needed: 1e-3 (1 - 0.5), so k = 10 updates
    assert float(one.inverse(y, tolerance=1e-3, iterations=10) - 2 / 3) == pytest.approx(0, abs=1e-3)
    with pytest.raises(ValueError, match=r"residual 0.000977 after 9 iterations \(allowed: 0.0005"):
        one.inverse(y, tolerance=1e-3, iterations=9)
    one.inverse(y, tolerance=1e-3)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_every_precision_reaches_its_own_rounding(dtype):
    one = block(0.8)
    x = torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(1)).to(dtype)
    found = one.inverse(one(x)).detach()
    assert found.dtype == dtype
    floor = 64 * torch.finfo(dtype).eps * (1 + float(x.abs().max()) * 2) / (1 - 0.8)
    assert float((found - x).abs().max()) <= floor + 8 * torch.finfo(dtype).eps * 5


@pytest.mark.parametrize("rate", [0.5, 0.97])
def test_a_branch_that_is_large_where_y_is_small_is_inverted(rate):
    """f(x) = W x + b with W orthogonal: at y = 0, x = -(I + c W)⁻¹ c b."""
    torch.manual_seed(0)
    branch = nn.Linear(8, 8).requires_grad_(False)
    nn.init.orthogonal_(branch.weight)
    branch.bias.fill_(1000.0)
    one, y = InvertibleResidual(branch, c=rate, lipschitz=1.0001, norm="two"), torch.zeros(1, 8)
    exact = torch.linalg.solve(
        torch.eye(8).double() + rate * branch.weight.double(), -rate * branch.bias.double()
    )
    unit = 64 * 2**-23 / (1 - one.rate(y))
    assert (one.inverse(y) - exact).norm() <= unit * (1 + exact.norm())
    with pytest.raises(ValueError, match="below its rounding"):
        one.inverse(y, tolerance=unit)  # the control
    with pytest.raises(ValueError, match="contracts less than stated"):
        InvertibleResidual(nn.Identity(), c=-1.4, lipschitz=0.5).inverse(y.bfloat16() + 1)


def test_the_gradient_is_that_of_the_inverse_function():
    one = block(0.7)
    y = torch.randn(2, 3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    weights = torch.randn(2, 3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    y.requires_grad_()

    found = (one.inverse(y, tolerance=1e-12) * weights).sum()
    by_y, by_weight = torch.autograd.grad(found, (y, one.branch.weight))
    # the slow truth: the inverse function theorem with dense Jacobians
    x = one.inverse(y).detach()
    size = x.numel()
    jacobian = torch.func.jacrev(lambda z: one(z))(x).reshape(size, size).detach()
    u = torch.linalg.solve(jacobian.T, weights.reshape(-1))
    torch.testing.assert_close(by_y.reshape(-1), u, rtol=1e-8, atol=1e-10)
    value = one.c * one.branch(x)
    expected = -torch.autograd.grad(value, one.branch.weight, u.reshape(x.shape))[0]
    torch.testing.assert_close(by_weight, expected, rtol=1e-8, atol=1e-10)
    (small,) = torch.autograd.grad(
        one.inverse(y, tolerance=1e-6), y, 1e-9 * weights
    )  # relative to the gradient
    torch.testing.assert_close(1e9 * small.reshape(-1), u, rtol=1e-5, atol=1e-5)
    # and finite differences, which know no theorem
    step = 1e-6
    with torch.no_grad():
        for i, j in ((0, 0), (2, 3)):
            shift = torch.zeros_like(one.branch.weight)
            shift[i, j] = step
            values = []
            for sign in (1, -1):
                one.branch.weight += sign * shift
                one.branch.weight.requires_grad_(True)
                values.append(float((one.inverse(y, tolerance=1e-13) * weights).sum()))
                one.branch.weight -= sign * shift
            assert float(by_weight[i, j]) == pytest.approx((values[0] - values[1]) / (2 * step), abs=1e-5)


def test_the_gradient_is_iterated_in_the_dual_norm():
    """A tree: every node reads its parent, so rows of W sum to 1, but gradients add up towards the root, 32 leaves' in its column."""
    nodes = 63
    tree = nn.Linear(nodes, nodes, bias=False).double()
    with torch.no_grad():
        tree.weight.zero_()
        tree.weight[range(nodes), [max(0, (i - 1) // 2) for i in range(nodes)]] = 1
    one = InvertibleResidual(tree, c=0.9, lipschitz=1.0)
    y = torch.randn(1, nodes, dtype=torch.float64).requires_grad_()
    leaves = torch.zeros(1, nodes, dtype=torch.float64)
    leaves[0, 31:] = 1
    (found,) = torch.autograd.grad(one.inverse(y, tolerance=1e-10), y, leaves)
    matrix = torch.eye(nodes, dtype=torch.float64) + 0.9 * tree.weight.detach()
    torch.testing.assert_close(found[0], torch.linalg.solve(matrix.T, leaves[0]), rtol=0, atol=1e-8)


def test_without_anything_to_differentiate_there_is_no_graph():
    one = block(0.5).requires_grad_(False)
    y = torch.randn(1, 2, 4, dtype=torch.float64)
    assert not one.inverse(y).requires_grad
    assert one.inverse(y.requires_grad_()).requires_grad
    with torch.no_grad():
        assert not block(0.5).inverse(y).requires_grad


def test_more_arguments_reach_the_branch_both_ways():
    one = block(0.5)
    x = torch.randn(1, 2, 4, dtype=torch.float64)
    y = one(x, shift=2.0).detach()
    torch.testing.assert_close(one.inverse(y, shift=2.0), x, rtol=0, atol=1e-10)
    assert float((one.inverse(y).detach() - x).abs().max()) > 1e-3


def test_a_constant_may_be_a_number_or_follow_the_weights():
    branch = Bounded(3)
    one = InvertibleResidual(branch, c=0.5, lipschitz=lambda x: 1.2 * x.shape[1])
    assert one.rate(torch.zeros(1, 1, 3)) == pytest.approx(0.6)
    with pytest.raises(
        ValueError, match=r"Lipschitz constant: 1.2 \(allowed with a guarantee: 0 <= rate < 1"
    ):
        one.inverse(torch.zeros(1, 2, 3, dtype=torch.float64))
    fixed = InvertibleResidual(branch, c=-0.5, lipschitz=1.0)
    assert fixed.rate(torch.zeros(1, 1, 3)) == 0.5


def test_no_guarantee_where_none_can_be_stated():
    with pytest.raises(ValueError, match="Lipschitz constant: 1 "):
        InvertibleResidual(nn.Identity(), lipschitz=1.0)
    one = InvertibleResidual(nn.Tanh(), c=0.5)
    y = torch.ones(1, 2, 2, dtype=torch.float64)
    with pytest.raises(ValueError, match="Tanh states no lipschitz_bound"):
        one.inverse(y)
    torch.testing.assert_close(one(one.inverse(y, guaranteed=False)), y, rtol=0, atol=1e-12)
    wild = InvertibleResidual(nn.Linear(2, 2, bias=False).double(), c=1.0)
    nn.init.eye_(wild.branch.weight).data.mul_(2)
    with pytest.raises(ValueError, match="after 100 iterations"):
        wild.inverse(y, guaranteed=False)


def test_a_stated_constant_that_is_too_small_does_not_pass_unseen():
    """Erratum K1 in the block: F(x) = 4x divided by the printed 2, called a contraction."""
    lied = nn.Linear(1, 1, bias=False).double()
    nn.init.constant_(lied.weight, 4 / 2)
    one = InvertibleResidual(lied, c=0.9, lipschitz=1.0)
    with pytest.raises(ValueError, match="contracts less than stated"):
        one.inverse(torch.ones(1, 1, 1, dtype=torch.float64))


@pytest.mark.parametrize("size", [0.3, 1.0, 3.0])
@pytest.mark.parametrize("norm", ["inf", "two"])
def test_contractive_attention_has_the_constant_it_was_built_for(size, norm):
    """Also where its weights are so small that the bound, by which it divides, is below 1: the layer is then scaled up."""
    torch.manual_seed(0)
    branch = L2Attention(8, 2, contractive=norm, scale=0.9).double()
    with torch.no_grad():
        for one in branch.parameters():
            one.mul_(size)
    one = InvertibleResidual(branch, norm=norm)
    x = 10 * torch.randn(2, 5, 8, dtype=torch.float64)
    x[:, 0] = 0
    assert one.rate(x) == 0.9
    for more in ({}, {"causal": True}):
        torch.testing.assert_close(one.inverse(one(x, **more), **more), x, rtol=0, atol=1e-10)
    other = {"inf": "two", "two": "inf"}[norm]
    with pytest.raises(ValueError, match=f"norm: '{other}' .allowed: '{norm}'"):
        InvertibleResidual(branch, norm=other).inverse(x)


def test_tied_attention_states_its_bound_and_the_others_have_none():
    torch.manual_seed(0)
    branch = L2Attention(8, 2).double()
    x = torch.randn(2, 5, 8, dtype=torch.float64)
    bound = float(branch.lipschitz_bound(5).detach())
    one = InvertibleResidual(branch, c=0.9 / bound)
    assert one.rate(x) == pytest.approx(0.9)
    torch.testing.assert_close(one.inverse(one(x)), x, rtol=0, atol=1e-10)
    with pytest.raises(ValueError, match="allowed with a guarantee"):
        InvertibleResidual(branch, c=1.1 / bound).inverse(x)
    with pytest.raises(ValueError, match="DotProductAttention states no lipschitz_bound"):
        InvertibleResidual(DotProductAttention(8, 2), c=1e-6).inverse(x)
    with pytest.raises(ValueError, match="no bound for tied = False"):
        InvertibleResidual(L2Attention(8, 2, tied=False), c=1e-6).inverse(x)


def test_wrong_arguments_are_refused():
    with pytest.raises(ValueError, match="norm: 'fro'"):
        InvertibleResidual(nn.Identity(), norm="fro")
    one = InvertibleResidual(nn.Tanh(), c=0.5, lipschitz=1.0)
    with pytest.raises(ValueError, match="y: holds NaN"):
        one.inverse(torch.full((1, 1, 1), math.nan))
    with pytest.raises(ValueError, match=r"y: shape \(1, 0, 1\)"):
        one.inverse(torch.zeros(1, 0, 1))
    with pytest.raises(ValueError, match="tolerance: 0"):
        one.inverse(torch.ones(1, 1, 1), tolerance=0.0)


def test_without_a_batch_the_constant_is_asked_for_the_input_itself():
    attention = L2Attention(4, 2, fused=False).double()
    tokens, asked = torch.randn(6, 4, dtype=torch.float64), []

    class Alone(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return attention(x[None])[0]

    def constant(x: Tensor) -> Tensor:
        asked.append(tuple(x.shape))
        return attention.lipschitz_bound(x.shape[0], "inf").detach()

    one, six = (float(attention.lipschitz_bound(length, "inf").detach()) for length in (1, 6))
    layer = InvertibleResidual(Alone(), c=2 / (one + six), lipschitz=constant, batched=False)
    for call in (layer.inverse, lambda x: layer.log_det(x, method="estimate")):
        with pytest.raises(ValueError, match="allowed"):
            call(tokens)
    assert asked == [(6, 4)] * 2
    with pytest.raises(ValueError, match=r"x: shape \(0, 3, 4\)"):
        block().log_det(torch.zeros(0, 3, 4, dtype=torch.float64))


def test_an_empty_batch_goes_back_as_it_went_forth():
    block = InvertibleResidual(torch.nn.Linear(3, 3), lipschitz=0.5)
    y = block(torch.zeros(0, 3)).detach().requires_grad_()
    for x in (block.inverse(y), block.inverse(y, tolerance=1e-3), block.inverse(y, guaranteed=False)):
        assert x.shape == (0, 3) and x is not y and x.requires_grad
