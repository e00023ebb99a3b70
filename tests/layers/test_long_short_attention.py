"""Bidirectional long-short attention against dense attention with a mask: every n, w, r, mask, class token; gradients; padding."""

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from relearn.layers import long_short_core, window_mix
from relearn.layers.dynamic_projection import Compression
from relearn.layers.long_short_attention import LongShortAttention


def layer(dim: int, heads: int, seed: int = 0, **kw: Any) -> LongShortAttention:
    torch.manual_seed(seed)
    one = LongShortAttention(dim, heads, **kw).double()
    for parameter in one.parameters():
        nn.init.normal_(parameter, std=0.7)
    return one


def tokens(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def norm(u: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float) -> Tensor:
    """Rows of u (n, D), in groups as long as the weight."""
    if weight is None or bias is None:
        return u
    groups = u.reshape(len(u), -1, len(weight))
    centred = groups - groups.mean(-1, keepdim=True)
    return (centred / (centred.square().mean(-1, keepdim=True) + eps).sqrt() * weight + bias).reshape_as(u)


def dense(one: LongShortAttention, x: Tensor, real: Tensor | None = None) -> Tensor:
    """One sequence (n, D) by an n x (c + r + n) table of logits, most of them -inf; the definition, nothing shared."""
    c, (length, dim), heads, w = one.class_token, x.shape, one.heads, one.window
    d = dim // heads
    real = torch.ones(length, dtype=torch.bool) if real is None else real
    x = torch.where(real[:, None], x, 0.0)
    q, k, v = (
        x @ part.T + (0 if one.qkv.bias is None else b)
        for part, b in zip(
            one.qkv.weight.split(dim),
            (one.qkv.bias if one.qkv.bias is not None else torch.zeros(3 * dim)).split(dim),
        )
    )
    lw, lb, gw, gb = one.norms
    near = [norm(u, lw, lb, one.form.eps) for u in (k, v)]
    compressed = [torch.zeros(0, dim, dtype=x.dtype)] * 2
    if one.score is not None:
        scores = x[c:] @ one.score.weight.T
        scores[~real[c:]] = -math.inf
        weights = scores.softmax(0).reshape(-1, heads, one.rank)
        compressed = [
            torch.cat([weights[:, h].T @ u[c:, h * d : (h + 1) * d] for h in range(heads)], 1) for u in near
        ]
    if one.as_released:  # the class token is one of the compressed ones
        long = [norm(torch.cat([raw[:c], u]), gw, gb, one.form.eps) for raw, u in zip((k, v), compressed)]
    else:
        long = [torch.cat([u[:c], norm(z, gw, gb, one.form.eps)]) for u, z in zip(near, compressed)]
    side = max(1, w // 2)
    out = torch.zeros_like(x)
    for h in range(heads):
        part = slice(h * d, (h + 1) * d)
        keys, values = (torch.cat([a[:, part], b[:, part]]) for a, b in zip(long, near))
        seen = torch.zeros(length, len(keys), dtype=torch.bool)
        for t in range(c, length):
            seen[t, : len(long[0])] = True
            for j in range(c, length):
                home = (t - c) // w * w if w else 0
                if w and home - side <= j - c < home + w + side and real[j]:
                    seen[t, len(long[0]) + j] = True
        logits = (q[:, part] @ keys.T / math.sqrt(d)).masked_fill(~seen, -math.inf)
        out[c:, part] = logits[c:].softmax(-1) @ values
        out = torch.where(real[:, None], out, 0.0)
        if c and one.as_released:
            own = torch.cat([k[:1, part], out[1:, part]]), torch.cat([v[:1, part], out[1:, part]])
        elif c:
            own = near[0][:, part], near[1][:, part]
        if c:
            row = (q[:1, part] @ own[0].T / math.sqrt(d)).masked_fill(~real, -math.inf)
            out[0, part] = (row.softmax(-1) @ own[1])[0]
    return out @ one.proj.weight.T + (0 if one.proj.bias is None else one.proj.bias)


def masks(batch: int, length: int, classes: int, seed: int) -> Tensor:
    """Random, holes and all; the class token and one more token are real."""
    torch.manual_seed(seed)
    mask = torch.rand(batch, length) < 0.6
    mask[:, :classes] = True
    mask[torch.arange(batch), torch.randint(classes, length, (batch,))] = True
    return mask


@pytest.mark.parametrize("fused", [True, False])
@given(
    length=st.integers(1, 40),
    window=st.sampled_from([0, 1, 2, 3, 4, 5, 8, 9, 16]),
    rank=st.sampled_from([0, 1, 2, 5, 50]),
    heads=st.sampled_from([1, 2, 3]),
    classes=st.sampled_from([0, 1]),
    kw=st.fixed_dictionaries(
        dict(
            dual_norm=st.booleans(),
            norm_per_head=st.sampled_from([None, True, False]),
            as_released=st.booleans(),
            bias=st.booleans(),
        )
    ),
    masked=st.booleans(),
    seed=st.integers(0, 100),
)
@settings(max_examples=60)
def test_equals_dense_attention(
    fused: bool,
    length: int,
    window: int,
    rank: int,
    heads: int,
    classes: int,
    kw: dict[str, Any],
    masked: bool,
    seed: int,
) -> None:
    if window == rank == 0:
        rank = 2
    one = layer(heads * 2, heads, seed, window=window, rank=rank, class_token=classes, fused=fused, **kw)
    one.requires_grad_(False)
    length += classes
    x = tokens(2, length, heads * 2)
    mask = masks(2, length, classes, seed) if masked else None
    expected = torch.stack([dense(one, u, None if mask is None else mask[b]) for b, u in enumerate(x)])
    torch.testing.assert_close(one(x, mask=mask), expected, rtol=1e-9, atol=1e-9)


CASES: list[dict[str, Any]] = [
    dict(window=4, rank=3),
    dict(window=1, rank=2, dual_norm=False),
    dict(window=0, rank=3),
    dict(window=3, rank=0, bias=False),
    dict(window=8, rank=2, class_token=1),
    dict(window=2, rank=2, class_token=1, as_released=True),
    dict(window=2, rank=0, class_token=1, as_released=True, norm_per_head=True),
]


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every block a piece."""
    monkeypatch.setattr(window_mix, "SCRATCH", {"cpu": 1})


@given(st.integers(1, 3), st.integers(1, 3), st.integers(1, 5000), st.sampled_from([(8, 32), (4, 3), (0, 5)]))
@settings(max_examples=40)
def test_pieces_hold_every_token_of_every_head_once(
    batch: int, heads: int, length: int, sizes: tuple[int, int]
) -> None:
    """And no more logits than are allowed, which are twice as many for a long sequence."""
    window, rank = sizes
    segments = window_mix.Segments(window)
    times = torch.zeros(batch * heads, segments.blocks(length), dtype=torch.int)
    allowed = window_mix.SCRATCH["cpu"] * (2 if length >= window_mix.LONG else 1)
    for piece in window_mix._pieces(
        torch.zeros(batch, heads, length, 1), torch.zeros(2, 1, rank, 1), segments
    ):
        times[piece.rows, piece.first : piece.last] += 1
        count = (piece.stop - piece.start) * (piece.last - piece.first) * segments.block
        assert count * (rank + segments.keys) <= allowed
    assert bool((times == 1).all())


@pytest.mark.parametrize("kw", CASES, ids=str)
@pytest.mark.parametrize("masked", [False, True])
def test_gradients_are_those_of_the_dense_form(kw: dict[str, Any], masked: bool, small_pieces: None) -> None:
    one = layer(4, 2, **kw)
    x = tokens(2, 27, 4).requires_grad_()
    mask = masks(2, 27, one.class_token, 1) if masked else None
    ahead = tokens(2, 27, 4)
    wanted = [x, *one.parameters()]
    slow = torch.stack([dense(one, u, None if mask is None else mask[b]) for b, u in enumerate(x)])
    expected = torch.autograd.grad((slow * ahead).sum(), wanted)
    for fused in (True, False):
        one.fused = fused
        y = one(x, mask=mask)
        torch.testing.assert_close(y, slow, rtol=1e-9, atol=1e-9)
        for found, slope in zip(torch.autograd.grad((y * ahead).sum(), wanted), expected):
            torch.testing.assert_close(found, slope, rtol=1e-8, atol=1e-9)
    assert all(float(slope.abs().max()) > 1e-6 for slope in expected)


@pytest.mark.parametrize("kw", CASES[:1] + CASES[4:6], ids=str)
def test_finite_differences_of_first_and_second_order(kw: dict[str, Any]) -> None:
    one = layer(2, 1, **kw)
    x = tokens(1, 5, 2).requires_grad_()
    mask = torch.tensor([[True, True, False, True, True]])
    assert torch.autograd.gradcheck(lambda u: one(u, mask=mask), (x,), fast_mode=True)
    assert torch.autograd.gradgradcheck(lambda u: one(u, mask=mask), (x,), fast_mode=True)
    given = [
        torch.randn(size, dtype=torch.float64, requires_grad=True) for size in ((1, 2, 3, 5), (2, 1, 2, 5, 2))
    ]
    assert torch.autograd.gradgradcheck(Compression.apply, given)  # in the layer it is below the tolerance


def test_a_full_window_is_full_attention_and_rank_1_is_a_mean() -> None:
    """A window over all tokens is full attention; rank 1 with scores 0 is the mean of the values, for every query."""
    one = layer(4, 2, window=64, rank=0, dual_norm=False).requires_grad_(False)
    x = tokens(2, 11, 4)
    q, k, v = one.qkv(x).unflatten(2, (3, 2, 2)).permute(2, 0, 3, 1, 4)
    full = nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
    torch.testing.assert_close(one(x), one.proj(full), rtol=1e-10, atol=1e-10)
    one = layer(4, 2, window=0, rank=1, dual_norm=False).requires_grad_(False)
    assert one.score is not None
    one.score.weight.zero_()
    mean = one.qkv(x)[..., 8:].mean(1, keepdim=True).expand(-1, 11, -1)
    torch.testing.assert_close(one(x), one.proj(mean), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    ("window", "query", "sees"),
    [
        (8, 9, range(4, 20)),
        (8, 0, range(12)),
        (3, 4, range(2, 7)),
        (1, 5, range(4, 7)),
        (5, 29, range(23, 30)),
    ],
)
def test_a_window_is_the_home_segment_and_half_of_one_on_either_side(
    window: int, query: int, sees: range
) -> None:
    one = layer(2, 1, window=window, rank=0)
    x = tokens(1, 30, 2).requires_grad_()
    (slope,) = torch.autograd.grad(one(x)[0, query].sum(), x)
    assert slope[0].abs().sum(-1).nonzero().flatten().tolist() == list(sees)


@pytest.mark.parametrize("kw", CASES, ids=str)
def test_padding_changes_nothing(kw: dict[str, Any]) -> None:
    """Also padding that is not finite, and any amount of it; the padded come out as the bias; control: without the mask."""
    one = layer(4, 2, **kw).requires_grad_(False)
    x = tokens(2, 13, 4)
    longer = torch.cat([x, torch.full((2, 9, 4), math.nan, dtype=torch.float64)], 1)
    mask = torch.arange(22).expand(2, 22) < 13
    y = one(longer, mask=mask)
    torch.testing.assert_close(y[:, :13], one(x), rtol=1e-10, atol=1e-10)
    rest = torch.zeros(4, dtype=torch.float64) if one.proj.bias is None else one.proj.bias
    torch.testing.assert_close(y[:, 13:], rest.expand(2, 9, 4))
    assert not torch.allclose(one(longer.nan_to_num(1.0))[:, :13], one(x))


def test_sequences_of_a_batch_do_not_meet() -> None:
    one = layer(4, 2, window=4, rank=3, class_token=1).requires_grad_(False)
    x = tokens(3, 10, 4)
    alone = torch.cat([one(u[None]) for u in x])
    torch.testing.assert_close(one(x), alone, rtol=1e-10, atol=1e-10)


def test_dual_norm_aligns_sizes() -> None:
    """At the start keys of windows and compressed ones have the same norm, √d; without, compression makes them smaller."""
    torch.manual_seed(0)
    x = torch.randn(1, 512, 64, dtype=torch.float64)
    sizes = {}
    for dual in (True, False):
        one = LongShortAttention(64, 2, window=8, rank=4, dual_norm=dual).double().requires_grad_(False)
        raw = one.qkv(x)[..., 64:].unflatten(2, (2, 2, 32)).permute(2, 0, 3, 1, 4)
        assert one.score is not None
        hats, long = long_short_core.prepare_keys_values(raw, one.score(x), None, one.norms, one.form)
        sizes[dual] = [float(u.norm(dim=-1).mean()) for u in (hats, long)]
    assert sizes[True] == pytest.approx([math.sqrt(32)] * 2, rel=0.02)
    assert sizes[False][0] > 3 * sizes[False][1]


def test_a_bias_of_the_scores_would_drop_out() -> None:
    """So the layer has none."""
    torch.manual_seed(0)
    scores, shift = tokens(2, 7, 6), tokens(6)
    torch.testing.assert_close((scores + shift).softmax(1), scores.softmax(1))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("kw", CASES, ids=str)
def test_lower_precision_is_near(dtype: torch.dtype, kw: dict[str, Any]) -> None:
    torch.manual_seed(0)
    exact = LongShortAttention(16, 2, **kw).double()
    one = LongShortAttention(16, 2, **kw).to(dtype)
    one.load_state_dict(exact.state_dict())
    x, mask = tokens(2, 21, 16), masks(2, 21, one.class_token, 0)
    found = []
    for which, kind in ((exact, torch.float64), (one, dtype)):
        u = x.to(kind, copy=True).requires_grad_()
        y = which(u, mask=mask)
        y.sum().backward()
        assert y.dtype == kind and u.grad is not None
        found += [y, u.grad]
    for a, b in zip(found[:2], found[2:]):
        # the projections themselves are rounded, and LayerNorm of a head of 8 numbers enlarges that
        torch.testing.assert_close(
            b.double(), a, rtol=0, atol=20 * torch.finfo(dtype).eps * (1 + float(a.detach().abs().max()))
        )


def test_autocast_and_vmap() -> None:
    torch.manual_seed(0)
    one, x = LongShortAttention(8, 2, window=4, rank=3), torch.randn(2, 9, 8)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = one(x)
    torch.testing.assert_close(y.float(), one(x), atol=0.05, rtol=0.05)
    y.float().sum().backward()
    one.fused = False
    torch.testing.assert_close(torch.vmap(lambda u: one(u[None])[0])(x), one(x))


def test_dropout_keeps_the_mean_and_is_off_in_evaluation() -> None:
    """Of weights: zero in expectation; of the output; neither in evaluation."""
    torch.manual_seed(0)
    one = LongShortAttention(4, 2, window=4, rank=3, attention_dropout=0.5).double()
    x = tokens(1, 9, 4)
    plain = one.eval()(x).detach()
    one.train()
    with torch.no_grad():
        drawn = torch.stack([one(x) for _ in range(2000)])
    assert float(drawn.std(0).min()) > 1e-3
    error = (drawn.mean(0) - plain).abs() / (drawn.std(0) / math.sqrt(2000))
    assert float(error.max()) < 5
    one = LongShortAttention(64, 2, dropout=0.5)
    share = float((one(torch.randn(2, 50, 64)) == 0).double().mean())
    assert share == pytest.approx(0.5, abs=0.05)
    assert not bool((one.eval()(torch.randn(2, 50, 64)) == 0).any())


def test_nothing_is_of_size_n_squared() -> None:
    """Of all tensors that are made, none has n² numbers: each is far below at n = 4096."""
    from torch.utils._python_dispatch import TorchDispatchMode

    largest = 0

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            nonlocal largest
            made = func(*args, **(kwargs or {}))
            for one in made if isinstance(made, tuple | list) else [made]:
                if isinstance(one, Tensor):
                    largest = max(largest, one.untyped_storage().nbytes() // one.element_size())
            return made

    for fused in (True, False):
        one = LongShortAttention(8, 2, window=8, rank=4, fused=fused)
        with Watch():
            one(torch.randn(1, 4096, 8, requires_grad=True)).sum().backward()
    assert 0 < largest <= 4096 * 8 * 8


@pytest.mark.parametrize(
    ("kw", "words"),
    [
        (dict(dim=6, heads=4), "heads: 4 of width 6"),
        (dict(window=-1), "window: -1"),
        (dict(rank=-2), "rank: -2"),
        (dict(window=0, rank=0), "both 0"),
        (dict(class_token=2), "class_token: 2"),
        (dict(dropout=1.0), "dropout: 1.0"),
        (dict(attention_dropout=-0.1), "attention_dropout: -0.1"),
        (dict(eps=0.0), "eps: 0.0"),
    ],
)
def test_settings_out_of_range(kw: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words) as caught:
        LongShortAttention(**{"dim": 4, "heads": 2, **kw})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("shape", "mask", "words"),
    [
        ((2, 0, 4), None, "x: shape"),
        ((2, 1, 4), None, "n >= 2"),
        ((2, 3, 5), None, "x: shape"),
        ((3, 4), None, "x: shape"),
        ((2, 3, 4), torch.ones(2, 4, dtype=torch.bool), "mask: shape"),
        ((2, 3, 4), torch.ones(2, 3), "mask: dtype"),
        ((2, 3, 4), torch.tensor([[True] * 3, [True, False, False]]), "sequence 1 is all padding"),
        ((2, 3, 4), torch.tensor([[True] * 3, [False, True, True]]), "class token of sequence 1"),
    ],
)
def test_wrong_inputs_are_refused_in_one_line(
    shape: tuple[int, ...], mask: Tensor | None, words: str
) -> None:
    one = LongShortAttention(4, 2, class_token=1)
    with pytest.raises(ValueError, match=words) as caught:
        one(torch.randn(*shape), mask=mask)
    assert "\n" not in str(caught.value)
