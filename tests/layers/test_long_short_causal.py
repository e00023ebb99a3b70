"""Causal long-short attention against a slow truth: windows, segments, positions, the cache; and that nothing later matters."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn.functional import layer_norm

from relearn.layers import causal_inplace
from relearn.layers import long_short_causal_core as core
from relearn.layers.causal_gradients import softmax_backward
from relearn.layers.causal_inplace import LANE, mark_dropped
from relearn.layers.causal_windows import Piece, Spans
from relearn.layers.long_short_causal import CausalLongShortAttention, check_coverage

D, H = 6, 2
SIZES = [  # w, l, r
    *(
        (4, 2, 1),
        (4, 4, 2),
        (2, 4, 1),
        (5, 4, 1),
        (3, 4, 2),
        (6, 4, 1),
        (8, 2, 1),
        (7, 8, 1),
        (1, 1, 1),
        (1, 2, 3),
    ),
    *((0, 3, 2), (0, 1, 1), (4, 3, 0), (3, 9, 0)),
]


def layer(w: int, l: int, r: int, seed: int = 0, **kw) -> CausalLongShortAttention:  # noqa: E741
    torch.manual_seed(seed)
    one = CausalLongShortAttention(D, H, window=w, segment=l, rank=r, **kw).double()
    for parameter in one.parameters():
        nn.init.normal_(parameter, std=0.7)
    return one


def inputs(past: int, fresh: int, seed: int = 0) -> tuple[Tensor, Tensor | None]:
    torch.manual_seed(seed)
    rows = torch.randn(2, past + fresh, D, dtype=torch.float64)
    return rows[:, past:], rows[:, :past] if past else None


def wave(distance: int) -> Tensor:
    angles = [distance / 10000 ** (2 * i / D) for i in range(D // 2)]
    return torch.tensor([math.sin(a) for a in angles] + [math.cos(a) for a in angles], dtype=torch.float64)


def norm(row: Tensor, by: nn.LayerNorm | None, released: bool) -> Tensor:
    """One row (D,), head by head or as one."""
    if by is None:
        return row
    parts = [row] if released else row.chunk(H)
    done = []
    for part in parts:
        centred = part - part.mean()
        done.append(centred / torch.sqrt((centred**2).mean() + by.eps) * by.weight + by.bias)
    return torch.cat(done)


def slow(one: CausalLongShortAttention, x: Tensor, cache: Tensor | None) -> Tensor:
    """One sequence (n, D), query by query, head by head, segment by segment."""
    rows = x if cache is None else torch.cat([cache, x])
    past, d, w, l, r = len(rows) - len(x), D // H, one.window, one.segment, one.rank  # noqa: E741
    released = one.as_released
    maps = one.kv.weight.split(D)
    raw = [[m @ row for row in rows] for m in maps]
    near = [[norm(row, one.local_norm, released) for row in part] for part in raw]
    far: list[list[list[Tensor]]] = [[], []]  # part, segment, vector
    for s in range(len(rows) // l if r else 0):
        here = range(s * l, (s + 1) * l)
        scores = torch.stack([one.projection(rows[t]) for t in here]).view(l, H, r).softmax(0)
        for part in (0, 1):
            vectors = []
            for j in range(r):
                if released and s < past // l:  # of the cache: hidden states first, the maps behind
                    mean = sum(
                        torch.cat([scores[i, h, j] * rows[t][h * d : (h + 1) * d] for h in range(H)])
                        for i, t in enumerate(here)
                    )
                    mean = maps[part] @ mean
                else:
                    of = raw[part] if released else near[part]
                    mean = sum(
                        torch.cat([scores[i, h, j] * of[t][h * d : (h + 1) * d] for h in range(H)])
                        for i, t in enumerate(here)
                    )
                vectors.append(norm(mean, one.global_norm, released))
            far[part].append(vectors)
    done = torch.zeros(len(x), D, dtype=x.dtype)
    for i in range(len(x)):
        t = past + i
        first = max(0, t - w + 1 if released else w * (t // w - 1)) if w else t + 1
        for h in range(H):
            cut = slice(h * d, (h + 1) * d)
            q = one.q(x[i])[cut] / math.sqrt(d)
            content, placed = (q, q) if one.biases is None else (q + one.biases[0, h], q + one.biases[1, h])
            logits, values = [], []
            for j in range(first, t + 1):
                logit = content @ near[0][j][cut]
                if one.window_positions is not None:
                    logit = logit + placed @ one.window_positions(wave(t - j))[cut]
                logits.append(logit)
                values.append(near[1][j][cut])
            for s in range(t // l if r else 0):
                for j in range(r):
                    logit = q @ far[0][s][j][cut]
                    if one.segment_positions is not None:
                        apart = t // l - s
                        if released:  # counts the vectors in between, not the segments
                            apart = (t // l) * r - (s * r + j) - 1
                        logit = logit + q @ one.segment_positions(wave(apart))[cut]
                    logits.append(logit)
                    values.append(far[1][s][j][cut])
            if logits:
                done[i, cut] = torch.stack(logits).softmax(0) @ torch.stack(values)
    return one.out(done)


@pytest.mark.parametrize(("w", "l", "r"), SIZES)
def test_formula_at_every_alignment(w: int, l: int, r: int) -> None:  # noqa: E741
    """Lengths below a window, of parts of windows and segments, with caches of any length."""
    for number, (past, fresh) in enumerate([(0, 1), (0, 9), (3, 2), (4, 8), (13, 6)]):
        kw = [{}, dict(relative=False), dict(dual_norm=False)][number % 3]
        one = layer(w, l, r, **kw).requires_grad_(False)
        x, cache = inputs(past, fresh)
        expected = torch.stack([slow(one, x[b], None if cache is None else cache[b]) for b in (0, 1)])
        torch.testing.assert_close(one(x, cache=cache), expected, rtol=1e-10, atol=1e-10)
        one.fused = False
        torch.testing.assert_close(one(x, cache=cache), expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(("w", "l", "r", "past"), [(4, 2, 1, 6), (5, 4, 2, 8), (3, 3, 1, 0), (4, 3, 0, 3)])
def test_the_released_form(w: int, l: int, r: int, past: int) -> None:  # noqa: E741
    one = layer(w, l, r, as_released=True).requires_grad_(False)
    x, cache = inputs(past, 7)
    expected = torch.stack([slow(one, x[b], None if cache is None else cache[b]) for b in (0, 1)])
    torch.testing.assert_close(one(x, cache=cache), expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(("scratch", "kept"), [(1, 2**22), (2**19, 0), (200, 0)])
@pytest.mark.parametrize(("w", "l", "r"), SIZES)
def test_the_backward_pass_is_the_derivative(
    w: int,
    l: int,  # noqa: E741
    r: int,
    scratch: int,
    kept: int,
    monkeypatch,
) -> None:
    """In one piece and in chunks, with weights stored and recomputed; torch differentiates the plain form."""
    monkeypatch.setattr(causal_inplace, "SCRATCH", scratch)
    monkeypatch.setattr(core, "KEPT", kept)
    for past, fresh in ((0, 9), (7, 6), (12, 1)):
        one = layer(w, l, r, relative=past != 12)
        x, cache = inputs(past, fresh)
        given = [x.requires_grad_(), *([] if cache is None else [cache.requires_grad_()]), *one.parameters()]
        found = []
        for fused in (True, False):
            one.fused = fused
            y = one(x, cache=cache)
            weights = torch.arange(y.numel(), dtype=y.dtype).view(y.shape).cos()
            found.append(
                torch.autograd.grad((y * weights).sum(), given, allow_unused=True, materialize_grads=True)
            )
        for a, b in zip(*found):
            torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-11)


@given(st.integers(1, 5), st.integers(1, 4), st.integers(1, 3))
@settings(max_examples=20)
def test_distances_go_back_to_their_places_and_no_place_is_written_twice(
    w: int, blocks: int, groups: int
) -> None:
    """Columns are an unused one and distances 2w - 1 ... 0: row i, key j of a window are i + w - j apart. The future goes nowhere."""
    piece = Piece(Spans(w, 1, 0, w, w * blocks), 1, blocks)
    found = torch.rand(groups, blocks, w, 2 * w) + 1
    future = torch.arange(2 * w) > torch.arange(w)[:, None] + w
    found = found.masked_fill(future, 0)
    to = torch.zeros(groups, piece.rows, 1 + 2 * w)
    piece.by_distance(to).copy_(found)
    expected = torch.zeros_like(to).view(groups, blocks, w, -1)
    for i in range(w):
        for j in range(i + w + 1):
            expected[:, :, i, 2 * w - (i + w - j)] = found[:, :, i, j]
    assert torch.equal(to, expected.view(to.shape))
    assert torch.equal(piece.by_distance(to).masked_fill(future, 0), found)
    written = piece.by_distance(torch.arange(to.numel()).view(to.shape)).flatten()
    assert len(written.unique()) == len(written)
    narrow = piece.by_distance(torch.arange(found.numel()).view(groups, -1, 2 * w)).flatten()
    assert w == 1 or len(narrow.unique()) < len(narrow)  # without the unused column some are the same


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_softmax_and_its_derivative_may_overwrite_what_they_read(dtype: torch.dtype) -> None:
    """The pieces work in place: the library must give what it gives elsewhere, for rows of any length."""
    torch.manual_seed(0)
    for columns in (1, 7, 383, 2111):
        scores, slopes = torch.randn(2, 5, 2, columns, dtype=dtype)
        scores[0, 0, 1:] = -torch.inf
        weights = scores.softmax(2) if columns > 1 else scores.fill_(0).softmax(2)
        expected = softmax_backward(slopes, weights, 2, dtype)
        assert torch.equal(torch.softmax(scores, 2, out=scores), weights)
        assert torch.equal(softmax_backward(slopes, weights, 2, dtype, grad_input=slopes), expected)


@pytest.mark.parametrize("kept", [2**22, 0])
@pytest.mark.parametrize(("w", "l", "r", "past"), [(4, 2, 1, 6), (5, 4, 2, 8), (3, 3, 1, 0), (4, 3, 0, 3)])
def test_the_backward_pass_of_the_released_form(
    w: int,
    l: int,  # noqa: E741
    r: int,
    past: int,
    kept: int,
    monkeypatch,
) -> None:
    """Also of its two biases; torch differentiates the plain form."""
    monkeypatch.setattr(causal_inplace, "SCRATCH", 200)
    monkeypatch.setattr(core, "KEPT", kept)
    one = layer(w, l, r, as_released=True)
    x, cache = inputs(past, 7)
    given = [x.requires_grad_(), *one.parameters()]
    found = []
    for fused in (True, False):
        one.fused = fused
        y = one(x, cache=cache)
        weights = torch.arange(y.numel(), dtype=y.dtype).view(y.shape).cos()
        found.append(
            torch.autograd.grad((y * weights).sum(), given, materialize_grads=True, allow_unused=True)
        )
    for a, b in zip(*found):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-11)


def test_finite_differences_and_second_derivatives() -> None:
    one = layer(2, 2, 1)
    x, cache = inputs(3, 4)
    x = x.requires_grad_()
    assert torch.autograd.gradcheck(lambda z: one(z, cache=cache), (x,))
    found = []
    for fused in (True, False):
        one.fused = fused
        (first,) = torch.autograd.grad(one(x, cache=cache).square().sum(), x, create_graph=True)
        found.append(torch.autograd.grad(first.square().sum(), [x, one.kv.weight]))
    for a, b in zip(*found):
        torch.testing.assert_close(a, b, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("released", [False, True])
def test_nothing_later_matters(released: bool) -> None:
    one = layer(4, 4, 1, as_released=released).requires_grad_(False)
    x, _ = inputs(0, 14)
    before = one(x)
    for t in range(14):
        moved = x.clone()
        moved[:, t] += 10.0
        change = (one(moved) - before).abs().amax((0, 2))
        assert bool((change[:t] == 0).all())
        assert bool((change[t:] > 1e-9).all())  # and everything from t on sees it


def test_the_projection_alone_skips_the_own_segment() -> None:
    one = layer(0, 4, 1).requires_grad_(False)
    x, _ = inputs(0, 12)
    x.requires_grad_()
    for t in range(12):
        (slope,) = torch.autograd.grad(one(x)[0, t].sum(), x)
        seen = [j for j in range(12) if j != t and float(slope[0, j].abs().max()) > 0]
        assert seen == list(range(t // 4 * 4))  # whole segments before the own one
    assert bool((one(x)[:, :4] == 0).all())


@given(st.integers(1, 12), st.integers(1, 12))
@settings(max_examples=60)
def test_coverage_is_the_rule_of_the_greatest_common_divisor(w: int, l: int) -> None:  # noqa: E741
    gap = any(l * (t // l) < w * (t // w - 1) for t in range(3 * math.lcm(w, l)))
    if gap:
        with pytest.raises(ValueError, match="leaves positions unseen"):
            check_coverage(w, l, 1)
    else:
        check_coverage(w, l, 1)


@given(st.integers(0, 1000), st.sampled_from(SIZES), st.lists(st.integers(1, 6), min_size=2, max_size=4))
@settings(max_examples=30)
def test_a_sequence_in_parts_is_the_whole(seed: int, sizes: tuple[int, int, int], parts: list[int]) -> None:
    one = layer(*sizes, seed).requires_grad_(False)
    x, _ = inputs(0, sum(parts), seed)
    whole, start, found = one(x), 0, []
    for part in parts:
        found.append(one(x[:, start : start + part], cache=x[:, :start]))
        start += part
    torch.testing.assert_close(torch.cat(found, 1), whole, rtol=1e-9, atol=1e-11)


def test_a_cut_cache_of_whole_windows_keeps_the_places() -> None:
    """What two windows and all segments behind them lose is only what was cut; of r = 0 that is nothing."""
    one = layer(4, 2, 0).requires_grad_(False)
    x, _ = inputs(0, 20)
    torch.testing.assert_close(one(x[:, 16:], cache=x[:, 8:16]), one(x)[:, 16:])
    shifted = one(x[:, 16:], cache=x[:, 9:16])
    assert float((shifted - one(x)[:, 16:]).abs().max()) > 1e-3  # a cut inside a window moves the windows


def test_dual_norm_is_layer_norm_of_heads_with_shared_weights() -> None:
    one = layer(4, 2, 1).requires_grad_(False)
    x, _ = inputs(0, 6)
    near, far = one.keys_and_values(x)
    raw = one.kv(x).view(2, 6, 2, H, D // H)
    expected = layer_norm(raw, (D // H,), one.local_norm.weight, one.local_norm.bias)
    torch.testing.assert_close(near, expected)
    assert far.shape == (2, 2, 2, H, D // H)
    one.local_norm = one.global_norm = None
    torch.testing.assert_close(one.keys_and_values(x)[0], raw)


def test_dropout_acts_in_training_alone() -> None:
    one = layer(4, 2, 1, dropout=0.5)
    x, _ = inputs(0, 8)
    other = layer(4, 2, 1)
    assert torch.equal(one.eval()(x), other(x))
    one.train()
    draws = torch.stack([one(x) for _ in range(600)]).detach()
    spread = draws.std(0) / math.sqrt(600)
    assert float(spread.max()) > 0
    assert bool(
        ((draws.mean(0) - other(x)).abs() < 6 * spread + 1e-9).all()
    )  # the mean is what it is without


@pytest.mark.parametrize("kept", [2**22, 0])
@pytest.mark.parametrize(("released", "sizes"), [(False, (4, 2, 1)), (True, (5, 4, 2)), (False, (0, 3, 2))])
def test_dropout_has_the_derivatives_of_the_weights_it_keeps(
    released: bool, sizes: tuple[int, int, int], kept: int, monkeypatch
) -> None:
    """First and second, against finite differences with the same draws; weights are stored or drawn again."""
    monkeypatch.setattr(causal_inplace, "SCRATCH", 200)
    monkeypatch.setattr(core, "KEPT", kept)
    one = layer(*sizes, dropout=0.3, as_released=released)
    x, cache = inputs(sizes[1], 7)

    def seeded(z: Tensor) -> Tensor:
        torch.manual_seed(3)
        return one(z, cache=cache)

    assert torch.equal(seeded(x), seeded(x)) and not torch.equal(one(x, cache=cache), seeded(x))
    x, cache = x[:1], cache[:1]
    short = x.requires_grad_()
    assert torch.autograd.gradcheck(seeded, (short,))
    if kept and sizes[0] == 4:
        assert torch.autograd.gradgradcheck(seeded, (short,))


@pytest.mark.parametrize("probability", [0.1, 0.5, 0.0])
def test_signs_of_dropped_weights_are_independent_with_the_given_probability(probability: float) -> None:
    """All four weights that share a draw, the pairs of them, and no other change of a weight."""
    weights = torch.rand(4 * 50_000 - 1) + 0.5
    marked = weights.clone()
    mark_dropped(marked, probability, torch.Generator().manual_seed(0))
    assert torch.equal(marked.abs(), weights)
    found = torch.cat([marked, torch.ones(1)]).signbit().double().view(2, -1, 2)  # half, draw, word of it
    lanes = found.transpose(1, 2).flatten(0, 1)
    sigma = math.sqrt(probability * (1 - probability) / lanes.shape[1])
    assert float((lanes.mean(1) - probability).abs().max()) <= 5 * sigma + 2**-15
    if probability:
        pairs = torch.corrcoef(lanes).fill_diagonal_(0).abs()
        assert float(pairs.max()) < 5 / math.sqrt(lanes.shape[1])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_near_float32(dtype: torch.dtype) -> None:
    one = CausalLongShortAttention(16, 2, window=4, segment=2, rank=1)
    torch.manual_seed(0)
    mark_dropped(weights := torch.ones(7, dtype=dtype), 0.5, torch.Generator().manual_seed(0))
    assert set(weights.tolist()) == {-1.0, 1.0}
    x, cache = torch.randn(2, 9, 16), torch.randn(2, 5, 16)
    expected = one(x, cache=cache)
    low = one.to(dtype)(x.to(dtype).requires_grad_(), cache=cache.to(dtype))
    low.sum().backward()
    assert low.dtype == dtype and float((low - expected).detach().abs().max()) < 0.05
    with torch.autocast("cpu", dtype=torch.bfloat16):
        one.float()(x, cache=cache).sum().backward()
    assert all(bool(p.grad.isfinite().all()) for p in one.parameters())


def test_bad_sizes_and_shapes_are_refused_in_one_line() -> None:
    for kw, words in (
        (dict(heads=4), "heads: 4"),
        (dict(window=-1), "window: -1"),
        (dict(segment=0), "segment: 0"),
        (dict(rank=-1), "rank: -1"),
        (dict(window=0, rank=0), "window: 0 with rank 0"),
        (dict(window=5, segment=8), "window: 5 of segment 8 leaves positions unseen"),
        (dict(window=4, segment=8, as_released=True), "window: 4 of segment 8"),
        (dict(window=0, as_released=True), "window: 0"),
        (dict(dropout=1.0), "dropout: 1.0"),
    ):
        with pytest.raises(ValueError, match=words) as error:
            CausalLongShortAttention(D, **{"heads": H, "window": 4, "segment": 2, **kw})
        assert "\n" not in str(error.value) and "allowed" in str(error.value)
    one = layer(4, 2, 1)
    for x, cache, words in (
        (torch.zeros(1, 0, D), None, "x: shape"),
        (torch.zeros(1, 3, D + 1), None, "x: shape"),
        (torch.zeros(1, 3, D), torch.zeros(2, 3, D), "cache: shape"),
        (torch.zeros(1, 3, D), torch.zeros(3, D), "cache: shape"),
    ):
        with pytest.raises(ValueError, match=words):
            one(x.double(), cache=None if cache is None else cache.double())
    with pytest.raises(ValueError, match="multiple of segment"):
        layer(4, 2, 1, as_released=True)(torch.zeros(1, 3, D).double(), cache=torch.zeros(1, 3, D).double())


def test_dropout_of_a_single_weight_and_of_almost_all():
    torch.manual_seed(0)
    layer = CausalLongShortAttention(4, 1, window=0, segment=1, rank=1, dropout=0.5).train()
    x, cache = torch.randn(1, 1, 4), torch.randn(1, 1, 4)
    kept = layer.eval()(x, cache=cache)
    zero = layer.out(torch.zeros(1, 1, 4))
    twice = zero + 2 * (kept - zero)
    layer.train()
    found = [layer(x, cache=cache) for _ in range(40)]
    dropped = [torch.allclose(one, zero, atol=1e-6) for one in found]
    assert all(none or torch.allclose(one, twice, atol=1e-5) for none, one in zip(dropped, found))
    assert 5 < sum(dropped) < 35
    almost = CausalLongShortAttention(4, 1, window=2, segment=2, rank=1, dropout=0.99999).train()
    tokens = torch.randn(2, 8, 4, requires_grad=True)
    almost(tokens).sum().backward()
    assert bool(tokens.grad.isfinite().all())
    weights = torch.ones(LANE * 8)
    mark_dropped(weights, 0.99999, torch.Generator().manual_seed(0))
    assert 0 < int((weights > 0).sum()) < 40  # 2^-15 of them: 8 on average
