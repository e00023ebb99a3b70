"""The sparse patterns (Longformer, BigBird, Sparse) against attention over the set that each writes down."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from relearn.layers.efficient.big_bird import BigBirdAttention, draw_blocks
from relearn.layers.efficient.blocks import block_attention
from relearn.layers.efficient.longformer import LongformerAttention
from relearn.layers.efficient.sparse import SparseAttention
from relearn.layers.efficient.token_attention import TokenAttention

Sees = Callable[[int, int], bool]


def agree(
    net: TokenAttention, x: Tensor, mask: Tensor | None, sees: Sees, dense, heads_of, first: int = 0
) -> None:
    """The layer's rows at tokens are those of dense attention over ``sees``; rows below ``first`` by the global maps."""
    y = net(x, mask=mask)
    for b, (row, found) in enumerate(zip(x, y)):
        real = [j for j in range(len(row)) if mask is None or mask[b, j]]

        def seen(i: int, j: int, real: list[int] = real) -> bool:
            return j in real and (i not in real or sees(i, j))

        heads = [dense(q, k, v, seen) for q, k, v in heads_of(net, row)]
        if first:
            own = heads_of(net, row, prefix="global_")
            heads = [
                torch.cat([dense(q[:first], k, v, seen), rows[first:]]) for (q, k, v), rows in zip(own, heads)
            ]
        expected = torch.cat(heads, 1) @ net.out.weight.T + net.out.bias
        torch.testing.assert_close(found[real], expected[real])


def some(length: int, masked: bool) -> Tensor | None:
    if not masked:
        return None
    mask = torch.arange(length) % 5 != torch.tensor([[3], [2]])
    mask[:, 0] = True
    return mask


@pytest.mark.parametrize("length", [1, 4, 10, 13])
@pytest.mark.parametrize("window", [2, 6, 40])
@pytest.mark.parametrize("first", [0, 1, 3])
@pytest.mark.parametrize("masked", [False, True])
def test_longformer_is_a_band_with_global_tokens(
    dense, heads_of, woken, tokens, length: int, window: int, first: int, masked: bool
) -> None:
    net = woken(LongformerAttention(6, 2, max_length=13, window=window, global_tokens=first))

    def sees(i: int, j: int) -> bool:
        return abs(i - j) <= window // 2 or j < first or i < first

    agree(net, tokens(2, length, 6), some(length, masked), sees, dense, heads_of, min(first, length))


def test_longformer_starts_with_one_set_of_maps(tokens) -> None:
    net = LongformerAttention(6, 2, max_length=13, global_tokens=1)
    for name in ("q", "k", "v"):
        assert torch.equal(net.get_submodule(f"global_{name}").weight, net.get_submodule(name).weight)


@pytest.mark.parametrize("length", [1, 7, 12, 23])
@pytest.mark.parametrize("random", [0, 2, 9])
@pytest.mark.parametrize("first", [None, 0, 1, 5])
@pytest.mark.parametrize("masked", [False, True])
def test_big_bird_is_its_blocks(
    dense, heads_of, woken, tokens, length: int, random: int, first: int | None, masked: bool
) -> None:
    torch.manual_seed(3)
    net = woken(BigBirdAttention(6, 2, max_length=23, block=3, random=random, global_tokens=first))
    wide = 3 if first is None else first

    def sees(i: int, j: int) -> bool:
        near = abs(i // 3 - j // 3) <= 1
        return near or j // 3 in net.drawn[i // 3].tolist() or j < wide or i < wide

    agree(net, tokens(2, length, 6), some(length, masked), sees, dense, heads_of)


@settings(max_examples=40)
@given(count=st.integers(1, 12), random=st.integers(0, 6), skip=st.integers(0, 3), seed=st.integers(0, 9))
def test_drawn_blocks_are_distinct_and_nobody_s_neighbours(
    count: int, random: int, skip: int, seed: int
) -> None:
    torch.manual_seed(seed)
    drawn = draw_blocks(count, random, skip)
    assert drawn.shape == (count, random)
    for i, row in enumerate(drawn.tolist()):
        allowed = {j for j in range(skip, count) if abs(i - j) > 1}
        found = [j for j in row if j >= 0]
        assert len(found) == len(set(found)) == min(random, len(allowed))
        assert set(found) <= allowed


def test_every_block_that_may_be_drawn_is() -> None:
    torch.manual_seed(0)
    found = {int(draw_blocks(7, 1, 1)[3, 0]) for _ in range(60)}
    assert found == {1, 5, 6}


@pytest.mark.parametrize("length", [1, 4, 10, 23])
@pytest.mark.parametrize("stride", [1, 3, 5, 30])
@pytest.mark.parametrize("masked", [False, True])
def test_sparse_sees_near_tokens_and_every_lth(
    dense, heads_of, woken, tokens, length: int, stride: int, masked: bool
) -> None:
    net = woken(SparseAttention(6, 2, max_length=23, stride=stride))

    def sees(i: int, j: int) -> bool:
        return abs(i - j) < stride or (i - j) % stride == 0

    agree(net, tokens(2, length, 6), some(length, masked), sees, dense, heads_of)


@pytest.mark.parametrize(("length", "stride"), [(1, 1), (2, 2), (16, 4), (17, 5), (4096, 64)])
def test_the_stride_is_the_root_of_the_length(length: int, stride: int) -> None:
    assert SparseAttention(4, 1, max_length=length).stride == stride


def test_a_block_that_sees_nothing_is_finite() -> None:
    x = torch.randn(1, 1, 6, 2)
    mask = torch.tensor([[True, True, True, False, False, False]])
    y = block_attention(x, x, x, size=3, table=torch.tensor([[0], [1]]), mask=mask)
    assert y.isfinite().all()


@pytest.mark.parametrize(
    ("build", "arguments", "words"),
    [
        (LongformerAttention, {"window": 3}, "window: 3"),
        (LongformerAttention, {"window": 0}, "window: 0"),
        (LongformerAttention, {"global_tokens": -1}, "global_tokens: -1"),
        (BigBirdAttention, {"block": 0}, "block: 0"),
        (BigBirdAttention, {"random": -1}, "random: -1"),
        (BigBirdAttention, {"global_tokens": -2}, "global_tokens: -2"),
        (SparseAttention, {"stride": 0}, "stride: 0"),
    ],
)
def test_bad_arguments_are_named(build, arguments: dict[str, int], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        build(6, 2, max_length=9, **arguments)
