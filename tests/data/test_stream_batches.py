"""Lanes of a stream: each goes on where it ended, targets one place on, what stays unread, a source of the loop."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from relearn.data.stream_batches import StreamBatches
from relearn.methods.batch_source import Source, rows


@given(st.integers(2, 300), st.integers(1, 5), st.integers(1, 12))
@settings(max_examples=80, deadline=None)
def test_each_lane_is_a_piece_of_the_stream_in_order(count: int, lanes: int, length: int) -> None:
    ids = torch.randperm(count) % 256
    ids = ids.to(torch.uint8)
    lane = (count - 1) // lanes
    if lane < length:
        with pytest.raises(ValueError, match=f"length is {length}; allowed: 1 to {lane}"):
            StreamBatches(ids, length=length, batch_size=lanes)
        return
    batches = StreamBatches(ids.numpy(), length=length, batch_size=lanes)
    epoch = list(batches.epoch(torch.Generator()))
    assert len(epoch) == batches.batches_per_epoch == lane // length
    read = torch.cat([inputs for (inputs, _), _ in epoch], 1)
    following = torch.cat([targets for _, targets in epoch], 1)
    assert read.dtype == following.dtype == torch.int64
    for b in range(lanes):
        kept = lane // length * length
        assert read[b].tolist() == ids[b * lane : b * lane + kept].tolist()
        assert following[b].tolist() == ids[b * lane + 1 : b * lane + kept + 1].tolist()
    assert (
        count - 1 - read.numel() < lanes * length + lanes
    )  # what stays unread is less than a batch and a bit
    assert [fresh.tolist() for (_, fresh), _ in epoch] == [[k == 0] * lanes for k in range(len(epoch))]


def test_the_training_loop_takes_them_as_a_source_and_nothing_is_drawn() -> None:
    batches = StreamBatches(torch.arange(50, dtype=torch.uint8), length=4, batch_size=3)
    assert isinstance(batches, Source)
    generator = torch.Generator().manual_seed(1)
    before = generator.get_state()
    one, two = list(batches.epoch(generator)), list(batches.epoch(generator))
    assert torch.equal(generator.get_state(), before)
    for (a, _), (b, _) in zip((batch[0] for batch in one), (batch[0] for batch in two), strict=True):
        assert torch.equal(a, b)
    assert rows(one[0]) == 3


def test_faults() -> None:
    ids = torch.zeros(9, dtype=torch.uint8)
    with pytest.raises(ValueError, match="length is 0; allowed: 1 or more"):
        StreamBatches(ids, length=0, batch_size=1)
    with pytest.raises(ValueError, match="batch_size is 0; allowed: 1 or more"):
        StreamBatches(ids, length=1, batch_size=0)
    with pytest.raises(
        ValueError, match="length is 9; allowed: 1 to 8, as a stream of 9 characters in 1 lanes"
    ):
        StreamBatches(ids, length=9, batch_size=1)
