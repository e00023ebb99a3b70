"""Jacobians and their norms against finite differences, the paper's formulas and dense linear algebra."""

import math
import warnings
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from relearn.layers.dot_product_attention import DotProductAttention
from relearn.layers.l2_attention import L2Attention
from relearn.layers.long_short_attention import LongShortAttention
from relearn.measures.lipschitz import Products, ascend, jacobian, jacobian_norm

N, D = 5, 3
DTYPE = torch.float64


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=DTYPE)


class Cube(torch.autograd.Function):
    """x³ in the old form: no forward mode, no rule for torch.func, but a backward pass that can be differentiated."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, u):
        (x,) = ctx.saved_tensors
        return 3 * x**2 * u


def convolutions() -> nn.Module:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(2, 3, 3, padding=1), nn.ReLU(), nn.Conv2d(3, 2, 3, stride=2), nn.Flatten(0))
    return net.to(DTYPE)


def perceptron() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(D, 7), nn.ReLU(), nn.Linear(7, 4), nn.Tanh()).to(DTYPE)


def attention(kind: type, dim: int = 4, heads: int = 2) -> nn.Module:
    torch.manual_seed(2)
    return kind(dim, heads, fused=False).to(DTYPE)


CASES: dict[str, tuple[Callable[[Tensor], Tensor], Tensor]] = {
    "function": (lambda x: torch.stack([x.prod(), (x.sin() @ x.T).sum()]), draw(N, D)),
    "module": (perceptron(), draw(N, D)),
    "convolutions": (convolutions(), draw(2, 7, 7)),
    "l2 attention": (attention(L2Attention), draw(N, 4)),
    "dot-product attention": (attention(DotProductAttention), draw(N, 4)),
    "no forward mode": (Cube.apply, draw(N, D)),
    "scalar": (lambda x: x.square().sum(), draw(N)),
}


def differences(f: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """The slow truth, which knows no derivative."""
    h, columns = 1e-6, []
    for j in range(x.numel()):
        shift = torch.zeros(x.numel(), dtype=DTYPE)
        shift[j] = h
        shift = shift.view(x.shape)
        with torch.no_grad():
            columns.append((f(x + shift) - f(x - shift)).flatten() / (2 * h))
    return torch.stack(columns, 1)


@pytest.mark.parametrize("name", CASES)
def test_the_jacobian_is_that_of_finite_differences(name):
    f, x = CASES[name]
    assert torch.allclose(jacobian(f, x), differences(f, x), rtol=1e-6, atol=1e-7)


def test_of_a_linear_map_it_is_the_matrix():
    matrix = draw(4, 6)
    assert torch.equal(jacobian(lambda x: matrix @ x, draw(6)), matrix)
    whole = torch.kron(torch.eye(N, dtype=DTYPE), matrix)  # rows of X one after the other
    assert torch.allclose(jacobian(lambda x: x @ matrix.T, draw(N, 6)), whole)


def softmax_terms(x: Tensor, logits: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    p = logits.softmax(1)
    mean = p @ x
    spread = torch.stack([torch.diag(row) - torch.outer(row, row) for row in p])  # P^(i)
    return p, mean, x.T @ spread @ x


def test_of_tied_l2_attention_it_is_the_papers_formula():
    """equations.md section 7: J_ii = 2A X'P^(i)X A + P_ii A, J_ij = 2 P_ij A (x_j - mean)(x_i - x_j)' A + P_ij A, as rows F_i."""
    layer: L2Attention = attention(L2Attention, D, 1)  # type: ignore[assignment]
    x = 0.7 * draw(N, D, seed=4)
    wq, wv, wo = (one.detach() for one in layer.maps())
    a = wq[0] @ wq[0].T / math.sqrt(D)
    y = x @ wq[0]
    p, mean, covariance = softmax_terms(x, -(y[:, None] - y).square().sum(2) / math.sqrt(D))
    found = jacobian(layer, x).view(N, D, N, D)
    for i in range(N):
        for j in range(N):
            block = 2 * p[i, j] * a @ torch.outer(x[j] - mean[i], x[i] - x[j]) @ a + p[i, j] * a
            if i == j:
                block = block + 2 * a @ covariance[i] @ a
            assert torch.allclose(found[i, :, j], (wv[0] @ wo).T @ block, atol=1e-12), (i, j)


def test_of_dot_product_attention_it_is_the_papers_formula():
    """J_ij = X'P^(i) [e_ji X A' + X A delta_ij] + P_ij I with A = W^K W^Q'/s, before W^V and W^O (section 3.1)."""
    layer: DotProductAttention = attention(DotProductAttention, D, 1)  # type: ignore[assignment]
    x = draw(N, D, seed=5)
    wq, wk, wv, wo = (one.detach() for one in layer.maps())
    a = wk[0] @ wq[0].T / math.sqrt(D)
    p, _, _ = softmax_terms(x, x @ a.T @ x.T)
    found = jacobian(layer, x).view(N, D, N, D)
    for i in range(N):
        spread = torch.diag(p[i]) - torch.outer(p[i], p[i])
        for j in range(N):
            e = torch.zeros(N, N, dtype=DTYPE)
            e[j, i] = 1
            inner = e @ x @ a.T + (x @ a if i == j else 0)
            block = x.T @ spread @ inner + p[i, j] * torch.eye(D, dtype=DTYPE)
            assert torch.allclose(found[i, :, j], (wv[0] @ wo).T @ block, atol=1e-12), (i, j)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("basis", [1, 4])
def test_both_ways_to_both_norms(name, basis):
    f, x = CASES[name]
    dense = differences(f, x)
    free = jacobian_norm(f, x, "two", method="free", tolerance=1e-9, iterations=5000, basis=basis)
    assert free.converged and free.residual <= 1e-9
    assert free.value == pytest.approx(float(torch.linalg.svdvals(dense)[0]), rel=1e-6)
    assert jacobian_norm(f, x, "two", method="exact").value == pytest.approx(free.value, rel=1e-9)
    assert free.direction is not None and free.direction.shape == x.shape
    stretched = (dense @ free.direction.flatten()).norm() / free.direction.norm()
    assert float(stretched) == pytest.approx(free.value, rel=1e-6)
    rows = float(dense.abs().sum(1).max())
    exact = jacobian_norm(f, x, "inf", method="exact").value
    assert exact == pytest.approx(rows, rel=1e-6)
    for block in (1, 2, 1000):
        assert jacobian_norm(f, x, "inf", method="free", block=block).value == pytest.approx(exact, rel=1e-12)


@given(st.integers(0, 1000), st.integers(1, 9), st.integers(1, 9), st.sampled_from([1, 2, 5]))
@settings(max_examples=25)
def test_the_norm_of_any_matrix_is_found_from_products(seed, rows, columns, basis):
    matrix = draw(rows, columns, seed=seed)
    x = torch.zeros(columns, dtype=DTYPE)
    found = jacobian_norm(
        lambda z: matrix @ z, x, method="free", tolerance=1e-7, iterations=100_000, basis=basis
    )
    assert found.converged
    assert found.value == pytest.approx(float(torch.linalg.matrix_norm(matrix, 2)), rel=1e-6)
    assert found.value <= float(torch.linalg.matrix_norm(matrix, 2)) * (1 + 1e-12)


def with_values(values: list[float]) -> Callable[[Tensor], Tensor]:
    """A linear map with these singular values and random vectors."""
    n = len(values)
    left, right = (torch.linalg.qr(draw(n, n, seed=seed))[0] for seed in (1, 2))
    matrix = left @ torch.diag(torch.tensor(values, dtype=DTYPE)) @ right
    return lambda x: matrix @ x


def test_a_small_gap_is_no_obstacle_and_the_certificate_holds():
    """The largest two differ by 1e-6: vectors take long, the value and its residual do not."""
    f = with_values([1.0, 1.0 - 1e-6, *torch.linspace(0.9, 0.0, 38).tolist()])
    found = jacobian_norm(f, torch.zeros(40, dtype=DTYPE), method="free", tolerance=1e-4)
    assert found.converged and found.iterations < 60
    assert 1 - found.value <= found.residual <= 1e-4
    sharp = jacobian_norm(f, torch.zeros(40, dtype=DTYPE), method="free", tolerance=1e-12, basis=24)
    assert sharp.converged and sharp.value == pytest.approx(1.0, abs=1e-12)


def test_too_few_iterations_are_reported_and_still_a_lower_bound():
    f = with_values(torch.linspace(1.0, 0.0, 200).tolist())
    x = torch.zeros(200, dtype=DTYPE)
    short = jacobian_norm(f, x, method="free", iterations=5, basis=1)
    assert not short.converged and short.residual > 1e-4 and short.iterations == 5
    assert 0.5 < short.value < 1 - 1e-4
    enough = jacobian_norm(f, x, method="free", iterations=5000, basis=1)
    assert enough.converged and enough.iterations > 5 and enough.value == pytest.approx(1.0, abs=1e-3)


def test_more_vectors_need_fewer_products_than_power_iteration():
    f = with_values(torch.linspace(1.0, 0.0, 200).tolist())
    x = torch.zeros(200, dtype=DTYPE)
    counts = [
        jacobian_norm(f, x, method="free", iterations=5000, basis=basis).iterations for basis in (1, 16)
    ]
    assert counts[1] < counts[0] / 2


def test_a_good_start_saves_and_a_bad_one_does_no_harm():
    f = with_values([2.0, 1.9, *[0.5] * 38])
    x = torch.zeros(40, dtype=DTYPE)
    cold = jacobian_norm(f, x, method="free", basis=1)
    assert cold.direction is not None
    warm = jacobian_norm(f, x, method="free", basis=1, start=cold.direction)
    assert warm.value == pytest.approx(2.0, rel=1e-4) and warm.iterations < cold.iterations / 2
    astray = draw(40, seed=9)
    astray -= (astray @ cold.direction) * cold.direction  # all but orthogonal to the vector sought
    assert jacobian_norm(f, x, method="free", tolerance=1e-6, start=astray).value == pytest.approx(
        2.0, rel=1e-5
    )


@pytest.mark.parametrize("basis", [1, 8])
def test_a_start_that_is_another_singular_vector_does_not_hold_the_search(basis):
    """There the residual is 0 at once: without chance in the start the answer would be 1."""
    values = torch.tensor([2.0, 1.0, 0.5], dtype=DTYPE)
    start = torch.tensor([0.0, 1.0, 0.0], dtype=DTYPE)
    found = jacobian_norm(
        lambda x: values * x, torch.zeros(3, dtype=DTYPE), method="free", basis=basis, start=start
    )
    assert found.converged and found.value == pytest.approx(2.0, rel=1e-6)


@pytest.mark.parametrize("p", ["two", "inf"])
@pytest.mark.parametrize("method", ["exact", "free"])
def test_a_function_that_does_not_depend_on_its_input_has_norm_0(p, method):
    for f in (lambda x: torch.ones(3, dtype=DTYPE), lambda x: x.detach() + 1, lambda x: 0 * x):
        found = jacobian_norm(f, draw(N), p, method=method)
        assert found.value == 0 and found.converged


def test_the_norm_is_that_of_the_point_not_of_another():
    for x in (0.0, 0.5, 2.0):
        at = torch.full((4,), x, dtype=DTYPE)
        for p in ("two", "inf"):
            assert jacobian_norm(torch.sin, at, p, method="free").value == pytest.approx(abs(math.cos(x)))


@pytest.mark.parametrize("call", [jacobian, jacobian_norm, lambda f, x: ascend(f, x, steps=1)])
@pytest.mark.parametrize("part", ["dropout", "attention", "batch_norm"])
def test_a_module_that_is_no_fixed_function_is_refused_until_eval(call, part):
    made = {
        "dropout": nn.Dropout(0.5),
        "attention": LongShortAttention(4, 2, window=0, attention_dropout=0.5, fused=False),
        "batch_norm": nn.BatchNorm1d(3),
    }
    x = draw(2, 3, *([4] if part == "attention" else [])).float()
    net = nn.Sequential(nn.Identity(), made[part])
    with pytest.raises(ValueError, match=r"^f: 1: .*(draws in|the batch) .*\(allowed: eval.*\)$"):
        call(net.train(), x)
    call(net.eval(), x)
    call(nn.Sequential(nn.Linear(x.shape[-1], 2), nn.Dropout(0.0)).train(), x)  # needs no eval


def test_parameters_get_no_gradient_and_a_module_stays_as_it_was():
    net = perceptron().train()
    before = [one.clone() for one in net.parameters()]
    jacobian_norm(net, draw(N, D), method="free")
    assert all(one.grad is None for one in net.parameters()) and net.training
    assert all(torch.equal(one, two) for one, two in zip(net.parameters(), before))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_lower_precisions_agree_within_their_rounding(dtype):
    layer, x = attention(L2Attention), draw(N, 4)
    truth = {p: jacobian_norm(layer, x, p).value for p in ("two", "inf")}
    low = attention(L2Attention).to(dtype)
    for p, value in truth.items():
        for method in ("exact", "free"):
            found = jacobian_norm(low, x.to(dtype), p, method=method, tolerance=1e-2).value
            assert found == pytest.approx(value, rel=1e-5 if dtype == torch.float32 else 0.1)


def test_auto_writes_small_ones_down_and_no_others():
    small, large = draw(20, 3), draw(400)
    assert jacobian_norm(lambda x: small @ x, draw(3)).direction is None
    assert jacobian_norm(lambda x: 2 * x, large, tolerance=1e-6).direction is not None


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"p": "one"}, "p: 'one'"),
        ({"method": "fast"}, "method: 'fast'"),
        ({"method": "free", "mode": "slow"}, "mode: 'slow'"),
        ({"tolerance": 0.0}, "tolerance 0.0"),
        ({"basis": 0}, "basis 0"),
        ({"block": 0}, "block 0"),
    ],
)
def test_wrong_arguments_are_refused(change, match):
    with pytest.raises(ValueError, match=match):
        jacobian_norm(torch.sin, draw(N), **change)


@pytest.mark.parametrize("method", ["exact", "free"])
@pytest.mark.parametrize("p", ["two", "inf"])
def test_numbers_that_are_not_finite_are_refused(method, p):
    with pytest.raises(ValueError, match="allowed: finite"):
        jacobian_norm(torch.log, torch.zeros(3, dtype=DTYPE), p, method=method)
    with pytest.raises(ValueError, match="floating point"):
        jacobian_norm(lambda x: x, torch.zeros(3, dtype=torch.int64), p, method="free")


# products with a Jacobian ----------------------------------------------------------------------------------------------

# Products with a Jacobian in all modes, what they need, and how much they hold at once.


DTYPE_PRODUCTS = torch.float64


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
    return [torch.randn(shape, generator=generator, dtype=DTYPE_PRODUCTS) for shape in shapes]


@pytest.mark.filterwarnings("ignore:`torch.jit.script`:DeprecationWarning")  # torch's own, in forward mode
@pytest.mark.parametrize("mode", ["auto", "reverse", "forward", "difference"])
def test_every_mode_gives_the_columns_and_rows_of_the_jacobian(mode):
    torch.manual_seed(0)
    layer = L2Attention(4, 2, fused=False).to(DTYPE_PRODUCTS)
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
    layer = L2Attention(4, 2, fused=False).to(DTYPE_PRODUCTS)
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
    x = torch.full((3,), 1e4, dtype=DTYPE_PRODUCTS)
    products = Products(lambda z: z.square(), x, "difference")
    v = torch.tensor([1e-8, 0.0, 0.0], dtype=DTYPE_PRODUCTS)
    assert torch.allclose(products.push(v), 2 * x * v, rtol=1e-6)
    assert torch.equal(products.push(torch.zeros_like(x)), torch.zeros_like(x))


@pytest.mark.parametrize("p", ["two", "inf"])
def test_no_tensor_is_larger_than_a_few_times_the_input(p):
    """A token-wise network on ever more tokens: free is linear in x, the whole Jacobian (the control) is not."""
    net = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4)).to(DTYPE_PRODUCTS)

    def largest(tokens: int, method: str) -> int:
        (x,) = vectors(torch.Size([tokens, 4]))
        with Largest() as seen:
            jacobian_norm(net, x, p, method=method, block=4, iterations=30)
        return seen.numbers

    few, many = (largest(tokens, "free") for tokens in (16, 64))
    assert many <= 4 * few and many <= 8 * 64 * 4
    assert largest(64, "exact") >= (64 * 4) ** 2 > 8 * 64 * 4


def test_what_is_refused_products():
    with pytest.raises(ValueError, match="f returns tuple"):
        Products(lambda x: (x, x), torch.ones(2))  # type: ignore[arg-type, return-value]
    with pytest.raises(ValueError, match="mode: 'sideways'"):
        Products(torch.sin, torch.ones(2), "sideways")


@pytest.mark.parametrize("p", ["two", "inf"])
@pytest.mark.parametrize("mode", ["auto", "reverse", "forward", "difference"])
def test_no_product_is_zero_for_inference_mode(p: str, mode: str) -> None:
    f, x = nn.Linear(5, 5).eval(), torch.randn(5)
    with torch.inference_mode(), pytest.raises(ValueError, match=r"^inference_mode: found on, "):
        jacobian_norm(f, x, p, method="free", mode=mode)
    assert jacobian_norm(f, x, p, method="free", mode=mode).value > 0.1
