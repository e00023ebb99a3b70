"""Jacobians and their norms against finite differences, the paper's formulas and dense linear algebra."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from relearn.layers.dot_product_attention import DotProductAttention
from relearn.layers.l2_attention import L2Attention
from relearn.measures.lipschitz import jacobian, jacobian_norm

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
@settings(deadline=None, max_examples=25)
def test_any_matrix(seed, rows, columns, basis):
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


def test_parameters_get_no_gradient_and_a_module_stays_as_it_was():
    net = perceptron().train()
    before = [one.clone() for one in net.parameters()]
    jacobian_norm(net, draw(N, D), method="free")
    assert all(one.grad is None for one in net.parameters()) and net.training
    assert all(torch.equal(one, two) for one, two in zip(net.parameters(), before))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_lower_precisions(dtype):
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
def test_what_is_refused(change, match):
    with pytest.raises(ValueError, match=match):
        jacobian_norm(torch.sin, draw(N), **change)


@pytest.mark.parametrize("method", ["exact", "free"])
@pytest.mark.parametrize("p", ["two", "inf"])
def test_numbers_that_are_not_finite_are_refused(method, p):
    with pytest.raises(ValueError, match="allowed: finite"):
        jacobian_norm(torch.log, torch.zeros(3, dtype=DTYPE), p, method=method)
    with pytest.raises(ValueError, match="floating point"):
        jacobian_norm(lambda x: x, torch.zeros(3, dtype=torch.int64), p, method="free")
