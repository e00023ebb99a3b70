"""Batches by tokens against slow lists; every pair once; bounds; draws come from the generator alone; fair pools."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from relearn.data.token_batches import BOS, EOS, PAD, Ragged, TokenBatches, TokenPairs
from relearn.methods import batch_source

ids = st.lists(st.integers(4, 99), max_size=9)
some_pairs = st.lists(st.tuples(ids, ids), min_size=1, max_size=40)


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def rows_of(batch: tuple) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """The pairs of a batch, read back; asserts the form of each row on the way."""
    (source, target_in), target_out = batch
    found = []
    for x, y_in, y_out in zip(source.tolist(), target_in.tolist(), target_out.tolist()):
        m, n = x.index(EOS), y_out.index(EOS)
        assert set(x[m + 1 :]) <= {PAD} and set(y_out[n + 1 :]) <= {PAD}
        assert y_in[0] == BOS and y_in[1 : n + 1] == y_out[:n] and set(y_in[n + 1 :]) <= {PAD}
        found.append((tuple(x[:m]), tuple(y_out[:n])))
    return found


def size(pair: tuple) -> int:
    return max(len(pair[0]), len(pair[1])) + 1


@given(some_pairs, st.integers(10, 60), st.integers(1, 5), st.integers(0, 3))
@settings(max_examples=60)
def test_every_pair_once_and_no_batch_too_large(pairs: list, max_tokens: int, bucket: int, seed: int) -> None:
    batches = TokenBatches(pairs, max_tokens=max_tokens, bucket=bucket)
    seen = []
    epoch = list(batches.epoch(generator(seed)))
    for (src, target_in), target_out in epoch:
        assert {one.dtype for one in (src, target_in, target_out)} == {torch.int64}
        assert target_in.shape == target_out.shape and len(src) == len(target_in)
        found = rows_of(((src, target_in), target_out))
        width = max(map(size, found))
        assert max(src.shape[1], target_in.shape[1]) == width and len(found) * width <= max_tokens
        assert src.shape[1] == max(len(x) for x, _ in found) + 1, "no column is padding alone"
        seen += found
    assert sorted(seen) == sorted((tuple(x), tuple(y)) for x, y in pairs)
    assert len(epoch) == batches.batches_per_epoch and len(batches) == len(pairs)


@given(some_pairs, st.integers(10, 60))
@settings(max_examples=40)
def test_the_cut_is_greedy_and_the_same_in_every_epoch(pairs: list, max_tokens: int) -> None:
    batches = TokenBatches(pairs, max_tokens=max_tokens)
    wanted, block = [], []
    for one in sorted(map(size, pairs)):
        if (len(block) + 1) * one > max_tokens:  # ascending: this one is the largest of the block
            wanted.append(len(block))
            block = []
        block.append(one)
    wanted.append(len(block))
    for seed in range(3):
        counts = [len(rows) for rows in batches.rows(generator(seed))]
        assert sorted(counts) == sorted(wanted) and len(counts) == batches.batches_per_epoch
    assert [len(rows) for rows, _ in batches.in_order()] == wanted


def many(count: int = 400) -> TokenPairs:
    """Pairs whose ids say which pair they are; lengths 1 to 12."""
    lengths = torch.randint(1, 13, (count, 2), generator=generator(0)).tolist()
    return TokenPairs.of([([4 + i] * m, [4 + i] * n) for i, (m, n) in enumerate(lengths)])


def flat(batches: TokenBatches, seed: int) -> list[list[int]]:
    return [rows.tolist() for rows in batches.rows(generator(seed))]


def test_draws_come_from_the_generator_alone() -> None:
    batches = TokenBatches(many(), max_tokens=64)
    before = torch.random.get_rng_state()
    assert flat(batches, 1) == flat(batches, 1) != flat(batches, 2)
    pool = batches.pools(seed=3)
    next(pool)
    assert torch.equal(before, torch.random.get_rng_state())
    shared = generator(5)
    first, second = (next(iter(batches.rows(shared))).tolist() for _ in range(2))
    assert first != second, "the next epoch draws on"


def test_companions_change_and_lengths_stay_together() -> None:
    """Not only the order of batches: two pairs of one batch part ways in another epoch (fairseq keeps them)."""
    batches = TokenBatches(many(), max_tokens=64)
    one, two = ({frozenset(rows) for rows in flat(batches, seed)} for seed in (1, 2))
    assert len(one & two) < len(one) / 10
    unmixed = {frozenset(rows.tolist()) for rows, _ in batches.in_order()}
    assert unmixed == {frozenset(rows.tolist()) for rows, _ in batches.in_order()}


def padding(batches: TokenBatches) -> int:
    return sum(int((one == PAD).sum()) for (x, y), _ in batches.epoch(generator(0)) for one in (x, y))


def test_sorting_saves_padding_and_buckets_give_it_back() -> None:
    pairs = many()
    fine, coarse, unsorted = (padding(TokenBatches(pairs, max_tokens=96, bucket=b)) for b in (1, 4, 12))
    assert fine < coarse < unsorted  # 12: all sizes are one, nothing is sorted any more


def test_the_halves_of_a_pool_are_alike() -> None:
    """An initialisation compares the first rows of a pool with the last: sorted rows would make them differ."""
    batches = TokenBatches(many(60), max_tokens=400)  # each pool holds many lengths
    gap, control, pools = [], [], batches.pools(seed=0)
    for _ in range(300):
        lengths = ((next(pools)[0][0]) != PAD).sum(1).double()
        half = len(lengths) // 2
        gap.append(float(lengths[-half:].mean() - lengths[:half].mean()))
        ordered = lengths.sort().values
        control.append(float(ordered[-half:].mean() - ordered[:half].mean()))
    gaps, sorted_gaps = torch.tensor(gap), torch.tensor(control)
    error = float(gaps.std() / len(gap) ** 0.5)
    assert abs(float(gaps.mean())) < 4 * error
    assert float(sorted_gaps.mean()) > 20 * error


def test_pools_never_end_and_leave_small_ones_out() -> None:
    pairs = TokenPairs.of([([4] * 30, [4]), *[([5] * 4, [5] * 3)] * 20])
    batches = TokenBatches(pairs, max_tokens=31)
    pools = batches.pools(seed=0, at_least=4)
    for _ in range(3 * batches.batches_per_epoch):
        (source, _), _ = next(pools)
        assert len(source) >= 4 and not (source == 4).any()
    with pytest.raises(
        ValueError, match="the largest batch has 6 pairs; allowed: at least 7, raise max_tokens"
    ):
        next(batches.pools(seed=0, at_least=7))


def test_in_order_tells_whose_rows_they_are() -> None:
    pairs = many(50)
    seen = []
    for rows, batch in TokenBatches(pairs, max_tokens=40).in_order():
        for row, (x, y) in zip(rows.tolist(), rows_of(batch)):
            assert list(x) == pairs[row][0].tolist() and list(y) == pairs[row][1].tolist()
        seen += rows.tolist()
    assert sorted(seen) == list(range(50))


@given(st.lists(ids, max_size=10))
def test_ragged_rows_come_back_as_they_were(rows: list) -> None:
    ragged = Ragged.of(rows)
    assert [ragged[i].tolist() for i in range(len(ragged))] == rows
    assert ragged.lengths.tolist() == list(map(len, rows))
    if rows:
        order = torch.arange(len(rows)).flip(0)
        width = max(map(len, rows))
        wanted = [[1, *row, 2] + [PAD] * (width - len(row)) for row in rows[::-1]]
        assert ragged.pad(order, first=1, last=2).tolist() == wanted
        assert ragged.pad(order).tolist() == [
            one[1 : len(row) + 1] + [PAD] * (width - len(row)) for one, row in zip(wanted, rows[::-1])
        ]
        assert ragged[-1].tolist() == rows[-1]
    with pytest.raises(IndexError, match="allowed: 0 to"):
        ragged[len(rows)]


def test_the_training_loop_takes_them_as_a_source() -> None:
    batches = TokenBatches(many(30), max_tokens=40)
    assert isinstance(batches, batch_source.Source)
    for batch in batches.epoch(generator(0)):
        (inputs, wanted) = batch
        assert batch_source.rows(batch) == len(wanted) == len(inputs[0])


def test_faults() -> None:
    with pytest.raises(ValueError, match="pairs: none"):
        TokenBatches([], max_tokens=10)
    with pytest.raises(ValueError, match=r"pair 1 has 12 tokens including eos; allowed: max_tokens = 11"):
        TokenBatches([([4], [4]), ([4] * 3, [4] * 11)], max_tokens=11)
    for name in ("max_tokens", "bucket"):
        with pytest.raises(ValueError, match=f"{name} is 0; allowed: 1 or more"):
            TokenBatches([([4], [4])], **({"max_tokens": 9, "bucket": 1} | {name: 0}))
    with pytest.raises(ValueError, match="1 source sentences and 2 target sentences"):
        TokenPairs(Ragged.of([[4]]), Ragged.of([[4], [5]]))
