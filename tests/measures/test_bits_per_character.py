"""Bits per character: against a slow float64 sum over every context, invariants of windows, cached and windowed alike."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from relearn.measures.bits_per_character import cached, windowed, windows

V = 5
WEIGHTS = torch.randn(40, V, V, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def predict(tokens: Tensor) -> Tensor:
    """A causal network whose logits depend on all characters read and on how far back each lies, up to 40."""
    batch, length = tokens.shape
    logits = torch.zeros(batch, length, V, dtype=torch.float64)
    for back in range(min(length, 40)):
        logits[:, back:] += WEIGHTS[back][tokens[:, : length - back]]
    return logits


def slow(ids: list[int], context: int, step: int) -> float:
    """Character by character: which window scores it, hence what it is predicted from."""
    bits = 0.0
    for t in range(1, len(ids)):
        last = len(ids) - 1
        if t <= context:
            start = 0
        else:  # windows end at context + k step, the last one at the end
            end = min(context + math.ceil((t - context) / step) * step, last)
            start = end - context
        chances = predict(torch.tensor([ids[start:t]]))[0, -1].softmax(-1)
        bits -= math.log2(float(chances[ids[t]]))
    return bits / (len(ids) - 1)


streams = st.lists(st.integers(0, V - 1), min_size=2, max_size=30)


@given(streams, st.integers(1, 12), st.integers(1, 12), st.integers(1, 4))
@settings(max_examples=60)
def test_windows_give_what_a_slow_sum_gives(ids: list[int], context: int, step: int, batch: int) -> None:
    step = min(step, context)
    found = windowed(
        predict, torch.tensor(ids, dtype=torch.uint8), context=context, step=step, batch_size=batch
    )
    assert found == pytest.approx(slow(ids, context, step), rel=1e-10)


@given(st.integers(2, 400), st.integers(1, 60), st.integers(1, 60))
@settings(max_examples=200)
def test_every_character_is_scored_once_from_enough_context(count: int, context: int, step: int) -> None:
    step = min(step, context)
    scored: list[int] = []
    for number, one in enumerate(windows(count, context=context, step=step)):
        assert 0 <= one.start < one.end < count and one.end - one.start <= context
        places = range(one.end - one.scored + 1, one.end + 1)
        scored += places
        if number:
            assert one.end - one.start == context
            assert all(context - step + 1 <= place - one.start <= context for place in places)
    assert scored == list(range(1, count))


def test_a_uniform_network_costs_the_logarithm_of_the_vocabulary() -> None:
    ids = torch.randint(8, (57,), dtype=torch.uint8)
    for kind in (torch.float32, torch.float64, torch.bfloat16):

        def flat(tokens: Tensor, kind: torch.dtype = kind) -> Tensor:
            return torch.zeros(*tokens.shape, 8, dtype=kind)

        assert windowed(flat, ids, context=10, step=3) == pytest.approx(3.0)
        assert cached(lambda x, kept, flat=flat: (flat(x), None), ids, step=3) == pytest.approx(3.0)


def reader(context: int):
    """The same network, which keeps the last ``context`` characters themselves."""

    def read(tokens: Tensor, kept: Tensor | None) -> tuple[Tensor, Tensor]:
        whole = tokens if kept is None else torch.cat([kept, tokens], 1)
        return predict(whole)[:, -tokens.shape[1] :], whole[:, -context:]

    return read


@given(streams, st.integers(1, 12), st.integers(1, 12))
@settings(max_examples=60)
def test_pieces_with_a_cache_see_the_context_before_them(ids: list[int], context: int, step: int) -> None:
    bits = 0.0
    for t in range(1, len(ids)):
        piece = (t - 1) // step * step  # the input that begins t's piece
        chances = predict(torch.tensor([ids[max(0, piece - context) : t]]))[0, -1].softmax(-1)
        bits -= math.log2(float(chances[ids[t]]))
    found = cached(reader(context), torch.tensor(ids, dtype=torch.uint8), step=step)
    assert found == pytest.approx(bits / (len(ids) - 1), rel=1e-10)


def test_with_the_whole_stream_for_context_both_ways_agree_and_a_short_context_differs() -> None:
    ids = torch.randint(V, (33,), dtype=torch.uint8, generator=torch.Generator().manual_seed(2))
    whole = windowed(predict, ids, context=32, step=7)
    assert cached(reader(32), ids, step=7) == pytest.approx(whole, rel=1e-12)
    assert abs(windowed(predict, ids, context=4, step=2) - whole) > 1e-3  # the control


def test_faults() -> None:
    with pytest.raises(ValueError, match="characters is 1; allowed: 2 or more"):
        windows(1, context=2, step=1)
    with pytest.raises(ValueError, match="step is 3; allowed: 1 to 2, the context"):
        windows(5, context=2, step=3)
    for wrong in ({"context": 0, "step": 1}, {"context": 1, "step": 0}):
        with pytest.raises(ValueError, match="is 0; allowed: 1 or more"):
            windows(5, **wrong)
    with pytest.raises(ValueError, match="step is 0; allowed: 1 or more"):
        cached(reader(1), torch.zeros(5, dtype=torch.uint8), step=0)
    with pytest.raises(ValueError, match="characters is 1; allowed: 2 or more"):
        cached(reader(1), torch.zeros(1, dtype=torch.uint8), step=1)


@pytest.mark.parametrize("size", [0, -1])
def test_an_empty_batch_is_refused(size):
    with pytest.raises(ValueError, match=f"batch_size is {size}; allowed: 1 or more"):
        windowed(
            lambda ids: torch.zeros(*ids.shape, 4), torch.arange(9) % 4, context=4, step=2, batch_size=size
        )
