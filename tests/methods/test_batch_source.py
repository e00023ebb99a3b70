"""Batches: what a source over tensors yields, how a batch is shared, what becomes of bytes."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from relearn.methods.batch_source import Resident, Source, outputs, pixels, rows, share


@given(count=st.integers(2, 40), batch_size=st.integers(2, 45), seed=st.integers(0, 99))
def test_an_epoch_is_a_permutation_in_slices_and_as_many_as_announced(count, batch_size, seed):
    source = Resident((torch.arange(count), torch.arange(count) * 2), batch_size)
    batches = list(source.epoch(torch.Generator().manual_seed(seed)))
    assert len(batches) == source.batches_per_epoch
    seen = [int(i) for batch in batches for i in batch[0]]
    assert len(set(seen)) == len(seen) == count - (count % batch_size == 1)
    assert all(torch.equal(b[0] * 2, b[1]) for b in batches)
    assert source.smallest == min(len(b[0]) for b in batches)
    again = list(source.epoch(torch.Generator().manual_seed(seed)))
    assert all(torch.equal(a[0], b[0]) for a, b in zip(batches, again, strict=True))


@given(count=st.integers(1, 30), size=st.integers(1, 8))
def test_shares_are_a_partition_in_order_and_differ_by_at_most_one_row(count, size):
    batch = [(torch.arange(count), torch.arange(count) + 100), torch.arange(count) + 200]
    if count < size:
        with pytest.raises(ValueError, match=f"a batch of {count} rows, allowed are at least {size}"):
            share(batch, 0, size)
        return
    parts = [share(batch, rank, size) for rank in range(size)]
    lengths = [rows(part) for part in parts]
    assert max(lengths) - min(lengths) <= 1
    assert torch.equal(torch.cat([part[0][0] for part in parts]), batch[0][0])
    assert torch.equal(torch.cat([part[0][1] for part in parts]), batch[0][1])
    assert torch.equal(torch.cat([part[1] for part in parts]), batch[1])


def test_bytes_become_pixels_and_other_inputs_stay():
    device = torch.device("cpu")
    images = torch.tensor([0, 51, 255], dtype=torch.uint8)
    assert pixels([images, images], device)[0].tolist() == pytest.approx([0.0, 0.2, 1.0])
    assert pixels([images, images], device)[1] is images
    tokens = (torch.tensor([[1, 2]]), torch.tensor([[3, 4]]))
    kept = pixels([tokens, images], device)[0]
    assert all(a is b for a, b in zip(kept, tokens, strict=True))


def test_a_tuple_of_inputs_is_splatted():
    class Two(nn.Module):
        def forward(self, a, b=None):
            return a if b is None else a - b

    one, two = torch.tensor([3.0]), torch.tensor([1.0])
    assert float(outputs(Two(), (one, two))) == 2.0 and float(outputs(Two(), one)) == 3.0


def test_resident_is_a_source_and_tensors_are_not():
    data = (torch.zeros(4),)
    assert isinstance(Resident(data, 2), Source) and not isinstance(data, Source)


@pytest.mark.parametrize(
    "data,size,message",
    [
        ((torch.zeros(4), torch.zeros(3)), 2, "unequal length"),
        ((torch.zeros(1),), 2, "1 samples, at least 2"),
        ((torch.zeros(4),), 1, "batch_size: found 1, allowed is 2 or more"),
    ],
)
def test_impossible_data_are_refused(data, size, message):
    with pytest.raises(ValueError, match=message):
        Resident(data, size)
