"""Simplex operators: optimality conditions, exact rational truth, certificates."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
import scipy.optimize
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from relearn.maths.simplex import TARGET_FLOOR, project_simplex, simplex_gap, simplex_least_squares

vectors = st.lists(st.floats(-50, 50), min_size=1, max_size=8).map(
    lambda v: torch.tensor(v, dtype=torch.float64)
)
whole = st.integers(-3, 3)


def obeys_kkt(v: Tensor, c: Tensor, tolerance: float) -> bool:
    """c = max(v - θ, 0) for one θ, and Σ c = 1: necessary and sufficient for the nearest point."""
    support = c > 0
    theta = (v - c)[support].mean()
    return bool(
        (c >= 0).all()
        and abs(c.sum() - 1) <= tolerance
        and ((v - c)[support] - theta).abs().max() <= tolerance
        and (v[~support] <= theta + tolerance).all()
    )


@given(vectors)
def test_projection_obeys_the_optimality_conditions(v: Tensor) -> None:
    assert obeys_kkt(v, project_simplex(v), 1e-12)


def test_the_optimality_conditions_refuse_other_points_of_the_simplex() -> None:
    v = torch.tensor([2.0, 1.0, -1.0], dtype=torch.float64)
    assert obeys_kkt(v, project_simplex(v), 1e-12)
    assert not obeys_kkt(v, v.softmax(-1), 1e-12)
    assert not obeys_kkt(v, v.clamp_min(0) / v.clamp_min(0).sum(), 1e-12)


def test_projection_equals_a_quadratic_program() -> None:
    generator = torch.Generator().manual_seed(0)
    for v in torch.randn(10, 6, generator=generator, dtype=torch.float64):
        goal = v.numpy()
        found = scipy.optimize.minimize(
            lambda c, goal=goal: 0.5 * np.sum((c - goal) ** 2),
            np.full(6, 1 / 6),
            jac=lambda c, goal=goal: c - goal,
            bounds=[(0, None)] * 6,
            constraints={"type": "eq", "fun": lambda c: c.sum() - 1, "jac": np.ones_like},
            method="SLSQP",
            options={"ftol": 1e-15, "maxiter": 500},
        )
        np.testing.assert_allclose(project_simplex(v).numpy(), found.x, atol=1e-7)


@given(vectors, st.randoms(use_true_random=False))
def test_projection_is_idempotent_and_commutes_with_permutations_and_shifts(v: Tensor, random) -> None:
    c = project_simplex(v)
    torch.testing.assert_close(project_simplex(c), c, rtol=0, atol=1e-14)
    order = list(range(len(v)))
    random.shuffle(order)
    torch.testing.assert_close(project_simplex(v[order]), c[order], rtol=0, atol=1e-14)
    torch.testing.assert_close(project_simplex(v + 7), c, rtol=0, atol=1e-12)


def test_projection_works_on_the_last_axis_of_any_shape_and_in_float32() -> None:
    v = torch.randn(2, 3, 4, 5, generator=torch.Generator().manual_seed(0))
    c = project_simplex(v)
    assert c.dtype == torch.float32 and c.shape == v.shape
    for index in itertools.product(range(2), range(3), range(4)):
        torch.testing.assert_close(c[index], project_simplex(v[index].double()).float(), rtol=0, atol=1e-6)
    torch.testing.assert_close(project_simplex(v.transpose(-1, 1)).sum(-1), torch.ones(2, 5, 4))


def test_projection_of_large_entries_keeps_their_differences() -> None:
    v = torch.tensor([2.0**20, 2.0**20 + 0.5, 0.0])
    assert project_simplex(v).tolist() == [0.25, 0.75, 0.0]


def test_projection_refuses_what_it_cannot_project() -> None:
    with pytest.raises(ValueError, match=r"problem 1 holds nan at \(1, 0\)"):
        project_simplex(torch.tensor([[0.0, 1.0], [torch.nan, 0.0]]))
    with pytest.raises(ValueError, match="last axis"):
        project_simplex(torch.zeros(3, 0))
    with pytest.raises(TypeError, match="int64"):
        project_simplex(torch.tensor([1, 2]))


# --- least squares over the simplex -------------------------------------------------------------


def exact_optimum(points: list[list[int]], target: list[int]) -> Fraction:
    """½ squared distance from the hull, in rational numbers: the best stationary point of all faces."""
    best = None
    for size in range(1, len(points) + 1):
        for face in itertools.combinations(points, size):
            c = stationary([[Fraction(x - t) for x, t in zip(point, target)] for point in face])
            if c is not None and min(c) >= 0:
                residual = [
                    sum(cj * (p[i] - target[i]) for cj, p in zip(c, face)) for i in range(len(target))
                ]
                value = sum(r * r for r in residual) / 2
                best = value if best is None else min(best, value)
    assert best is not None  # single points are faces
    return best


def stationary(points: list[list[Fraction]]) -> list[Fraction] | None:
    """Solve [G 1; 1ᵀ 0][c; λ] = [0; 1] by elimination; None where the face is affinely dependent."""
    n = len(points)
    rows = [[sum(a * b for a, b in zip(p, q)) for q in points] + [Fraction(1), Fraction(0)] for p in points]
    rows.append([Fraction(1)] * n + [Fraction(0), Fraction(1)])
    for column in range(n + 1):
        pivot = next((r for r in range(column, n + 1) if rows[r][column] != 0), None)
        if pivot is None:
            return None
        rows[column], rows[pivot] = rows[pivot], rows[column]
        rows[column] = [x / rows[column][column] for x in rows[column]]
        for r in range(n + 1):
            if r != column and rows[r][column] != 0:
                rows[r] = [x - rows[r][column] * y for x, y in zip(rows[r], rows[column])]
    return [row[-1] for row in rows[:n]]


def problems(k: int, d: int):
    point = st.lists(whole, min_size=d, max_size=d)
    return st.tuples(st.lists(point, min_size=k, max_size=k), point)


@settings(max_examples=150)
@given(st.tuples(st.integers(1, 4), st.integers(1, 3)).flatmap(lambda size: problems(*size)))
def test_least_squares_reaches_the_rational_optimum(problem) -> None:
    """Whole-number points: duplicates, dependent faces, targets on faces and vertices all occur."""
    points, target = problem
    a, t = torch.tensor(points, dtype=torch.float64), torch.tensor(target, dtype=torch.float64)
    c = simplex_least_squares(a, t)
    assert (c >= 0).all() and c.sum() == 1
    value = 0.5 * (t - c @ a).square().sum()
    assert abs(value - float(exact_optimum(points, target))) <= 1e-12


def regimes(k: int = 5, d: int = 2048, count: int = 300) -> tuple[Tensor, Tensor]:
    """float32 problems: targets far from the hull, 0.1 % away from it (longer than its points), inside it."""
    generator = torch.Generator().manual_seed(1)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    features = normal(3 * count, k, d)
    inside = torch.einsum("bk,bkd->bd", normal(3 * count, k).softmax(-1), features)
    away, longer = torch.tensor([[1.0, 1e-4, 0.0], [1.0, 1.001, 1.0]]).repeat_interleave(count, 1)[..., None]
    return features, longer * inside + away * normal(3 * count, d)


def objective(features: Tensor, target: Tensor, c: Tensor) -> np.ndarray:
    """½‖t - Σ c a‖² in extended precision, as it is written."""
    a, t, c_ = (x.numpy().astype(np.longdouble) for x in (features, target, c))
    return 0.5 * np.square(t - np.einsum("bk,bkd->bd", c_, a)).sum(-1)


def certificate(features: Tensor, target: Tensor, c: Tensor) -> np.ndarray:
    """Frank-Wolfe gap from the residual in extended precision: an upper bound on objective - optimum."""
    a, t, c_ = (x.numpy().astype(np.longdouble) for x in (features, target, c))
    c_ = c_ / c_.sum(-1, keepdims=True)
    differences = a - t[:, None]
    gradient = np.einsum("bkd,bd->bk", differences, np.einsum("bk,bkd->bd", c_, differences))
    return (c_ * gradient).sum(-1) - gradient.min(-1)


def test_nine_hundred_problems_in_one_call_reach_the_optimum() -> None:
    """50 targets × 18 substitutes. float64 coefficients are certified; float32 ones are as good to 1e-6."""
    features, target = regimes()
    exact, rounded = (
        simplex_least_squares(features.double(), target.double()),
        simplex_least_squares(features, target),
    )
    assert rounded.dtype == torch.float32 and rounded.shape == (900, 5)
    naive = 0
    for part in torch.arange(900).split(100):
        a, t = features[part], target[part]
        scale = np.maximum(
            optimum := objective(a, t, exact[part]), TARGET_FLOOR * 0.5 * t.double().square().sum(-1).numpy()
        )
        assert (certificate(a, t, exact[part]) / scale).max() < 1e-6
        assert (np.abs(objective(a, t, rounded[part]) - optimum) / scale).max() < 1e-6
        naive += ((np.abs(objective(a, t, exact[part].float()) - optimum) / scale) > 1e-6).sum()
    assert naive > 100  # float32 coefficients whose sum is not exactly one are not good enough


@pytest.mark.parametrize("k", [7, 12, 40])
def test_more_points_than_are_enumerated(k: int) -> None:
    features, target = regimes(k, 60, 10)
    c = simplex_least_squares(features.double(), target.double())
    scale = np.maximum(objective(features, target, c), TARGET_FLOOR * 0.5 * target.square().sum(-1).numpy())
    assert (certificate(features, target, c) / scale).max() < 1e-6


def test_iterative_and_enumerating_solver_agree(monkeypatch) -> None:
    features, target = regimes(5, 30, 20)
    enumerated = simplex_least_squares(features.double(), target.double())
    monkeypatch.setattr("relearn.maths.simplex.ENUMERATED", 0)
    iterated = simplex_least_squares(features.double(), target.double())
    torch.testing.assert_close(iterated, enumerated, rtol=0, atol=1e-7)


@pytest.mark.parametrize("k", range(1, 7))
def test_up_to_six_points_need_no_iteration(k: int, monkeypatch) -> None:
    """Every face is solved, those of targets in the hull too, where the differences are dependent."""
    monkeypatch.setattr("relearn.maths.simplex._descend", None)
    features, target = (x.double() for x in regimes(k, 12, 10))
    simplex_least_squares(features, target)
    corners = torch.eye(6, dtype=torch.float64)
    c = simplex_least_squares(corners[:k], 0.25 * corners[0] + 0.75 * corners[1])  # singular in floats too
    if k > 1:
        assert c.tolist() == [0.25, 0.75, 0, 0, 0, 0][:k]


@given(st.integers(1, 6), st.floats(1e-12, 1), st.integers(0, 10**6))
@settings(max_examples=60)
def test_almost_identical_points(k: int, distance: float, seed: int) -> None:
    """Poisons start as similar images: features that differ by very little must not break the solver."""
    generator = torch.Generator().manual_seed(seed)
    centre, target = torch.randn(2, 20, generator=generator, dtype=torch.float64)
    features = centre + distance * torch.randn(k, 20, generator=generator, dtype=torch.float64)
    c = simplex_least_squares(features, target)
    value, gap = simplex_gap(features, target, c)
    assert gap <= 1e-6 * value


@given(st.integers(0, 10**6), st.randoms(use_true_random=False))
@settings(max_examples=30)
def test_permuted_points_permute_the_coefficients(seed: int, random) -> None:
    generator = torch.Generator().manual_seed(seed)
    features = torch.randn(5, 9, generator=generator, dtype=torch.float64)
    target = torch.randn(9, generator=generator, dtype=torch.float64)
    order = list(range(5))
    random.shuffle(order)
    c = simplex_least_squares(features, target)
    torch.testing.assert_close(simplex_least_squares(features[order], target), c[order], rtol=0, atol=1e-10)


def test_a_problem_does_not_depend_on_its_batch_and_leading_axes_broadcast() -> None:
    features, target = (x.double() for x in regimes(4, 11, 2))
    together = simplex_least_squares(features.reshape(2, 3, 4, 11), target.reshape(2, 3, 11)).reshape(6, 4)
    alone = torch.stack([simplex_least_squares(a, t) for a, t in zip(features, target)])
    torch.testing.assert_close(together, alone, rtol=0, atol=1e-13)
    shared = simplex_least_squares(features, target[0])
    torch.testing.assert_close(shared[3], simplex_least_squares(features[3], target[0]), rtol=0, atol=1e-13)


def test_identical_points_keep_the_start() -> None:
    features, target = torch.ones(4, 3), torch.tensor([1.0, 2.0, 3.0])
    assert simplex_least_squares(features, target).tolist() == [0.25] * 4
    start = torch.tensor([0.5, 0.5, 0.0, 0.0])
    assert simplex_least_squares(features, target, start=start).tolist() == start.tolist()


def test_known_solutions_are_found() -> None:
    features = torch.tensor([[1.0, 1.0], [1.0, -1.0], [3.0, 0.0]])
    assert simplex_least_squares(features, torch.tensor([1.0, 0.0])).tolist() == [0.5, 0.5, 0.0]  # on an edge
    assert simplex_least_squares(features, features[2]).tolist() == [0.0, 0.0, 1.0]  # a vertex
    assert simplex_least_squares(features, torch.tensor([9.0, 0.0])).tolist() == [0.0, 0.0, 1.0]  # beyond it
    assert simplex_least_squares(features[:1], torch.tensor([5.0, 5.0])).tolist() == [1.0]  # one point
    c = simplex_least_squares(
        torch.zeros(3, 2), torch.tensor([1.0, 0.0])
    )  # every point of the simplex is optimal
    assert (c >= 0).all() and c.sum() == 1
    assert simplex_least_squares(torch.zeros(3, 2), torch.zeros(2)).sum() == 1
    assert simplex_least_squares(torch.zeros(0, 3, 2), torch.zeros(0, 2)).shape == (0, 3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_coefficients_sum_to_exactly_one_in_their_dtype(dtype: torch.dtype) -> None:
    features, target = (x.to(dtype) for x in regimes(6, 8, 50))
    c = simplex_least_squares(features, target)
    assert c.dtype == dtype and (c >= 0).all()
    assert (c.sum(-1) == 1).all() and (c.flip(-1).cumsum(-1)[:, -1] == 1).all()


def test_gap_bounds_the_distance_to_the_optimum() -> None:
    features, target = (x.double() for x in regimes(5, 20, 10))
    best, none = simplex_gap(features, target, simplex_least_squares(features, target))
    other, gap = simplex_gap(features, target, torch.full((30, 5), 0.2, dtype=torch.float64))
    assert (other - best <= gap + 1e-12).all() and (gap > 1e-3).all() and (none < 1e-10).all()


def test_least_squares_says_when_it_has_not_converged() -> None:
    features, target = regimes(30, 20, 2)
    with pytest.warns(RuntimeWarning, match="problems not solved to tolerance"):
        simplex_least_squares(features, target, max_iterations=1)


def test_least_squares_names_the_problem_it_refuses() -> None:
    features, target = torch.zeros(3, 5, 2), torch.zeros(3, 2)
    features[2, 1, 0] = torch.nan
    with pytest.raises(ValueError, match=r"features of problem 2 holds nan at \(2, 1, 0\)"):
        simplex_least_squares(features, target)
    target[1, 1] = torch.inf
    with pytest.raises(ValueError, match="target of problem 1 holds inf"):
        simplex_least_squares(torch.zeros(3, 5, 2), target)
    with pytest.raises(ValueError, match="overflow"):
        simplex_least_squares(torch.full((5, 2), 1e200, dtype=torch.float64), torch.zeros(2))
    with pytest.raises(ValueError, match="do not fit"):
        simplex_least_squares(torch.zeros(3, 5, 2), torch.zeros(3, 4))
    with pytest.raises(ValueError, match="do not fit"):
        simplex_least_squares(torch.zeros(3, 0, 2), torch.zeros(3, 2))
    with pytest.raises(ValueError, match="k = 5"):
        simplex_least_squares(torch.zeros(3, 5, 2), torch.zeros(3, 2), start=torch.zeros(3, 4))
    with pytest.raises(TypeError, match="int64"):
        simplex_least_squares(torch.zeros(5, 2, dtype=torch.long), torch.zeros(2))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize("k", [8, 200, 300])
def test_many_equal_coefficients_stay_on_the_simplex_in_every_format(dtype, k):
    points = torch.eye(k, dtype=dtype)
    found = simplex_least_squares(points, torch.zeros(k, dtype=dtype)).double()
    assert float(found.min()) >= 0 and float(found.sum()) == 1
    step = torch.finfo(dtype).eps / 2
    assert float((found - 1 / k).abs().max() / step) <= max(1, k / 2)
    assert torch.equal(found, (found / step).round() * step)


def test_points_without_coordinates_are_refused():
    with pytest.raises(ValueError, match="k, d ≥ 1"):
        simplex_least_squares(torch.zeros(3, 0), torch.zeros(0))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("n", [5, 300, 3000])
def test_projection_of_halves_is_that_of_float32_rounded_once(dtype: torch.dtype, n: int) -> None:
    v = torch.randn(2, n, generator=torch.Generator().manual_seed(0)).to(dtype)
    assert torch.equal(project_simplex(v), project_simplex(v.float()).to(dtype))
