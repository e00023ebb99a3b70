"""Products with a Jacobian in all modes, what they need, and how much they hold at once."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from relearn.layers.l2_attention import L2Attention
from relearn.measures.lipschitz import Products, jacobian, jacobian_norm

DTYPE = torch.float64


class Once(torch.autograd.Function):
    """sin, with a backward pass that cannot be differentiated, and with a forward mode."""

    @staticmethod
    def forward(x):
        return x.sin()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    @once_differentiable
    def backward(ctx, u):
        return ctx.saved_tensors[0].cos() * u

    @staticmethod
    def jvp(ctx, v):
        return ctx.saved_tensors[0].cos() * v


class Neither(torch.autograd.Function):
    """sin once more, with a first derivative alone."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    @once_differentiable
    def backward(ctx, u):
        return ctx.saved_tensors[0].cos() * u


class Largest(TorchDispatchMode):
    """The largest tensor, in numbers, that any operation makes."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        sizes = [one.numel() for one in tree_leaves(made) if isinstance(one, Tensor)]
        self.numbers = max(self.numbers, *sizes, 0)
        return made


def vectors(*shapes: torch.Size) -> list[Tensor]:
    generator = torch.Generator().manual_seed(3)
    return [torch.randn(shape, generator=generator, dtype=DTYPE) for shape in shapes]


@pytest.mark.filterwarnings("ignore:`torch.jit.script`:DeprecationWarning")  # torch's own, in forward mode
@pytest.mark.parametrize("mode", ["auto", "reverse", "forward", "difference"])
def test_every_mode_gives_the_columns_and_rows_of_the_jacobian(mode):
    torch.manual_seed(0)
    layer = L2Attention(4, 2, fused=False).to(DTYPE)
    (x,) = vectors(torch.Size([6, 4]))
    whole = jacobian(layer, x)
    products = Products(layer, x, mode)
    assert torch.equal(products.output, layer(x).detach())
    for _ in range(2):  # graphs are used more than once
        v, u = vectors(x.shape, products.output.shape)
        assert torch.allclose(products.push(v).flatten(), whole @ v.flatten(), atol=1e-9)
        assert torch.allclose(products.pull(u).flatten(), whole.T @ u.flatten(), atol=1e-12)
    assert products.mode == ("reverse" if mode == "auto" else mode)
    for block in (1, 5, 100):
        assert torch.allclose(torch.cat(list(products.rows(block))), whole, atol=1e-12)


def test_what_has_no_second_derivative_goes_forward_and_what_has_neither_by_differences():
    (x,) = vectors(torch.Size([3, 2]))
    slope = x.cos()
    v = torch.ones_like(x)
    once = Products(Once.apply, x)
    assert torch.allclose(once.push(v), slope) and once.mode == "forward"
    assert torch.allclose(once.pull(v), slope)
    with pytest.raises(ValueError, match="no second derivative"):
        Products(Once.apply, x, "reverse").push(v)
    with pytest.raises(
        ValueError, match=r"neither a second derivative .* nor a forward mode .* allowed: .*difference"
    ):
        Products(Neither.apply, x).push(v)
    assert torch.allclose(Products(Neither.apply, x, "difference").push(v), slope, atol=1e-9)
    for f, mode in ((Once.apply, "auto"), (Neither.apply, "difference")):
        found = jacobian_norm(f, x, method="free", mode=mode, tolerance=1e-6)
        assert found.value == pytest.approx(float(slope.abs().max()), rel=1e-6)


def test_a_part_with_one_derivative_is_not_left_out():
    """torch's second derivative of the sum is that of x³ alone, without a word."""
    (x,) = vectors(torch.Size([3, 2]))
    v = torch.ones_like(x)
    mixed = Products(lambda z: Once.apply(z) + z**3, x)
    assert torch.allclose(mixed.push(v), x.cos() + 3 * x**2) and mixed.mode == "forward"
    with pytest.raises(ValueError, match="a part of f is only once differentiable"):
        Products(lambda z: Once.apply(z) + z**3, x, "reverse").push(v)


def test_a_fused_layer_by_differences():
    torch.manual_seed(0)
    layer = L2Attention(4, 2, fused=False).to(DTYPE)
    (x,) = vectors(torch.Size([6, 4]))
    truth = {p: jacobian_norm(layer, x, p, method="exact").value for p in ("two", "inf")}
    layer.fused = True
    found = jacobian_norm(layer, x, method="free", mode="difference", tolerance=1e-7, iterations=2000)
    assert found.converged and found.value == pytest.approx(truth["two"], rel=1e-9)
    with warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", message="There is a performance drop"
        )  # torch: the kernel has no batching rule
        assert jacobian_norm(layer, x, "inf", method="free").value == pytest.approx(truth["inf"], rel=1e-9)
        assert jacobian_norm(layer, x, "inf", method="exact").value == pytest.approx(truth["inf"], rel=1e-9)


def test_differences_far_from_the_origin_and_along_nothing():
    x = torch.full((3,), 1e4, dtype=DTYPE)
    products = Products(lambda z: z.square(), x, "difference")
    v = torch.tensor([1e-8, 0.0, 0.0], dtype=DTYPE)
    assert torch.allclose(products.push(v), 2 * x * v, rtol=1e-6)
    assert torch.equal(products.push(torch.zeros_like(x)), torch.zeros_like(x))


@pytest.mark.parametrize("p", ["two", "inf"])
def test_no_tensor_is_larger_than_a_few_times_the_input(p):
    """A token-wise network on ever more tokens: free is linear in x, the whole Jacobian (the control) is not."""
    net = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4)).to(DTYPE)

    def largest(tokens: int, method: str) -> int:
        (x,) = vectors(torch.Size([tokens, 4]))
        with Largest() as seen:
            jacobian_norm(net, x, p, method=method, block=4, iterations=30)
        return seen.numbers

    few, many = (largest(tokens, "free") for tokens in (16, 64))
    assert many <= 4 * few and many <= 8 * 64 * 4
    assert largest(64, "exact") >= (64 * 4) ** 2 > 8 * 64 * 4


def test_what_is_refused():
    with pytest.raises(ValueError, match="f returns tuple"):
        Products(lambda x: (x, x), torch.ones(2))  # type: ignore[arg-type, return-value]
    with pytest.raises(ValueError, match="mode: 'sideways'"):
        Products(torch.sin, torch.ones(2), "sideways")
