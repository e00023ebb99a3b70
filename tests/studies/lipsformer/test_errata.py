"""qi2023: formulas that do not hold as printed, each with its counter-example and its corrected form.

Slow float64 code that uses nothing of ours: attention by its definition, Jacobians by automatic differentiation.
Errata whose numbers the tests of ``maths`` and ``measures`` have already are tested there; errata.yaml says where.
"""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from ..derivatives import jacobian, norm, normal, seeds

INF = math.inf


def eye(n: int) -> Tensor:
    return torch.eye(n, dtype=torch.float64)


def zeros(*shape: int) -> Tensor:
    return torch.zeros(shape, dtype=torch.float64)


def hat(u: Tensor, eps: float) -> Tensor:
    return u / (u.square().sum(-1, keepdim=True) + eps).sqrt()


def attention(x: Tensor, wq: Tensor, wk: Tensor, wv: Tensor, tau=1.0, nu=1.0, eps=1.0) -> Tensor:
    """SCSA by its definition (section 4.1.2); x (N, D), maps (D, d)."""
    return nu * (tau * hat(x @ wq, eps) @ hat(x @ wk, eps).T).softmax(-1) @ hat(x @ wv, eps)


def measured(x: Tensor, *maps: Tensor, p: float, **numbers: float) -> float:
    return norm(jacobian(lambda z: attention(z, *maps, **numbers), x), p)


def theorem_1_inf(
    n: int, wq: Tensor, wk: Tensor, wv: Tensor, tau=1.0, nu=1.0, eps=1.0, *, transposed, last
) -> float:
    """Theorem 1, p = ∞, with or without transposes at W^K and W^Q, and with a factor for the last term."""
    k, q = (norm(w.T if transposed else w, INF) for w in (wk, wq))
    d = math.sqrt(wq.shape[0])
    return nu * eps**-0.5 * (n * n * d * tau * k + n * d * tau * q + last * n * norm(wv.T, INF))


def problem(
    seed: int, n: int, shape: tuple[int, int], size: float
) -> tuple[Tensor, tuple[Tensor, Tensor, Tensor]]:
    dim, width = shape
    wq, wk, wv = (normal(seed + i, dim, width) for i in range(3))
    return size * normal(seed + 3, n, dim), (wq, wk, wv)


problems = st.builds(
    problem,
    seeds,
    st.integers(1, 6),
    st.sampled_from([(1, 1), (2, 2), (4, 2), (3, 5), (6, 1)]),
    st.floats(0.05, 20),
)

# Q1: the constant of an affine map


def test_q1_the_largest_eigenvalue_is_not_the_constant() -> None:
    w = torch.tensor([[1.0, 100.0], [0.0, 1.0]]).double()
    assert float(torch.linalg.eigvals(w).abs().max()) == 1
    assert norm(w) == pytest.approx(100.01, abs=1e-4)
    x = torch.tensor([100.0, 1.0]).double() / math.hypot(100, 1)
    assert float((w @ x).norm()) > 1.9 > 1 == float(torch.linalg.eigvals(w).abs().max())
    with pytest.raises(RuntimeError):
        torch.linalg.eigvals(normal(0, 2, 3))  # and most layers have no eigenvalue at all


# Q4: CenterNorm


def centre(dim: int) -> Tensor:
    return (eye(dim) - 1 / dim) * dim / (dim - 1)


def test_q4_about_one_is_two_for_the_other_norm_and_for_two_channels() -> None:
    assert norm(centre(64)) == pytest.approx(1.015873, abs=5e-7)
    assert norm(centre(64), INF) == pytest.approx(2) and norm(centre(2)) == pytest.approx(2)
    plain = eye(64) - 1 / 64  # what the factor is said to make up for: no centred vector is contracted
    assert float(torch.linalg.eigvalsh(plain)[1]) == pytest.approx(1)


# Q5: theorem 1, p = 2


def test_q5_a_block_row_is_smaller_than_the_whole() -> None:
    x, maps = zeros(4, 3), (normal(0, 3, 3), normal(1, 3, 3), eye(3))
    whole = jacobian(lambda z: attention(z, *maps, tau=12.0), x)
    assert norm(whole[:3]) == pytest.approx(0.5) and norm(whole) == pytest.approx(1)


# Q6: equation 17, for Q10


def slope_row_sum(u: Tensor) -> float:
    return norm(jacobian(lambda z: hat(z, 1.0), u), INF)


def eighty_one() -> Tensor:
    x = torch.full((81,), 0.1).double()
    x[0] = 0.8
    return x


# Q7: equation 18


def softmax_slope(p: Tensor) -> Tensor:
    return p.diag() - torch.outer(p, p)


def test_q7_the_two_norm_is_below_the_frobenius_norm() -> None:
    slope = softmax_slope(torch.tensor([0.5, 0.3, 0.2]).double())
    assert [norm(slope), float(slope.norm())] == pytest.approx([0.3881, 0.4521], abs=5e-5)


@given(seeds, st.integers(1, 8))
@settings(max_examples=40)
def test_q7_one_half_bounds_it_and_is_attained(seed: int, n: int) -> None:
    p = (3 * normal(seed, n)).softmax(0)
    assert norm(softmax_slope(p)) <= min(0.5, (n - 1) / n) + 1e-12
    half = zeros(max(n, 2))
    half[:2] = 0.5
    assert norm(softmax_slope(half)) == pytest.approx(0.5)


# Q8: equation 11


def blocks(
    x: Tensor, wq: Tensor, wk: Tensor, wv: Tensor, tau: float, eps: float, *, transposed: bool
) -> Tensor:
    """Equation 11, block by block, for d = D."""
    q, k, v = (hat(x @ w, eps) for w in (wq, wk, wv))
    p = (tau * q @ k.T).softmax(-1)

    def slope(w: Tensor, j: int) -> Tensor:  # equations 7 to 9
        u = w.T @ x[j]
        size = u @ u + eps
        return (eye(len(u)) - torch.outer(u, u) / size) @ w.T / size.sqrt()

    rows = []
    for i in range(len(x)):
        row = []
        for j in range(len(x)):
            kt, qt = slope(wk, j), slope(wq, j)
            kt, qt = (kt.T, qt.T) if transposed else (kt, qt)
            one = zeros(len(x), len(x))
            one[j, i] = 1
            inner = one @ q @ kt + (k @ qt if i == j else 0)
            row.append(tau * v.T @ softmax_slope(p[i]) @ inner + p[i, j] * slope(wv, j))
        rows.append(torch.cat(row, 1))
    return torch.cat(rows, 0)


def test_q8_the_printed_jacobian_is_not_that_of_the_attention() -> None:
    x, maps = normal(0, 3, 3), tuple(normal(i, 3, 3) for i in (1, 2, 3))
    true = jacobian(lambda z: attention(z, *maps), x)
    assert float((blocks(x, *maps, 1.0, 1.0, transposed=True) - true).abs().max()) > 1e-3
    with pytest.raises(RuntimeError):  # for d ≠ D the product does not exist
        blocks(normal(0, 2, 4), *(normal(i, 4, 2) for i in (1, 2, 3)), 1.0, 1.0, transposed=True)


@given(problems, st.floats(0.1, 12))
@settings(max_examples=20)
def test_q8_without_the_transposes_it_is(case, tau: float) -> None:
    x, maps = case
    true = jacobian(lambda z: attention(z, *maps, tau=tau, eps=0.5), x)
    torch.testing.assert_close(blocks(x, *maps, tau, 0.5, transposed=False), true, rtol=1e-8, atol=1e-9)


# Q9 and Q10: theorem 1, p = ∞


def ones_column(dim: int, size: float, far: float) -> tuple[Tensor, tuple[Tensor, Tensor, Tensor]]:
    """Square maps as in the paper; only the first column of each is not 0."""
    wq, wk, wv, x = zeros(dim, dim), zeros(dim, dim), zeros(dim, dim), zeros(2, dim)
    wk[:, 0] = 1
    wq[0, 0], wv[1, 0] = size, size
    x[0, :3], x[1, :3] = torch.tensor([far, far, -2 * far]), torch.tensor([far, -far, 0.0])
    return x, (wq, wk, wv)


def test_q9_a_jacobian_exceeds_the_printed_bound() -> None:
    x, maps = ones_column(36, 0.01, 1e4)
    printed = theorem_1_inf(2, *maps, transposed=False, last=2)
    assert printed == pytest.approx(24.16) and measured(x, *maps, p=INF) == pytest.approx(35.9964, abs=1e-4)
    x, maps = ones_column(64, 1.0, 100.0)
    printed = theorem_1_inf(2, *maps, tau=12.0, transposed=False, last=2)
    assert printed == pytest.approx(580) and measured(x, *maps, p=INF, tau=12.0) == pytest.approx(
        767.92, abs=0.01
    )


def test_q10_the_factor_of_the_last_term_is_too_small() -> None:
    none = zeros(81, 81)
    x, maps = eighty_one()[None], (none, none, eye(81))
    assert theorem_1_inf(1, *maps, transposed=True, last=2) == 2
    assert measured(x, *maps, p=INF) == pytest.approx(2.151439, abs=5e-7)
    none = zeros(400, 400)
    b, first = 9.5, math.sqrt((1 - 1 / 20) / 2)
    row = torch.full((400,), math.sqrt((1 - first**2) / 399)).double()
    row[0] = first
    t = (2 * b - 1) / (3 * b)
    x = (row * math.sqrt(t / (1 - t))).expand(2, 400).clone()
    # W^Q = W^K = 0: both rows of the map are the mean of the two slopes
    found = 2 * 0.5 * slope_row_sum(x[0])
    assert found == pytest.approx(4.2488, abs=5e-5) and found > theorem_1_inf(
        2, none, none, eye(400), transposed=True, last=2
    )


# Q11: residual shortcuts


def shortcut(factor: float, alpha: Tensor) -> float:
    """Norm of x + α ⊙ (factor x)."""
    return norm(jacobian(lambda x: x + alpha * (factor * x), zeros(len(alpha))))


def test_q11_the_printed_equalities_fail_in_both_directions() -> None:
    one = torch.ones(2).double()
    assert shortcut(-1.0, -0.9 * one) == pytest.approx(1.9)  # printed 1 + max(α) = 0.1
    assert shortcut(-1.0, 0.5 * one) == pytest.approx(0.5)  # printed 1.5
    assert shortcut(-0.5, one) == pytest.approx(0.5)  # printed 1.5, "strictly expansive"


@given(seeds, st.integers(1, 5))
@settings(max_examples=30)
def test_q11_the_modulus_gives_an_upper_bound(seed: int, dim: int) -> None:
    w, alpha = normal(seed, dim, dim), normal(seed + 1, dim)
    found = norm(jacobian(lambda x: x + alpha * (w @ x), zeros(dim)))
    bound = 1 + float(alpha.abs().max()) * norm(w)
    assert found <= bound * (1 + 1e-12)
    top = int(alpha.abs().argmax())
    aligned = zeros(dim, dim)
    aligned[top, top] = float(alpha[top].sign())
    assert norm(jacobian(lambda x: x + alpha * (aligned @ x), zeros(dim))) == pytest.approx(
        1 + float(alpha.abs().max())
    )


# Q12: spectral initialisation of convolutions


def convolution_matrix(weight: Tensor, size: int, groups: int, *, circular: bool, stride: int = 1) -> Tensor:
    channels, k = weight.shape[1] * groups, weight.shape[-1]
    basis = torch.eye(channels * size**2, dtype=torch.float64).view(-1, channels, size, size)
    padding = 0 if stride > 1 else k // 2
    if circular:
        basis, padding = torch.nn.functional.pad(basis, [padding] * 4, mode="circular"), 0
    return (
        torch.nn.functional.conv2d(basis, weight, stride=stride, padding=padding, groups=groups).flatten(1).T
    )


def test_q12_a_kernel_of_norm_one_can_stretch_by_its_side() -> None:
    for k in (3, 7):
        weight = torch.full((1, 1, k, k), 1 / k).double()
        assert norm(weight.flatten(1)) == pytest.approx(1)
        assert norm(convolution_matrix(weight, 8, 1, circular=True)) == pytest.approx(k)
        assert 0.7 * k < norm(convolution_matrix(weight, 12, 1, circular=False)) < k
    weight = normal(0, 8, 1, 7, 7)
    weight = weight / norm(weight.flatten(1))
    per_channel = [norm(convolution_matrix(one[None], 14, 1, circular=False)) for one in weight]
    assert max(per_channel) > 1.5  # a random depth-wise one of few channels
    many = normal(1, 384, 1, 7, 7)  # and of many, on a torus, where the Fourier basis shows the norm
    assert float(torch.fft.fft2(many, (28, 28)).abs().max()) < 0.95 * norm(many.flatten(1))


# Q13: theorem 2


def test_q13_what_the_norms_add_to_the_published_sizes() -> None:
    sizes = {  # blocks, first width: qi2023, tables 4 and 5; two CenterNorms a block
        "CSwin-T": ((1, 2, 21, 1), 64, 1.260),
        "CSwin-S": ((2, 4, 32, 2), 64, 1.468),
        "CSwin-B": ((2, 4, 32, 2), 96, 1.291),
        "Swin-T": ((2, 2, 6, 2), 96, 1.104),
        "Swin-B": ((2, 2, 18, 2), 128, 1.129),
    }
    for depths, width, factor in sizes.values():
        widths = [width * 2**stage for stage in range(4)]
        product = math.prod((d / (d - 1)) ** (2 * count) for d, count in zip(widths, depths))
        assert product == pytest.approx(factor, abs=5e-4)


# Q14: DropPath


def kept_factor(alpha: float, constant: float, p: float, *, rescaled: bool) -> float:
    return 1 + alpha * constant / ((1 - p) if rescaled else 1)


def test_q14_with_rescaling_a_kept_branch_has_a_larger_factor() -> None:
    assert kept_factor(0.5, 1.0, 0.5, rescaled=False) == 1.5
    assert kept_factor(0.5, 1.0, 0.5, rescaled=True) == 2.0
    dropped = torch.nn.functional.dropout(torch.ones(1000), 0.5, training=True)
    assert dropped.unique().tolist() == [0.0, 2.0]  # torch rescales, and timm's DropPath does by default


@given(st.floats(-1, 1), st.floats(0, 10), st.floats(0, 0.95))
def test_q14_the_mean_factor_falls_without_and_stays_with_rescaling(
    alpha: float, constant: float, p: float
) -> None:
    alpha = abs(alpha)
    means = {
        rescaled: p + (1 - p) * kept_factor(alpha, constant, p, rescaled=rescaled)
        for rescaled in (False, True)
    }
    assert means[False] == pytest.approx(1 + (1 - p) * alpha * constant)
    assert means[True] == pytest.approx(1 + alpha * constant) and means[False] <= means[True] + 1e-12
    # and the largest factor that can occur is at least that without dropping
    assert kept_factor(alpha, constant, p, rescaled=True) >= 1 + alpha * constant
