"""Exact k nearest neighbours: against float64 by definition and scikit-learn, ties, blocks, magnitudes."""

from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.neighbors import NearestNeighbors

from relearn.methods import streamed_search
from relearn.methods.neighbours import WINDOW, NeighbourSearch, nearest, plain_precision


def by_definition(X, k, *, queries=None, include_self=False):
    """Float64 differences, then a stable sort: ties go to the smaller index."""
    own = queries is None
    points = np.asarray(X, dtype=np.float64)
    asked = points if own else np.asarray(queries, dtype=np.float64)
    squared = ((asked[:, None] - points[None]) ** 2).sum(-1)
    if own:
        np.fill_diagonal(squared, -1.0 if include_self else np.inf)
    order = np.argsort(squared, axis=1, kind="stable")[:, :k]
    return order, np.clip(np.take_along_axis(squared, order, axis=1), 0, None)


@settings(max_examples=40)
@given(st.data())
def test_equals_the_definition_for_any_block_dtype_and_offset(data):
    n = data.draw(st.integers(2, 60), "n")
    include_self = data.draw(st.booleans(), "include_self")
    k = data.draw(st.integers(1, n if include_self else n - 1), "k")
    block = data.draw(st.one_of(st.none(), st.integers(1, n + 3)), "block")
    dtype = data.draw(st.sampled_from([np.float32, np.float64]), "dtype")
    offset = data.draw(st.sampled_from([0.0, 10.0, 1000.0]), "offset")
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32), "seed"))
    X = (rng.normal(size=(n, data.draw(st.integers(1, 20), "d"))) + offset).astype(dtype)

    indices, squared = nearest(X, k, include_self=include_self, block=block)
    order, truth = by_definition(X, k, include_self=include_self)

    # one coordinate at offset 1000 leaves a float32 grid of 6e-5, on which distances coincide: no order then
    np.testing.assert_allclose(squared.numpy(), truth, rtol=1e-5 if dtype == np.float32 else 1e-12, atol=0)
    if len(np.unique(X, axis=0)) == n and X.shape[1] > 1:
        np.testing.assert_array_equal(indices.numpy(), order)


@settings(max_examples=40)
@given(st.data())
def test_ties_go_to_the_smaller_index_for_any_block(data):
    """On a small lattice far from the origin most distances tie, exactly in every arithmetic."""
    n = data.draw(st.integers(2, 120), "n")
    include_self = data.draw(st.booleans(), "include_self")
    k = data.draw(st.integers(1, n if include_self else n - 1), "k")
    block = data.draw(st.one_of(st.none(), st.integers(1, n)), "block")
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32), "seed"))
    X = rng.integers(0, 3, size=(n, data.draw(st.integers(1, 3), "d"))) + data.draw(
        st.sampled_from([0, 4096])
    )
    for dtype in (np.float32, np.float64):
        indices, squared = nearest(X.astype(dtype), k, include_self=include_self, block=block)
        order, truth = by_definition(X, k, include_self=include_self)
        np.testing.assert_array_equal(indices.numpy(), order)
        np.testing.assert_array_equal(squared.numpy(), truth)


@pytest.mark.parametrize("include_self", [False, True])
@pytest.mark.parametrize("k", [1, 7, 150])
def test_equals_scikit_learns_brute_force(k, include_self):
    X = np.random.default_rng(k).normal(size=(300, 64)).astype(np.float32)
    fitted = NearestNeighbors(algorithm="brute").fit(X)
    distance, order = fitted.kneighbors(X if include_self else None, n_neighbors=k)
    indices, squared = nearest(X, k, include_self=include_self, block=64)
    np.testing.assert_array_equal(indices.numpy(), order)
    np.testing.assert_allclose(np.sqrt(squared.numpy()), distance, rtol=1e-5, atol=1e-5)


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks so small that a few hundred points are searched in a stream."""
    for name, size in {"CHUNK": 16, "SAMPLE": 24, "ROWS": 40}.items():
        monkeypatch.setattr(streamed_search, name, size)


@pytest.mark.parametrize("include_self", [False, True])
@pytest.mark.parametrize("k", [1, 20])
@pytest.mark.parametrize("kind", ["shuffled", "nearer and nearer", "lattice", "equal", "sample lies"])
def test_a_stream_finds_the_neighbours_in_any_order_of_the_points(small_blocks, kind, k, include_self):
    """Also where the sample's limit is too low (its points are the near ones) or the pool is cut in every block."""
    rng = np.random.default_rng(k)
    X = rng.normal(size=(403, 4))
    if kind == "nearer and nearer":
        X = X[np.argsort(-(X**2).sum(1))]
    elif kind == "lattice":
        X = rng.integers(0, 3, size=X.shape).astype(np.float64)
    elif kind == "equal":
        X[:] = 0.1
    elif kind == "sample lies":
        X[:: len(X) // 24] *= 1e-3
    assert streamed_search.worthwhile(torch.from_numpy(X).float(), k + WINDOW)
    for dtype in (np.float32, np.float64):
        order, truth = by_definition(X.astype(dtype), k, include_self=include_self)
        indices, squared = nearest(X.astype(dtype), k, include_self=include_self)
        np.testing.assert_array_equal(np.sort(indices.numpy()), np.sort(order))
        np.testing.assert_allclose(squared.numpy(), truth, rtol=1e-5, atol=1e-12)


def test_rows_with_too_low_a_limit_are_searched_again(small_blocks, monkeypatch):
    X = np.random.default_rng(0).normal(size=(403, 4)).astype(np.float32)
    again, search = [], NeighbourSearch.search_again

    def watched(self, start, rows, *found):
        again.extend(rows)
        search(self, start, rows, *found)

    monkeypatch.setattr(NeighbourSearch, "search_again", watched)
    nearest(X, 20)
    assert not again
    monkeypatch.setattr(streamed_search, "_estimate", lambda asked, *_: asked.new_full((len(asked), 1), -1e9))
    np.testing.assert_array_equal(nearest(X, 20)[0].numpy(), by_definition(X, 20)[0])
    assert len(again) == len(X)


def test_one_number_keeps_distance_and_index_in_their_order():
    """Also of negative, huge and infinite distances; zero has one sign."""
    distance = torch.tensor([-np.inf, -3e38, -2.5, -1e-45, -0.0, 0.0, 1e-45, 2.5, 3e38, np.inf])
    packed = streamed_search._packed(distance, torch.arange(9, -1, -1))
    assert torch.equal(streamed_search._distance(packed), distance)
    assert packed.argsort().tolist() == [0, 1, 2, 3, 5, 4, 6, 7, 8, 9]
    assert bool((packed < streamed_search.EMPTY).all())


def test_true_entries_are_found_in_words_and_singly():
    for size in (64, 61):
        mask = torch.rand(size, generator=torch.Generator().manual_seed(size)) < 0.2
        assert torch.equal(streamed_search._true(mask), mask.nonzero()[:, 0])


def near_duplicates(n=200, d=32, spread=1e-3):
    """Two crowds far from each other: in each, the points are closer than the float32 product can tell."""
    rng = np.random.default_rng(0)
    centres = np.repeat([[-10.0], [10.0]], n, axis=0)
    return (centres + rng.normal(size=(2 * n, d)) * spread).astype(np.float32)


def test_near_duplicates_are_distinguished_where_the_product_alone_fails():
    X, k = near_duplicates(), 5
    order, truth = by_definition(X, k)
    indices, squared = nearest(X, k)
    np.testing.assert_array_equal(indices.numpy(), order)
    np.testing.assert_allclose(squared.numpy(), truth, rtol=1e-5)

    # the negative control: what the product says before it is settled
    part = next(NeighbourSearch(X).blocks(k))
    wrong = [set(a) != set(b) for a, b in zip(part.order[:, :k].tolist(), order.tolist())]
    assert np.mean(wrong) > 0.5


@pytest.mark.parametrize("crowd", [3, WINDOW - 1, WINDOW, WINDOW + 1, 3 * WINDOW])
@pytest.mark.parametrize("block", [None, 64])
def test_crowds_of_equal_points_of_any_size_are_settled(crowd, block):
    """Crowds inside the window take the pairs, crowds beyond it the whole rows: no seam between the two."""
    rng = np.random.default_rng(crowd)
    X = np.repeat(rng.normal(size=(5, 8)).astype(np.float32), crowd, axis=0)[rng.permutation(5 * crowd)]
    for k in range(1, 5 * crowd, max(1, crowd // 3)):
        order, _ = by_definition(X, k)
        members, _ = nearest(X, k, block=block)
        np.testing.assert_array_equal(np.sort(members.numpy()), np.sort(order))


def test_identical_points_have_the_smallest_indices_as_neighbours():
    X = np.full((50, 4), 0.1, dtype=np.float32)
    indices, squared = nearest(X, 3)
    assert indices[10].tolist() == [0, 1, 2] and indices[1].tolist() == [0, 2, 3]
    assert float(squared.max()) == 0
    assert nearest(X, 3, include_self=True)[0][10].tolist() == [10, 0, 1]


@pytest.mark.parametrize("kind", ["normal", "relu", "heavy", "sparse"])
@pytest.mark.parametrize("d", [3, 64, 2048])
def test_resolution_bounds_the_error_of_the_product(kind, d):
    """`settle` is exact only if twice the largest error of a distance is below `resolution`."""
    generator = torch.Generator().manual_seed(d)
    X = torch.randn(200, d, generator=generator)
    X = {
        "normal": X,
        "relu": X.relu() + 3,
        "heavy": X.pow(5),
        "sparse": X * (torch.rand(X.shape, generator=generator) < 0.02),
    }[kind]
    search = NeighbourSearch(X)
    part = next(search.blocks(199))
    wide = X.double() * search.scale
    centre = search.centre.double() * search.scale
    truth = torch.cdist(wide, wide).square() - (wide - centre).square().sum(1, keepdim=True)
    error = (part.shifted.double() - truth.gather(1, part.order))[:, :199].abs().amax(1)
    assert bool((2 * error < search.resolution).all())
    assert bool((2 * error > search.resolution / 1000).any())  # and the bound is not empty talk


@pytest.mark.parametrize("exponent", [-140, -40, 60, 120])
def test_magnitude_does_not_matter(exponent):
    """A power of two scales exactly: the same neighbours, though squares leave float32's range."""
    X = np.random.default_rng(0).normal(size=(80, 6)).astype(np.float32)
    scaled = np.ldexp(X, exponent)
    if exponent == -140:  # below the normal numbers digits are lost, so the truth is taken from what is left
        X = np.ldexp(scaled.astype(np.float64), 140)
    np.testing.assert_array_equal(np.sort(nearest(scaled, 9)[0]), np.sort(by_definition(X, 9)[0]))


def test_queries_ask_other_points_and_no_self_match_is_left_out():
    rng = np.random.default_rng(1)
    X, queries = rng.normal(size=(40, 5)), rng.normal(size=(11, 5)) * 1e3
    queries[3] = X[7]
    indices, squared = nearest(X, 40, queries=queries, block=4)
    order, truth = by_definition(X, 40, queries=queries)
    np.testing.assert_array_equal(indices.numpy(), order)
    np.testing.assert_allclose(squared.numpy(), truth, rtol=1e-12)
    assert indices[3, 0] == 7 and squared[3, 0] == 0
    assert nearest(X, 2, queries=np.empty((0, 5)))[0].shape == (0, 2)


def test_half_precision_and_gradients_are_widened_and_dropped():
    X = torch.randn(30, 4, generator=torch.Generator().manual_seed(0)).half()
    indices, squared = nearest(X.requires_grad_(), 3)
    assert squared.dtype == torch.float32 and not squared.requires_grad
    assert torch.equal(indices, nearest(X.detach().float(), 3)[0])


def test_the_callers_precision_neither_matters_nor_changes(monkeypatch):
    X = torch.from_numpy(near_duplicates(100))
    plain = nearest(X, 5)
    seen, product = [], torch.addmm

    def watched(*args, **more):
        seen.append((torch.get_float32_matmul_precision(), torch.is_autocast_enabled("cpu")))
        return product(*args, **more)

    monkeypatch.setattr(torch, "addmm", watched)
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("medium")
        with torch.autocast("cpu", dtype=torch.bfloat16):
            reduced = nearest(X, 5)
        assert torch.get_float32_matmul_precision() == "medium"
        with pytest.raises(RuntimeError, match="inside"), plain_precision(X.device):
            raise RuntimeError("inside")
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision(before)
    # this processor may not have reduced products at all, so what they were asked for is looked at too
    assert seen and set(seen) == {("highest", False)}
    assert all(torch.equal(a, b) for a, b in zip(plain, reduced))


@pytest.mark.parametrize(("points", "k"), [(50_000, 5_000), (50_000, 50), (50_000, 20_000), (2_000, 50)])
def test_a_block_keeps_to_its_memory(points, k):
    """d = 1 to stay small: the candidates and the votes of the rows of one block, with the product or the pool before them."""
    search = NeighbourSearch(torch.arange(float(points))[:, None])
    part = next(search.blocks(k))
    rows = part.stop - part.start
    before = (
        2048 * 5 + 1024 * 4 + (k + max(k, 4096)) * 16
        if streamed_search.worthwhile(search.points, k + WINDOW)
        else points * 4
    )
    assert rows * (before + k * (4 + 8) + k * 24) <= 257 * 2**20
    assert rows > 100  # and it is no row-by-row search either


@pytest.mark.parametrize(
    ("X", "k", "more", "error", "match"),
    [
        (np.ones((5, 2)), 5, {}, ValueError, "k is 5; allowed: 1 to 4, the points other than itself"),
        (
            np.ones((5, 2)),
            6,
            {"include_self": True},
            ValueError,
            "k is 6; allowed: 1 to 5, the points in the set",
        ),
        (np.ones((5, 2)), 0, {}, ValueError, "k is 0"),
        (np.ones((5, 2)), -3, {}, ValueError, "k is -3"),
        (np.ones((5, 2)), 2.0, {}, TypeError, "whole number"),
        (np.ones((5, 2)), True, {}, TypeError, "whole number"),
        (np.ones((0, 2)), 1, {}, ValueError, "1 to 0"),
        (np.ones((5, 2)), 1, {"block": 0}, ValueError, "block is 0"),
        (np.ones((5, 2)), 1, {"queries": np.ones((5, 3))}, ValueError, r"queries has shape \(5, 3\)"),
        (np.ones((2, 5, 2)), 1, {}, ValueError, r"X has shape \(2, 5, 2\)"),
        (np.ones((5, 0)), 1, {}, ValueError, "d >= 1"),
        (np.array([[1.0], [np.nan], [2.0], [np.inf]]), 1, {}, ValueError, "rows 1, 3"),
    ],
)
def test_wrong_arguments_are_refused(X, k, more, error, match):
    with pytest.raises(error, match=match):
        nearest(X, k, **more)


def test_distances_are_those_of_exact_arithmetic():
    """Rational numbers as the judge, on features that share a large offset."""
    X = (np.random.default_rng(3).normal(size=(12, 3)) + 500).astype(np.float32)
    indices, squared = nearest(X, 11)
    exact = [[Fraction(float(v)) for v in row] for row in X]
    for i, (row, distances) in enumerate(zip(indices.tolist(), squared.tolist())):
        truth = [float(sum((a - b) ** 2 for a, b in zip(exact[i], exact[j]))) for j in row]
        assert truth == sorted(truth)
        np.testing.assert_allclose(distances, truth, rtol=1e-6)


@pytest.mark.gpu
def test_a_gpu_finds_the_same_neighbours():
    for X in (near_duplicates(), np.random.default_rng(0).normal(size=(500, 64)).astype(np.float32)):
        here, there = nearest(X, 20), nearest(torch.from_numpy(X).cuda(), 20)
        assert torch.equal(here[0], there[0].cpu())
