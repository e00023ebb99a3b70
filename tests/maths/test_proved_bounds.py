"""docs/bounds-with-proofs.md: every numbered inequality of the three proofs, on random cases in float64, by its number there."""

import math

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from relearn.maths.cosine_bounds import cosine_bound, unit_factor
from relearn.maths.l2_bounds import growth
from relearn.maths.lambert import covariance_bound

UP = 1 + 1e-9
cases = st.tuples(
    st.integers(0, 10_000), st.integers(1, 9), st.integers(1, 4), st.floats(-1, 1), st.booleans()
)


def normal(seed: int, *shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def norm(matrix: Tensor, p: float = 2) -> float:
    return float(torch.linalg.matrix_norm(matrix, p))


def mask_of(seed: int, n: int, masked: bool) -> Tensor:
    seen = torch.rand(n, n, generator=torch.Generator().manual_seed(seed)) < 0.5
    return (seen if masked else torch.ones_like(seen)) | torch.eye(n, dtype=torch.bool)


def size_of_row(z: Tensor) -> float:
    return float(z.abs().sum())


# K11 --------------------------------------------------------------------------------------------------------------------


def weights(y: Tensor, seen: Tensor) -> Tensor:
    squares = (y[:, None] - y[None]).square().sum(-1)
    return (-squares).masked_fill(~seen, -math.inf).softmax(1)


@given(cases)
@settings(max_examples=80)
def test_every_step_of_the_bound_on_l2_attention_holds(case: tuple[int, int, int, float, bool]) -> None:
    seed, n, width, power, masked = case
    y, seen = 10**power * normal(seed, n, width), mask_of(seed, n, masked)
    p, c = weights(y, seen), covariance_bound(n)
    apart, centred = y[:, None] - y[None], y[None] - (p @ y)[:, None]
    squares = apart.square().sum(-1)
    cov = torch.einsum("ij,ija,ijb->iab", p, centred, centred)
    b = torch.einsum("ij,ija,ijb->iajb", p, centred, apart).reshape(n * width, n * width)

    # (1) the three parts are the Jacobian
    jacobian = torch.func.jacrev(lambda one: weights(one, seen) @ one)(y).reshape(n * width, n * width)
    parts = torch.kron(p, torch.eye(width, dtype=torch.float64)) + 2 * torch.block_diag(*cov) + 2 * b
    torch.testing.assert_close(parts, jacobian, rtol=1e-9, atol=1e-11)
    # (2), and its step from t = c
    spread = (p * squares).sum(1)
    assert float(torch.linalg.matrix_norm(cov, 2).max()) <= c * UP + 1e-12
    assert float(torch.einsum("iaa->i", cov).max()) <= float(spread.max()) * UP + 1e-12
    assert float(spread.max()) <= c * UP + 1e-12
    q = squares[~torch.eye(n, dtype=torch.bool)]
    assert n == 1 or float(((-q).exp() * (q - c)).max()) <= math.exp(-1 - c) * UP
    assert abs((n - 1) * math.exp(-1 - c) - c) <= 1e-9 * max(1, c)
    # (3), (4)
    columns = float((p * squares).sum(0).max())
    assert norm(b) ** 2 <= c * columns * UP + 1e-12
    assert bool((p <= 1 / (1 + squares.exp()) + 1e-12)[~torch.eye(n, dtype=torch.bool)].all())
    assert columns <= covariance_bound(2) * (n - 1) * UP + 1e-12
    assert norm(p) <= math.sqrt(n) * UP
    assert norm(jacobian) <= growth(n, form="tight") * UP
    assert growth(n, form="tight") <= growth(n, form="corrected") * UP
    if masked:
        return
    # (5) to (7)
    kernel = (-squares).exp()
    d = kernel.sum(1)
    for v in (normal(seed + 1, n), normal(seed + 2, n).abs(), torch.eye(n, dtype=torch.float64)[0]):
        image = p @ v
        x = kernel @ v / d**2
        square = float(image @ image)
        torch.testing.assert_close(x @ kernel @ v, image @ image)
        assert float(x @ kernel @ x) <= float((d * x**2).sum()) * UP + 1e-12
        assert float((d * x**2).sum()) <= square * UP + 1e-12
        assert square <= float(v @ kernel @ v) * UP + 1e-12
        unit, h = v.abs() / v.norm(), n**-0.25
        low, high = torch.where(unit <= h, unit, 0.0), torch.where(unit > h, unit, 0.0)
        assert float((p @ low).norm()) <= h * math.sqrt(n) * UP and float((p @ high).norm()) <= UP / h
    assert norm(p) <= 2 * n**0.25 * UP
    assert float(p.square().sum(0).max()) <= UP
    if n >= 3:
        assert columns <= (math.sqrt(n) + 1) * math.log(n)
        assert norm(jacobian) <= growth(n, form="unmasked") * UP


# T1 and T2 --------------------------------------------------------------------------------------------------------------

EPS, NU = 0.3, 0.6


def hat(u: Tensor) -> Tensor:
    return u / (u.square().sum(-1, keepdim=True) + EPS).sqrt()


def slope(u: Tensor) -> Tensor:
    """(8), of rows (N, d): (N, d, d)."""
    outer = u[:, :, None] * u[:, None]
    size = u.square().sum(-1)[:, None, None] + EPS
    return (torch.eye(u.shape[1], dtype=torch.float64) - outer / size) / size.sqrt()


@given(cases, st.integers(1, 6), st.floats(0.1, 12))
@settings(max_examples=80)
def test_every_step_of_the_bounds_on_cosine_attention_holds(
    case: tuple[int, int, int, float, bool], head: int, tau: float
) -> None:
    seed, n, dim, power, masked = case
    x, (wq, wk, wv) = 10**power * normal(seed, n, dim), normal(seed + 1, 3, dim, head)
    bias = normal(seed + 2, n, n).masked_fill(~mask_of(seed, n, masked), -math.inf)

    def attention(one: Tensor) -> Tensor:
        return NU * (tau * hat(one @ wq) @ hat(one @ wk).T + bias).softmax(1) @ hat(one @ wv)

    q, k, v = (hat(x @ w) for w in (wq, wk, wv))
    slopes = {"q": slope(x @ wq), "k": slope(x @ wk), "v": slope(x @ wv)}
    p = (tau * q @ k.T + bias).softmax(1)
    centred = v[None] - (p @ v)[:, None]
    # (8)
    assert max(float(torch.linalg.matrix_norm(one, 2).max()) for one in slopes.values()) <= EPS**-0.5 * UP
    torch.testing.assert_close(
        torch.func.vmap(torch.func.jacrev(hat))(x @ wq), slopes["q"], rtol=1e-9, atol=1e-11
    )
    # (9): blocks (i, l, j, a), the derivative of coordinate l of token i by number a of token j
    cov = torch.einsum("ij,ijl,jb->ilb", p, centred, k)
    queries = torch.zeros(n, head, n, dim, dtype=torch.float64)
    for i in range(n):
        queries[i, :, i] = tau * cov[i] @ slopes["q"][i] @ wq.T
    keys = tau * torch.einsum("ij,ijl,ib,jbc,ac->ilja", p, centred, q, slopes["k"], wk)
    values = torch.einsum("ij,jlc,ac->ilja", p, slopes["v"], wv)
    flat = [one.reshape(n * head, n * dim) for one in (queries, keys, values)]
    jacobian = torch.func.jacrev(attention)(x).reshape(n * head, n * dim)
    torch.testing.assert_close(NU * sum(flat), jacobian, rtol=1e-8, atol=1e-10)
    # (10), (11) and the parts of T1
    assert float(torch.linalg.matrix_norm(cov, 2).max()) <= UP
    assert float((p * centred.square().sum(-1)).sum(1).max()) <= UP
    move = normal(seed + 3, n, head)
    by_keys = tau * torch.einsum("ij,ijl,ib,jb->il", p, centred, q, move)
    assert float(by_keys.square().sum()) <= tau**2 * n * float(move.square().sum()) * UP
    root, scale = math.sqrt(n), EPS**-0.5
    most = (tau * norm(wq), root * tau * norm(wk), root * norm(wv))
    assert all(norm(part) <= scale * one * UP for part, one in zip(flat, most))
    heads = dict(tau=tau, nu=NU, eps=EPS)
    maps = (wq[None], wk[None], wv[None])
    assert norm(jacobian) <= float(cosine_bound(*maps, n, p="two", form="tight", **heads)) * UP
    if n > 1:
        assert float(cosine_bound(*maps, n, p="two", form="tight", **heads)) <= float(
            cosine_bound(*maps, n, p="two", form="printed", **heads)
        )
    # (12), (13) and the parts of T2
    for w in (wk, wq):
        for z in move:
            most_of = min(math.sqrt(dim) * norm(w), math.sqrt(head) * norm(w.T, math.inf))
            assert size_of_row(w @ z) <= most_of * float(z.norm()) * UP
    assert float((p[:, :, None] * centred.abs()).sum(1).max()) <= UP
    assert float(cov.norm(dim=2).max()) <= UP
    m = [min(math.sqrt(dim) * norm(w), math.sqrt(head) * norm(w.T, math.inf)) for w in (wq, wk)]
    most = (tau * m[0], tau * m[1], unit_factor(head) * norm(wv.T, math.inf))
    assert all(norm(part, math.inf) <= scale * one * UP for part, one in zip(flat, most))
    limit = float(cosine_bound(*maps, n, p="inf", form="tight", **heads))
    assert norm(jacobian, math.inf) <= limit * UP
    if n > 1:
        assert abs(NU * scale * sum(most) - limit) <= 1e-9 * limit  # the three parts are the statement
